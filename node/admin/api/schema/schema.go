// Package schema generates JSON Schemas (draft 2020-12) from Go types, and from the comments of the
// types and of their fields. Tests generate the documents that the project ships, and compare them
// with the committed files. The program itself does not use this package.
package schema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"ttfabric/node/losses"
	"ttfabric/node/snapshot"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Object is an object of JSON.
type Object = map[string]any

// Generator generates the schemas of types. The fields must be set before the first call, and must
// not change later.
type Generator struct {
	Root   string                    // the module's root folder, for the comments in its source files
	Refs   string                    // the text of a reference before the name of a type, such as "#/$defs/"
	Name   func(reflect.Type) string // the name of a struct type among the schemas
	Known  func(reflect.Type) Object // the schema of a type with a JSON encoding that this package does not know; nil: no schema
	Closed map[reflect.Type]bool     // types that allow no further fields, and in which a missing field counts as zero
	Own    func(reflect.Type) bool   // whether each field of the type must have a comment; nil: no type

	schemas Object
	docs    map[string]string // comments of types and fields; the keys are PACKAGE.TYPE. and PACKAGE.TYPE.FIELD
	errs    []error
}

// Schemas returns the schemas of all struct types so far, by name.
func (g *Generator) Schemas() Object { return g.schemas }

// Err returns the errors of all types so far.
func (g *Generator) Err() error { return errors.Join(g.errs...) }

func (g *Generator) errorf(format string, args ...any) {
	g.errs = append(g.errs, fmt.Errorf(format, args...))
}

// AnyOf returns the schema of a value of one of the types. With several types, keyword is the keyword
// that lists their schemas, such as "oneOf".
func (g *Generator) AnyOf(keyword string, vs []any) Object {
	if len(vs) == 1 {
		return g.Of(reflect.TypeOf(vs[0]))
	}
	var all []Object
	for _, v := range vs {
		all = append(all, g.Of(reflect.TypeOf(v)))
	}
	return Object{keyword: all}
}

// known returns the schema of a type that has its own JSON encoding, or nil for other types.
func (g *Generator) known(rt reflect.Type) Object {
	named := func(names []string, of reflect.Type) Object {
		ps := Object{}
		for _, n := range names {
			ps[n] = g.Of(of)
		}
		return Object{"type": "object", "properties": ps, "required": names}
	}
	if g.Known != nil {
		if s := g.Known(rt); s != nil {
			return s
		}
	}
	switch rt {
	case reflect.TypeFor[time.Time]():
		return Object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[time.Duration]():
		return Object{"type": "integer", "format": "int64"}
	case reflect.TypeFor[wire.FabricNodeID]():
		return Object{"type": "string", "pattern": `^M[0-9]+D[0-9]+$`, "examples": []string{"M0D3"}}
	case reflect.TypeFor[wire.Incarnation]():
		return Object{"type": "string", "pattern": `^[0-9a-f]{16}$`}
	case reflect.TypeFor[snapshot.Hex32]():
		return Object{"type": "string", "pattern": `^[0-9a-f]{8}$`}
	case reflect.TypeFor[snapshot.Hex64]():
		return Object{"type": "string", "pattern": `^[0-9a-f]{16}$`}
	case reflect.TypeFor[snapshot.Port]():
		return Object{"type": "string", "pattern": `^M[0-9]+D[0-9]+/[0-9]+$`, "examples": []string{"M0D3/8"}}
	case reflect.TypeFor[wire.Ranges]():
		return Object{"type": "string", "pattern": `^([EWNS][0-9]+(-[0-9]+)?(,[EWNS][0-9]+(-[0-9]+)?)*)?$`, "examples": []string{"E2,N1", "E2-4"}}
	case reflect.TypeFor[wire.Members]():
		return Object{"type": "string", "pattern": `^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$`, "examples": []string{"0-3,7"}}
	case reflect.TypeFor[wire.Channel]():
		return Object{"type": "integer", "minimum": 0, "maximum": wire.MaxChannels - 1}
	case reflect.TypeFor[fault.Kind]():
		var words []string
		for k := fault.KindSet; k <= fault.KindRemoved; k++ {
			words = append(words, k.String())
		}
		return Object{"type": "string", "enum": words}
	case reflect.TypeFor[losses.Count]():
		return named(losses.ClassNames[:], reflect.TypeFor[uint64]())
	case reflect.TypeFor[losses.Classes]():
		return named(losses.ClassNames[:], rt.Elem())
	case reflect.TypeFor[losses.Drops]():
		var reasons []string
		for r := wire.DropReason(1); r < wire.NumDropReasons; r++ {
			reasons = append(reasons, r.String())
		}
		return named(reasons, rt.Elem())
	}
	if e, ok := reflect.Zero(rt).Interface().(interface{ Names() []string }); ok {
		return Object{"type": "string", "enum": e.Names()}
	}
	return nil
}

