// Command fits validates JSON values by JSON Schemas. The tests of cmd/ttfabric run it as a process
// of its own. The library that validates takes time whenever a program starts that contains it, and
// these tests start their own program a thousand times.
//
// Each line of the standard input is a JSON object. An object with the key "schema" names a schema.
// An object with the key "value" names the schema by which to validate the value. The answer to each
// is one line on the standard output. The validators allow no field that is not in the schema,
// although other programs must allow further fields.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/url"
	"os"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// request is a line of the standard input.
type request struct {
	Name   string
	Schema map[string]any
	Value  json.RawMessage
}

// answer is a line of the standard output.
type answer struct {
	Error string   // what is wrong with the schema, or with the request
	Why   []string // for each alternative of the schema: why the value does not fit; "": the value fits, or is not given
}

func main() {
	schemas := map[string][]*jsonschema.Schema{}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r request
		if err := in.Decode(&r); err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		if err := out.Encode(answered(schemas, &r)); err != nil {
			log.Fatal(err)
		}
	}
}

func answered(schemas map[string][]*jsonschema.Schema, r *request) (a answer) {
	if r.Schema != nil {
		all, err := compiled(r.Name, r.Schema)
		if err != nil {
			return answer{Error: err.Error()}
		}
		schemas[r.Name] = all
		return answer{Why: make([]string, len(all))}
	}
	if schemas[r.Name] == nil {
		return answer{Error: fmt.Sprintf("%q has no schema", r.Name)}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Value))
	if err != nil {
		return answer{Error: err.Error()}
	}
	for _, s := range schemas[r.Name] {
		why := ""
		if err := s.Validate(v); err != nil {
			why = err.Error()
		}
		a.Why = append(a.Why, why)
	}
	return a
}

// compiled returns the validators of a schema, one for each alternative.
func compiled(name string, s map[string]any) (all []*jsonschema.Schema, err error) {
	c := jsonschema.NewCompiler()
	at := "mem:///" + url.PathEscape(name)
	closeObjects(s)
	if err := c.AddResource(at, s); err != nil {
		return nil, err
	}
	refs := []string{at}
	if alternatives, ok := s["anyOf"].([]any); ok {
		refs = refs[:0]
		for i := range alternatives {
			refs = append(refs, fmt.Sprintf("%s#/anyOf/%d", at, i))
		}
	}
	for _, r := range refs {
		v, err := c.Compile(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, v)
	}
	return all, nil
}

func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, fields := v["properties"].(map[string]any); fields && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, x := range v {
			closeObjects(x)
		}
	case []any:
		for _, x := range v {
			closeObjects(x)
		}
	}
}
