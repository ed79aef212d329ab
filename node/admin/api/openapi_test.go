package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"ttfabric/node/admin/api/schema"
	"ttfabric/wire"
)

var rewrite = flag.Bool("rewrite", false, "write openapi.json anew instead of comparing; look at the changes before you commit the file")

// TestOpenAPI generates the OpenAPI document from Routes, the types of bodies and answers, and the
// comments of these types. The result must be equal to the file openapi.json.
func TestOpenAPI(t *testing.T) {
	closed := map[reflect.Type]bool{}
	d := &document{schema.Generator{Root: filepath.Join("..", "..", ".."), Refs: "#/components/schemas/", Name: SchemaName, Known: known, Closed: closed,
		Own: func(rt reflect.Type) bool { return SchemaName(rt) == rt.Name() }}}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d.of(t, Routes)); err != nil {
		t.Fatal(err)
	}
	if err := d.Err(); err != nil {
		t.Error(err)
	}
	if *rewrite {
		if err := os.WriteFile("openapi.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), OpenAPI) {
		t.Error("openapi.json differs from the document generated from the routes and their types; 'go test ./node/admin/api -run OpenAPI -rewrite' writes the file anew")
	}
}

type object = schema.Object

// document is an OpenAPI document under construction.
type document struct{ schema.Generator }

func (d *document) of(t *testing.T, routes []Route) object {
	paths := object{}
	for i := range routes {
		r := &routes[i]
		for _, b := range r.Bodies {
			d.close(reflect.TypeOf(b))
		}
	}
	for i := range routes {
		r := &routes[i]
		if paths[r.Path] == nil {
			paths[r.Path] = object{}
		}
		method := strings.ToLower(r.Method)
		if paths[r.Path].(object)[method] != nil {
			t.Errorf("%s %s is in the table twice", r.Method, r.Path)
		}
		paths[r.Path].(object)[method] = d.operation(t, r)
	}
	d.Of(reflect.TypeFor[Problem]())
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "ttfabric: the API of a chip", "version": "1",
			"description": "Each chip of a fabric serves this API. A field that is missing from a body counts as zero, false or empty. An unknown field in a body is an error. " +
				"In a body, the number of an enumeration's value may stand for the value's name. The chip answers with names. " + AddrNumbers + " " + Limits},
		"paths": paths,
		"components": object{"schemas": d.Schemas(),
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "The fabric's token, from its run folder."}}},
	}
}

// close marks the struct types in a body as closed.
func (d *document) close(t reflect.Type) {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Map:
		d.close(t.Elem())
	case reflect.Struct:
		d.Closed[t] = true
		for i := range t.NumField() {
			d.close(t.Field(i).Type)
		}
	}
}

func (d *document) operation(t *testing.T, r *Route) object {
	o := object{"operationId": strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(r.Method+r.Path), "-"), "-"),
		"summary": r.Summary, "responses": d.responses(t, r), "security": []object{{"token": []string{}}}}
	if r.Open {
		o["security"] = []object{}
	}
	var params []object
	for _, p := range r.Params {
		params = append(params, d.param(t, &p))
	}
	if params != nil {
		o["parameters"] = params
	}
	if len(r.Bodies) > 0 {
		o["requestBody"] = object{"required": true, "content": object{MediaJSON: object{"schema": d.AnyOf("oneOf", r.Bodies)}},
			"description": fmt.Sprintf("At most %d bytes.", r.Limit())}
	}
	if r.Image {
		o["requestBody"] = object{"required": true, "content": object{MediaImage: object{}}, "description": fmt.Sprintf("A memory image of at most %d bytes.", r.Limit())}
	}
	if !strings.HasSuffix(r.Summary, ".") {
		t.Errorf("%s %s: the summary %q does not end with a full stop", r.Method, r.Path, r.Summary)
	}
	return o
}

func (d *document) param(t *testing.T, p *Param) object {
	s := object{"type": "string"}
	o := object{"name": p.Name, "in": "query", "description": p.Doc, "required": p.Required, "schema": s}
	switch {
	case p.Path:
		o["in"] = "path"
	case p.Header:
		o["in"] = "header"
	}
	switch p.Type.(type) {
	case int, uint64:
		s["type"], s["minimum"] = "integer", 0
		if p.Max > 0 {
			s["maximum"] = p.Max
		}
	case bool:
		s["type"], s["enum"] = "integer", []int{0, 1}
	case Channels:
		o["schema"], o["style"], o["explode"] = d.Of(reflect.TypeOf(p.Type)), "form", false
	case string:
		if p.Enum != nil {
			s["enum"] = p.Enum
		}
		if p.Max > 0 {
			s["maxLength"] = p.Max
		}
	}
	if p.Repeat {
		o["schema"], o["style"], o["explode"] = object{"type": "array", "items": s}, "form", true
	}
	return o
}

func (d *document) responses(t *testing.T, r *Route) object {
	all := object{}
	add := func(status int, media, doc string, schema object) {
		key := fmt.Sprint(status)
		a, _ := all[key].(object)
		if a == nil {
			a = object{"description": doc}
			all[key] = a
		} else if doc != "" {
			a["description"] = strings.TrimSpace(a["description"].(string) + " " + doc)
		}
		if media != "" {
			if a["content"] == nil {
				a["content"] = object{}
			}
			a["content"].(object)[media] = object{"schema": schema}
		}
	}
	for _, a := range r.Answers {
		doc, schema := a.Doc, object{"type": "string"}
		if doc == "" && all[fmt.Sprint(a.Status)] == nil {
			doc = "Done."
		}
		if a.Types != nil {
			schema = d.AnyOf("oneOf", a.Types)
		}
		if a.Media == MediaCapture || a.Media == MediaProfile {
			schema = object{"type": "string", "contentMediaType": a.Media}
		}
		add(a.Status, a.Media, doc, schema)
		for _, h := range a.Headers {
			described := d.param(t, &h)
			all[fmt.Sprint(a.Status)].(object)["headers"] = object{h.Name: object{"description": h.Doc, "required": h.Required, "schema": described["schema"]}}
		}
	}
	for _, f := range r.Failures() {
		add(f.Status, MediaProblem, f.When, d.Of(reflect.TypeFor[Problem]()))
		if http.StatusText(f.Status) == "" || !strings.HasSuffix(f.When, ".") {
			t.Errorf("%s %s: error %d, %q", r.Method, r.Path, f.Status, f.When)
		}
	}
	return all
}

// known returns the schema of a type of the API that has its own JSON encoding, or nil for other
// types.
func known(rt reflect.Type) schema.Object {
	switch rt {
	case reflect.TypeFor[Addr]():
		return schema.Object{"type": "string", "pattern": `^([0-9]+-[0-9]+:)?(0x[0-9a-fA-F]+|[0-9]+)$`, "examples": []string{"0x1000", "1-1:0x1000"}}
	case reflect.TypeFor[Hops]():
		return schema.Object{"type": "array", "items": schema.Object{"type": "string", "enum": Hops(nil).Names()}, "maxItems": wire.MaxHops}
	case reflect.TypeFor[Channels]():
		return schema.Object{"type": "array", "items": schema.Object{"type": "integer", "minimum": 0, "maximum": wire.MaxChannels - 1}}
	}
	return nil
}
