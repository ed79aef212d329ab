package api

import (
	_ "embed"
	"reflect"
	"strings"
)

// OpenAPI is the OpenAPI 3.1 document of the API. A test makes it of [Routes],
// the types that they name and the comments of these types.
//
//go:embed openapi.json
var OpenAPI []byte

// SchemaName is the name of a type in the OpenAPI document: a type of another
// package than this one has its package before it.
func SchemaName(t reflect.Type) string {
	if strings.HasSuffix(t.PkgPath(), "/admin/api") {
		return t.Name()
	}
	return t.String()
}
