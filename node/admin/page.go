package admin

import (
	"fmt"
	"html/template"
	"net/http"
	"reflect"

	"ttfabric/node/admin/api"
)

// pageTemplate is the template of the HTML page at GET /v1/, which lists the calls in [api.Routes].
var pageTemplate = template.Must(template.New("").Funcs(template.FuncMap{"type": typeName, "status": http.StatusText, "limits": func() string { return api.Limits }}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>ttfabric: the API of a chip</title>
<style>body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}h2{font:bold 1.05em monospace;margin:1.6em 0 .3em}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1em;margin:.3em 0}dt{font-family:monospace}dd{margin:0}p{margin:.3em 0}</style></head>
<body><h1>The API of a chip</h1>
<p>Bodies and answers are JSON, unless another type stands in parentheses. <a href="/v1/openapi.json">The OpenAPI document</a> describes all fields of the JSON.
Calls marked with * need the fabric's token in the header <code>Authorization: Bearer TOKEN</code>. Errors are problems by RFC 9457. {{limits}}</p>
{{range .}}<h2>{{.Method}} {{.Path}}{{if not .Open}} *{{end}}</h2>
<p>{{.Summary}}</p>
<dl>{{range .Params}}<dt>{{if .Path}}{ {{- .Name -}} }{{else if .Header}}{{.Name}}:{{else}}?{{.Name}}={{end}}</dt><dd>{{.Doc}}{{if .Enum}} One of:{{range .Enum}} {{.}}{{end}}.{{end}}</dd>{{end -}}
{{range .Bodies}}<dt>body</dt><dd>{{type .}}</dd>{{end -}}
{{range .Answers}}<dt>{{.Status}}</dt><dd>{{range $i, $t := .Types}}{{if $i}}, {{end}}{{type $t}}{{end}}{{if .Types}}{{if .Doc}}. {{end}}{{end}}{{.Doc}}{{if .Media}} ({{.Media}}){{end}}</dd>{{range .Headers}}<dt>{{.Name}}:</dt><dd>In the answer: {{.Doc}}</dd>{{end}}{{end -}}
{{range .Failures}}<dt>{{.Status}}</dt><dd>{{status .Status}}. {{.When}}</dd>{{end}}</dl>
{{end}}</body></html>
`))

// typeName returns the name of a value's type in the OpenAPI document.
func typeName(v any) string {
	t := reflect.TypeOf(v)
	switch t.Kind() {
	case reflect.Slice:
		return fmt.Sprintf("list of %s", typeName(reflect.Zero(t.Elem()).Interface()))
	case reflect.Map:
		return "object"
	}
	return api.SchemaName(t)
}
