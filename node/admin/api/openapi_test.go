package api

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"ttfabric/node/losses"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

var rewrite = flag.Bool("rewrite", false, "write openapi.json anew instead of comparing; look at the changes before you commit the file")

// TestOpenAPI generates the OpenAPI document from Routes, the types of bodies and answers, and the
// comments of these types. The result must be equal to the file openapi.json.
func TestOpenAPI(t *testing.T) {
	d := &document{docs: map[string]string{}, schemas: object{}, closed: map[reflect.Type]bool{}}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d.of(t, Routes)); err != nil {
		t.Fatal(err)
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

type object = map[string]any

// document is an OpenAPI document under construction.
type document struct {
	docs    map[string]string // comments of types and fields; the keys are PACKAGE.TYPE. and PACKAGE.TYPE.FIELD
	schemas object
	closed  map[reflect.Type]bool // types of bodies; the chip refuses unknown fields in them
	parsed  map[string]bool
}

func (d *document) of(t *testing.T, routes []Route) object {
	d.parsed = map[string]bool{}
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
	d.schema(t, reflect.TypeFor[Problem]())
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "ttfabric: the API of a chip", "version": "1",
			"description": "Each chip of a fabric serves this API. A field that is missing from a body counts as zero, false or empty. An unknown field in a body is an error. " +
				"In a body, the number of an enumeration's value may stand for the value's name. The chip answers with names. " + Limits},
		"paths": paths,
		"components": object{"schemas": d.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "The fabric's token, from its run folder."}}},
	}
}

// close marks the struct types in a body as closed.
func (d *document) close(t reflect.Type) {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer, reflect.Map:
		d.close(t.Elem())
	case reflect.Struct:
		d.closed[t] = true
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
		o["requestBody"] = object{"required": true, "content": object{MediaJSON: object{"schema": d.anyOf(t, r.Bodies)}},
			"description": fmt.Sprintf("At most %d bytes.", r.Limit())}
	}
	if !strings.HasSuffix(r.Summary, ".") {
		t.Errorf("%s %s: the summary %q does not end with a full stop", r.Method, r.Path, r.Summary)
	}
	return o
}

func (d *document) param(t *testing.T, p *Param) object {
	s := object{"type": "string"}
	o := object{"name": p.Name, "in": "query", "description": p.Doc, "required": p.Required, "schema": s}
	if p.Path {
		o["in"] = "path"
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
		o["schema"], o["style"], o["explode"] = d.schema(t, reflect.TypeOf(p.Type)), "form", false
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
			schema = d.anyOf(t, a.Types)
		}
		if a.Media == MediaCapture || a.Media == MediaProfile {
			schema = object{"type": "string", "contentMediaType": a.Media}
		}
		add(a.Status, a.Media, doc, schema)
	}
	for _, f := range r.Failures() {
		media, schema := f.Media, object{"type": "string"}
		if media == "" {
			media, schema = MediaProblem, d.schema(t, reflect.TypeFor[Problem]())
		}
		add(f.Status, media, f.When, schema)
		if http.StatusText(f.Status) == "" || !strings.HasSuffix(f.When, ".") {
			t.Errorf("%s %s: error %d, %q", r.Method, r.Path, f.Status, f.When)
		}
	}
	return all
}

func (d *document) anyOf(t *testing.T, vs []any) object {
	if len(vs) == 1 {
		return d.schema(t, reflect.TypeOf(vs[0]))
	}
	var all []object
	for _, v := range vs {
		all = append(all, d.schema(t, reflect.TypeOf(v)))
	}
	return object{"oneOf": all}
}

// known returns the schema of a type that has its own JSON encoding, or nil for other types.
func (d *document) known(t *testing.T, rt reflect.Type) object {
	named := func(names []string, of reflect.Type) object {
		ps := object{}
		for _, n := range names {
			ps[n] = d.schema(t, of)
		}
		return object{"type": "object", "properties": ps, "required": names}
	}
	switch reflect.Zero(rt).Interface().(type) {
	case time.Time:
		return object{"type": "string", "format": "date-time"}
	case wire.FabricNodeID:
		return object{"type": "string", "pattern": `^M[0-9]+D[0-9]+$`, "examples": []string{"M0D3"}}
	case wire.Incarnation:
		return object{"type": "string", "pattern": `^[0-9a-f]{16}$`}
	case wire.Ranges:
		return object{"type": "string", "pattern": `^([EWNS][0-9]+(-[0-9]+)?(,[EWNS][0-9]+(-[0-9]+)?)*)?$`, "examples": []string{"E2,N1", "E2-4"}}
	case wire.Channel:
		return object{"type": "integer", "minimum": 0, "maximum": wire.MaxChannels - 1}
	case fault.Kind:
		var words []string
		for k := fault.KindSet; k <= fault.KindRemoved; k++ {
			words = append(words, k.String())
		}
		return object{"type": "string", "enum": words}
	case losses.Count:
		return named(losses.ClassNames[:], reflect.TypeFor[uint64]())
	case losses.Classes:
		return named(losses.ClassNames[:], rt.Elem())
	case losses.Drops:
		var reasons []string
		for r := wire.DropReason(1); r < wire.NumDropReasons; r++ {
			reasons = append(reasons, r.String())
		}
		return named(reasons, rt.Elem())
	case Hops:
		return object{"type": "array", "items": object{"type": "string", "enum": Hops(nil).Names()}, "maxItems": wire.MaxHops}
	case Channels:
		return object{"type": "array", "items": d.schema(t, rt.Elem())}
	case interface{ Names() []string }:
		return object{"type": "string", "enum": reflect.Zero(rt).Interface().(interface{ Names() []string }).Names()}
	}
	return nil
}

