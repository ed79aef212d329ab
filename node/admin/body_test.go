package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestDecode takes one JSON object of known fields and nothing else.
func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		`{"on":true}`:             "",
		" {\"on\":true}\n":        "",
		`{}`:                      "",
		``:                        "want a JSON object",
		`null`:                    "want a JSON object",
		`[{"on":true}]`:           "want a JSON object",
		`{"on":true,"off":true}`:  `unknown field "off"`,
		`{"on":true}{"on":false}`: "more than one",
		`{"on":true} x`:           "more than one",
		`{"on":tr`:                "EOF",
		`{"on":1e400}`:            "cannot unmarshal",
	} {
		var b DrainBody
		err := decode(httptest.NewRequest(http.MethodPut, "/v1/leaving", strings.NewReader(text)), &b)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want == "" && b.On != strings.Contains(text, "true"):
			t.Errorf("%q: read %+v", text, b)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
