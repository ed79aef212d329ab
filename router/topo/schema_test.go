package topo

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// plainMap converts the keys of all maps in a YAML value to strings, as a JSON schema needs them.
func plainMap(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = plainMap(x[k])
		}
	case map[any]any:
		m := map[string]any{}
		for k, e := range x {
			m[fmt.Sprint(k)] = plainMap(e)
		}
		return m
	case []any:
		for i := range x {
			x[i] = plainMap(x[i])
		}
	}
	return v
}

func readYAML(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return plainMap(v)
}

// against checks value v by a JSON schema (2020-12), and returns a list of errors. The function
// supports only the keywords of tt-umd's schema. Any other keyword is an error.
func against(schema map[string]any, v any, at string) (wrong []string) {
	fail := func(format string, a ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, a...)) }
	m, isMap := v.(map[string]any)
	list, isList := v.([]any)
	text, isText := v.(string)
	number, isNumber := int64(0), true
	switch n := v.(type) {
	case int:
		number = int64(n)
	case uint64: // the number is too large for an int
	default:
		isNumber = false
	}
	for key, want := range schema {
		switch key {
		case "title", "description", "version", "$schema", "additionalProperties", "patternProperties":
		case "type":
			_, isBool := v.(bool)
			if !map[string]bool{"object": isMap, "array": isList, "string": isText, "integer": isNumber, "boolean": isBool}[want.(string)] {
				fail("%T, want %s", v, want)
			}
		case "required":
			for _, k := range want.([]any) {
				if _, ok := m[k.(string)]; isMap && !ok {
					fail("no %s", k)
				}
			}
		case "properties":
			for k, s := range want.(map[string]any) {
				if e, ok := m[k]; ok {
					wrong = append(wrong, against(s.(map[string]any), e, at+"."+k)...)
				}
			}
		case "items":
			for i, e := range list {
				wrong = append(wrong, against(want.(map[string]any), e, fmt.Sprintf("%s[%d]", at, i))...)
			}
		case "minItems", "maxItems":
			if n := want.(int); isList && (key == "minItems" && len(list) < n || key == "maxItems" && len(list) > n) {
				fail("%d items, %s %d", len(list), key, n)
			}
		case "minimum":
			if isNumber && number < int64(want.(int)) {
				fail("%v is below %v", v, want)
			}
		case "enum":
			if !slices.Contains(want.([]any), v) {
				fail("%v is none of %v", v, want)
			}
		case "pattern":
			if isText && !regexp.MustCompile(want.(string)).MatchString(text) {
				fail("%q is not like %s", text, want)
			}
		case "anyOf":
			if !slices.ContainsFunc(want.([]any), func(s any) bool { return len(against(s.(map[string]any), v, at)) == 0 }) {
				fail("%v is none of the forms", v)
			}
		default:
			fail("the schema has %s, which this check doesn't know", key)
		}
	}
	return append(wrong, keysAgainst(schema, m, at)...)
}

// keysAgainst checks the keys of map m that match a pattern of the schema, and the keys that the
// schema does not allow.
func keysAgainst(schema map[string]any, m map[string]any, at string) (wrong []string) {
	named, _ := schema["properties"].(map[string]any)
	patterns, _ := schema["patternProperties"].(map[string]any)
	for k, e := range m {
		_, known := named[k]
		for p, s := range patterns {
			if regexp.MustCompile(p).MatchString(k) {
				known = true
				wrong = append(wrong, against(s.(map[string]any), e, at+"."+k)...)
			}
		}
		if schema["additionalProperties"] == false && !known {
			wrong = append(wrong, at+": "+k+" is not a key of the schema")
		}
	}
	return wrong
}

// TestClusterDescriptorsKeepToTheSchema finds that tt-umd's schema accepts the output of
// EncodeClusterDescriptor. The machines are all built-in machines and all descriptors of testdata
// with one mesh.
func TestClusterDescriptorsKeepToTheSchema(t *testing.T) {
	b, err := os.ReadFile("testdata/umd/schema_cluster_descriptor.yaml")
	if err != nil {
		t.Fatal(err)
	}
	schema := readYAML(t, b).(map[string]any)
	machines := []*Topology{mustName(t, "mesh:1x1"), mustName(t, "mesh:16x16"), mustName(t, "torus:5x4")}
	for _, b := range Builders {
		machines = append(machines, mustName(t, b.Example))
	}
	for _, name := range descriptors(t) {
		m, err := load(t, name)
		if err != nil {
			t.Fatal(err)
		}
		machines = append(machines, m)
	}
	boards := map[string]int{"t3000": 4, "galaxy": 1, "mesh:1x1": 1, "t3k_cluster_desc.yaml": 4, "6u_cluster_desc.yaml": 1, "wormhole_N300.yaml": 1}
	checked := 0
	for _, m := range machines {
		if len(m.Meshes) > 1 {
			continue
		}
		b, err := m.EncodeClusterDescriptor()
		if err != nil {
			t.Fatal(err)
		}
		v := readYAML(t, b)
		for _, wrong := range against(schema, v, m.Name) {
			t.Error(wrong)
		}
		checked++
		if want, ok := boards[m.Name]; ok {
			if got := len(v.(map[string]any)["boards"].([]any)); got != want {
				t.Errorf("%s has %d boards, want %d", m.Name, got, want)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d machines", checked)
	}
	sound, err := mustName(t, "n300").EncodeClusterDescriptor()
	if err != nil {
		t.Fatal(err)
	}
	for old, with := range map[string]string{ // each of these changes breaks the schema
		"0: wormhole_b0":    "0: grayskull",
		"  0: wormhole_b0":  "  x: wormhole_b0",
		"arch:":             "arches:",
		"[0, 0, 0, 0]":      "[0, 0, 0]",
		"[1, 0, 0, 0]":      "[1, -1, 0, 0]",
		"chan: 8}":          "channel: 8}",
		"board_type: n300":  "board_type: n400",
		"noc_translation: ": "translation: ",
	} {
		if in := strings.Replace(string(sound), old, with, 1); in == string(sound) || len(against(schema, readYAML(t, []byte(in)), "f")) == 0 {
			t.Errorf("with %q instead of %q, the check finds no error", with, old)
		}
	}
}
