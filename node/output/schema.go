package output

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	_ "embed"
)

// schemas holds the schemas of all commands. A test of the commands generates the file from the types
// of the data and from the comments of the types.
//
//go:embed schemas.json
var schemas []byte

// defs is the place of the shared schemas in the file and in each document.
const defs = "#/$defs/"

// file is the content of schemas.json.
type file struct {
	Commands map[string]map[string]any `json:"commands"`
	Defs     map[string]any            `json:"$defs"`
}

func read() (f file) {
	if err := json.Unmarshal(schemas, &f); err != nil {
		panic("output: " + err.Error()) // the file is part of the program
	}
	return f
}

// Commands returns the names of all commands that have a schema, sorted.
func Commands() []string { return slices.Sorted(maps.Keys(read().Commands)) }

// Schema returns the JSON Schema (draft 2020-12) of the data that a command prints with -o json. For
// an unknown command, Schema returns false.
func Schema(command string) (map[string]any, bool) {
	f := read()
	s, ok := f.Commands[command]
	if !ok {
		return nil, false
	}
	needed := map[string]any{}
	f.collect(s, needed)
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "ttfabric "+command+" -o json"
	if len(needed) > 0 {
		s["$defs"] = needed
	}
	return s, true
}

// collect adds the shared schemas to which v refers, directly or indirectly, to needed.
func (f *file) collect(v any, needed map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		ref, _ := v["$ref"].(string)
		if name, ok := strings.CutPrefix(ref, defs); ok && needed[name] == nil {
			needed[name] = f.Defs[name]
			f.collect(f.Defs[name], needed)
		}
		for _, x := range v {
			f.collect(x, needed)
		}
	case []any:
		for _, x := range v {
			f.collect(x, needed)
		}
	}
}
