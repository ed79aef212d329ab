package api

import (
	_ "embed"
	"reflect"
	"strings"
)

// OpenAPI is the OpenAPI 3.1 document of the API. The test TestOpenAPI generates the document from
// [Routes], from the types in Routes, and from the comments of these types.
//
//go:embed openapi.json
var OpenAPI []byte

// SchemaName returns the name of a type in the OpenAPI document. For a type of another package, the
// name begins with the name of the other package.
func SchemaName(t reflect.Type) string {
	if strings.HasSuffix(t.PkgPath(), "/admin/api") {
		return t.Name()
	}
	return t.String()
}