// Of returns the schema of a type. The schema of a struct type is a reference to its schema in
// [Generator.Schemas].
func (g *Generator) Of(rt reflect.Type) Object {
	if rt.Kind() == reflect.Pointer {
		return g.Of(rt.Elem())
	}
	if s := g.known(rt); s != nil {
		return s
	}
	if rt.Kind() != reflect.Interface && (rt.Implements(reflect.TypeFor[json.Marshaler]()) || rt.Implements(reflect.TypeFor[encoding.TextMarshaler]())) {
		g.errorf("%s has its own JSON encoding, but no schema in the function known", rt)
	}
	switch rt.Kind() {
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.String:
		return Object{"type": "string"}
	case reflect.Float64:
		return Object{"type": "number", "format": "double"}
	case reflect.Int, reflect.Int64:
		return Object{"type": "integer", "format": "int64"}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Object{"type": "integer", "minimum": 0, "format": rt.Kind().String()}
	case reflect.Map:
		if rt.Elem().Kind() == reflect.Interface {
			return Object{"type": "object"}
		}
		return Object{"type": "object", "additionalProperties": g.Of(rt.Elem())}
	case reflect.Slice:
		if rt == reflect.TypeFor[[]byte]() {
			return Object{"type": "string", "contentEncoding": "base64"}
		}
		if rt.Elem().Kind() == reflect.Uint8 && g.known(rt.Elem()) == nil {
			g.errorf("the JSON of %s is a base64 string; use a type that writes a list", rt)
		}
		return Object{"type": "array", "items": g.Of(rt.Elem())}
	case reflect.Array:
		return Object{"type": "array", "items": g.Of(rt.Elem()), "minItems": rt.Len(), "maxItems": rt.Len()}
	case reflect.Struct:
		if rt.Name() == "" {
			return g.object(rt)
		}
		g.component(rt)
		return Object{"$ref": g.Refs + g.Name(rt)}
	}
	g.errorf("%s has no schema", rt)
	return nil
}

// component adds the schema of a struct to the schemas, if the schemas do not have it yet.
func (g *Generator) component(rt reflect.Type) {
	if g.schemas == nil {
		g.schemas = Object{}
	}
	name := g.Name(rt)
	if g.schemas[name] != nil {
		return
	}
	g.schemas[name] = Object{} // ends the recursion of types that contain themselves
	g.schemas[name] = g.object(rt)
}

func (g *Generator) object(rt reflect.Type) Object {
	s, properties, required := Object{"type": "object"}, Object{}, []string{}
	g.fields(rt, properties, &required)
	s["properties"] = properties
	if len(required) > 0 && !g.Closed[rt] { // a field that is missing in a body counts as zero
		s["required"] = required
	}
	if g.Closed[rt] {
		s["additionalProperties"] = false
	}
	if doc := g.doc(rt, ""); doc != "" {
		s["description"] = doc
	}
	return s
}

func (g *Generator) fields(rt reflect.Type, properties Object, required *[]string) {
	for i := range rt.NumField() {
		f := rt.Field(i)
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			g.fields(f.Type, properties, required)
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		if tag == "" {
			tag = f.Name
		}
		optional := strings.Contains(options, "omit")
		p := g.Of(f.Type)
		if f.Type.Kind() == reflect.Pointer && !optional {
			if kind, ok := p["type"].(string); ok {
				p["type"] = []string{kind, "null"}
			} else {
				p = Object{"oneOf": []Object{p, {"type": "null"}}}
			}
		}
		if doc := g.doc(rt, f.Name); doc != "" {
			p["description"] = doc
		} else if g.Own != nil && g.Own(rt) {
			g.errorf("the field %s of %s has no comment", f.Name, rt)
		}
		if !optional {
			*required = append(*required, tag)
		}
		if properties[tag] != nil {
			g.errorf("%s has two fields %q", rt, tag)
		}
		properties[tag] = p
	}
}

// doc returns the comment of a field, or the comment of the type if field is "".
func (g *Generator) doc(rt reflect.Type, field string) string {
	if g.docs == nil {
		g.docs = map[string]string{}
	}
	pkg := rt.PkgPath()
	if _, read := g.docs[pkg]; !read {
		g.docs[pkg] = ""
		g.read(pkg)
	}
	return g.docs[pkg+"."+rt.Name()+"."+field]
}

// links matches references in Go comments, such as [wire.MaxHops].
var links = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// read reads the comments of a package, unless the package belongs to another module.
func (g *Generator) read(pkg string) {
	rest, own := strings.CutPrefix(pkg, "ttfabric/")
	if !own {
		return
	}
	files, err := filepath.Glob(filepath.Join(g.Root, rest, "*.go"))
	if err != nil || len(files) == 0 {
		g.errorf("%s: no files: %v", pkg, err)
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
			g.errorf("%w", err)
			continue
		}
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.TypeSpec)
				g.docs[pkg+"."+s.Name.Name+"."] = text(s.Doc, d.Doc)
				if st, ok := s.Type.(*ast.StructType); ok {
					for _, field := range st.Fields.List {
						for _, n := range field.Names {
							g.docs[pkg+"."+s.Name.Name+"."+n.Name] = text(field.Comment, field.Doc)
						}
					}
				}
			}
		}
	}
}