func (d *document) schema(t *testing.T, rt reflect.Type) object {
	if s := d.known(t, rt); s != nil {
		return s
	}
	if rt.Implements(reflect.TypeFor[json.Marshaler]()) || rt.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		t.Errorf("%s has its own JSON encoding, but no schema in the function known", rt)
	}
	switch rt.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float64:
		return object{"type": "number", "format": "double"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "format": "int64"}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0, "format": rt.Kind().String()}
	case reflect.Map:
		if rt.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": d.schema(t, rt.Elem())}
	case reflect.Slice:
		if rt == reflect.TypeFor[[]byte]() {
			return object{"type": "string", "contentEncoding": "base64"}
		}
		if rt.Elem().Kind() == reflect.Uint8 {
			t.Errorf("the JSON of %s is a base64 string; use a type that writes a list", rt)
		}
		return object{"type": "array", "items": d.schema(t, rt.Elem())}
	case reflect.Array:
		return object{"type": "array", "items": d.schema(t, rt.Elem()), "minItems": rt.Len(), "maxItems": rt.Len()}
	case reflect.Struct:
		d.component(t, rt)
		return object{"$ref": "#/components/schemas/" + SchemaName(rt)}
	}
	t.Errorf("%s has no schema", rt)
	return nil
}

// component adds the schema of a struct to the document, if the document does not have the schema
// yet.
func (d *document) component(t *testing.T, rt reflect.Type) {
	name := SchemaName(rt)
	if d.schemas[name] != nil {
		return
	}
	s := object{"type": "object"}
	d.schemas[name] = s
	properties, required := object{}, []string{}
	d.fields(t, rt, properties, &required)
	s["properties"] = properties
	if len(required) > 0 && !d.closed[rt] { // a field that is missing in a body counts as zero
		s["required"] = required
	}
	if d.closed[rt] {
		s["additionalProperties"] = false
	}
	if doc := d.doc(t, rt, ""); doc != "" {
		s["description"] = doc
	}
}

func (d *document) fields(t *testing.T, rt reflect.Type, properties object, required *[]string) {
	for i := range rt.NumField() {
		f := rt.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			d.fields(t, f.Type, properties, required)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		if tag == "" {
			tag = f.Name
		}
		optional, ft := strings.Contains(options, "omit"), f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		p := d.schema(t, ft)
		if f.Type.Kind() == reflect.Pointer && !optional {
			p["type"] = []string{p["type"].(string), "null"}
		}
		if doc := d.doc(t, rt, f.Name); doc != "" {
			p["description"] = doc
		} else if SchemaName(rt) == rt.Name() {
			t.Errorf("the field %s of %s has no comment", f.Name, rt)
		}
		if !optional {
			*required = append(*required, tag)
		}
		if properties[tag] != nil {
			t.Errorf("%s has two fields %q", rt, tag)
		}
		properties[tag] = p
	}
}

// doc returns the comment of a field, or the comment of the type if field is "".
func (d *document) doc(t *testing.T, rt reflect.Type, field string) string {
	if pkg := rt.PkgPath(); !d.parsed[pkg] {
		d.parsed[pkg] = true
		d.parse(t, pkg)
	}
	return d.docs[rt.PkgPath()+"."+rt.Name()+"."+field]
}

// links matches references in Go comments, such as [wire.MaxHops].
var links = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// parse reads the comments of a package. parse skips packages of other modules.
func (d *document) parse(t *testing.T, pkg string) {
	rest, own := strings.CutPrefix(pkg, "ttfabric/")
	if !own {
		return
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", rest, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files: %v", pkg, err)
	}
	text := func(gs ...*ast.CommentGroup) string {
		for _, g := range gs {
			if s := strings.Join(strings.Fields(g.Text()), " "); s != "" {
				return links.ReplaceAllString(s, "$1")
			}
		}
		return ""
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, spec := range g.Specs {
				s := spec.(*ast.TypeSpec)
				d.docs[pkg+"."+s.Name.Name+"."] = text(s.Doc, g.Doc)
				if st, ok := s.Type.(*ast.StructType); ok {
					for _, field := range st.Fields.List {
						for _, n := range field.Names {
							d.docs[pkg+"."+s.Name.Name+"."+n.Name] = text(field.Comment, field.Doc)
						}
					}
				}
			}
		}
	}
}
