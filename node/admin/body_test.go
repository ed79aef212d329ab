package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/node/flow"
	"ttfabric/wire"
)

// TestDecode checks that decode accepts one JSON object with known fields, and refuses every other
// body.
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
		var b api.DrainBody
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

// TestBenchFailure checks that the message about a failed packet states the reason, for each fate.
func TestBenchFailure(t *testing.T) {
	dst := wire.FabricNodeID{Chip: 3}
	for want, r := range map[string]flow.Result{
		"refused a packet: misaligned": {Fate: flow.FateRefused, Outcome: wire.OutcomeMisaligned},
		"next hop dead":                {Fate: flow.FateLost, Drop: wire.DropNextHopDead},
		"no answer":                    {Fate: flow.FateUnknown, Doubt: flow.DoubtTimeout},
	} {
		if got := benchFailure(dst, &r); !strings.Contains(got, want) || !strings.Contains(got, "M0D3") || strings.Contains(got, "done") {
			t.Errorf("%s: %q", want, got)
		}
	}
}
