package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// enumerations are the types whose values have names in JSON. For each type, the entry has the
// function that returns a value's text in logs and tables.
var enumerations = []struct {
	names  *names
	n      int                // number of values, from 0 on
	people func(uint8) string // returns the text of a value in logs and tables
	differ map[string]string  // names in JSON that differ from the text, by the text with hyphens for spaces
	parse  func([]byte) error
}{
	{&sendTypeNames, 256, func(v uint8) string { return wire.NocSendType(v).String() }, nil, func(b []byte) error { return json.Unmarshal(b, new(SendType)) }},
	{&fateNames, int(flow.FatePosted) + 1, func(v uint8) string { return flow.Fate(v).String() }, map[string]string{"outcome-unknown": "unknown"},
		func(b []byte) error { return json.Unmarshal(b, new(Fate)) }},
	{&outcomeNames, int(wire.NumOutcomes), func(v uint8) string { return wire.Outcome(v).String() }, nil, func(b []byte) error { return json.Unmarshal(b, new(Outcome)) }},
	{&dropNames, int(wire.NumDropReasons), func(v uint8) string { return wire.DropReason(v).String() }, map[string]string{"unknown-reason": "none"},
		func(b []byte) error { return json.Unmarshal(b, new(DropReason)) }},
	{&doubtNames, int(flow.NumDoubts), func(v uint8) string { return flow.Doubt(v).String() },
		map[string]string{"": "none", "destination-restarted-or-missed-the-first-packets": "destination-restarted", "taken-for-a-former-incarnation": "taken-for-former"},
		func(b []byte) error { return json.Unmarshal(b, new(Doubt)) }},
}

// TestNames checks that every value has one name in JSON, and that the name agrees with the value's
// text in logs and tables.
func TestNames(t *testing.T) {
	between := regexp.MustCompile(`[^a-z0-9]+`)
	for _, e := range enumerations {
		seen := map[string]bool{}
		for v := range e.n {
			people := e.people(uint8(v))
			if strings.HasPrefix(people, "noc(") {
				continue // the value is no command
			}
			want := strings.Trim(between.ReplaceAllString(strings.ToLower(people), "-"), "-")
			if w, ok := e.differ[want]; ok {
				want = w
			}
			got, err := e.names.write(uint8(v))
			if string(got) != want || err != nil || seen[want] {
				t.Errorf("%s %d with the text %q has the name %q, want %q: %v", e.names.of, v, people, got, want, err)
			}
			seen[want] = true
			for _, text := range []string{fmt.Sprintf("%q", want), fmt.Sprint(v)} {
				if back, err := e.names.read([]byte(text)); int(back) != v || err != nil {
					t.Errorf("%s %s is read as %d: %v", e.names.of, text, back, err)
				}
			}
		}
		if len(seen) != len(e.names.all) {
			t.Errorf("%d names of the enumeration %s for %d values", len(e.names.all), e.names.of, len(seen))
		}
		for _, text := range []string{`"glad"`, `""`, `100`, `-1`, `1000`, `1.5`, `null`, `{}`, `true`} {
			if err := e.parse([]byte(text)); err == nil || !strings.Contains(err.Error(), e.names.all[0].word) {
				t.Errorf("%s %s: %v, want an error that lists the names", e.names.of, text, err)
			}
		}
		if b, err := e.names.write(200); err == nil {
			t.Errorf("%s 200 has the name %q", e.names.of, b)
		}
	}
}

// TestRequestRoundTrip writes requests of each kind as JSON, and reads the JSON back. The test also
// reads requests with numbers instead of names, as earlier clients send them.
func TestRequestRoundTrip(t *testing.T) {
	dst := wire.FabricNodeID{Mesh: 1, Chip: 3}
	for _, r := range []flow.Request{
		{Dst: dst, Probe: true},
		{Dst: dst, Probe: true, Flush: true},
		{Dst: dst, Plane: 1, Trace: true, Command: wire.Command{Addr: 7}, Payload: []byte("x"), Via: []wire.Direction{wire.East, wire.South}},
		{Dst: dst, Other: true, Command: wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(1, 2, wire.MaxNocOffset), Size: 4096}},
		{Command: wire.Command{Type: wire.NocFusedInc, Addr: 4, Sem: 8, Value: 1 << 31, Flush: true}, Ranges: wire.Ranges{Hops: [4]uint8{2, 0, 1}, Skip: [4]uint8{1}}},
		{Dst: dst, Members: wire.MembersOf(0, 1, 255), Command: wire.Command{Addr: 7}, Payload: []byte("x"), Posted: true},
		{Dst: dst, Command: wire.Command{Type: wire.NocScatterWrite, Chunks: 3, Scatter: [4]wire.NocAddr{4, 8, 12}, Sizes: [4]uint16{1, 2, 3}}, Payload: []byte("abcdef")},
	} {
		text, err := json.Marshal(NewRequest(&r))
		if err != nil {
			t.Fatal(err)
		}
		var b RequestBody
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Request(); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s\nis read as %+v,\nwant       %+v: %v", text, got, r, err)
		}
	}
	var b RequestBody
	old := `{"dst":"M1D3","plane":0,"command":{"Type":4,"Addr":0,"Sem":0,"Value":0,"Flush":false,"Size":6,"Chunks":2,"Scatter":[4,8,0,0],"Sizes":[1,5,0,0]},"via":"AAM="}`
	if err := json.Unmarshal([]byte(old), &b); err != nil {
		t.Fatal(err)
	}
	want := flow.Request{Dst: dst, Via: []wire.Direction{wire.East, wire.South},
		Command: wire.Command{Type: wire.NocScatterWrite, Size: 6, Chunks: 2, Scatter: [4]wire.NocAddr{4, 8}, Sizes: [4]uint16{1, 5}}}
	if got, err := b.Request(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nis read as %+v,\nwant       %+v: %v", old, got, want, err)
	}
	if err := json.Unmarshal([]byte(`{"command":{"type":"scatter-write","scatter":[1,2,3,4,5]}}`), &b); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Request(); err == nil {
		t.Error("a scatter write of five chunks was accepted")
	}
}

// TestAddresses reads addresses in a body with and without a tile.
func TestAddresses(t *testing.T) {
	at := wire.NewNocAddr(1, 2, 0x1000)
	for body, want := range map[string]any{
		`{"tile":"1-2","addr":"0x1000"}`:            at,
		`{"tile":"1-2","addr":"4096"}`:              at,
		`{"addr":"1-2:0x1000"}`:                     at,
		`{"tile":"1-2","addr":"1-2:0x1000"}`:        at,
		`{"tile":"1-2","addr":4096}`:                at,
		fmt.Sprintf(`{"addr":%d}`, at):              at,
		fmt.Sprintf(`{"tile":"1-2","addr":%d}`, at): at,
		`{"addr":4096}`:                             wire.NocAddr(4096),
		`{}`:                                        wire.NocAddr(0),
		`{"tile":"1-2"}`:                            wire.NewNocAddr(1, 2, 0),
		`{"addr":"0x1000"}`:                         `"0x1000" names no tile`,
		`{"tile":"2-1","addr":"1-2:0x10"}`:          `"1-2:0x10" is not in tile "2-1"`,
		`{"tile":"1-1","addr":"0-0:0x0"}`:           `"0-0:0x0" is not in tile "1-1"`,
		`{"tile":"2-1","addr":68719476736}`:         `is not in tile "2-1"`,
		`{"tile":"64-1","addr":"0"}`:                `tile "64-1"`,
		`{"tile":"1-1:0","addr":"0"}`:               `tile "1-1:0"`,
		`{"addr":"1-2"}`:                            `address "1-2"`,
		`{"addr":"1-2:0x1000000000"}`:               `address "1-2:0x1000000000"`,
		`{"addr":"-1"}`:                             `address "-1"`,
		`{"addr":-1}`:                               `address -1`,
		`{"addr":null}`:                             `address null`,
		`{"addr":{}}`:                               `address {}`,
	} {
		var b CommandBody
		err := json.Unmarshal([]byte(body), &b)
		c, err2 := b.command()
		if err == nil {
			err = err2
		}
		switch want := want.(type) {
		case wire.NocAddr:
			if err != nil || c.Addr != want {
				t.Errorf("%s is read as %s, want %s: %v", body, c.Addr, want, err)
			}
		case string:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want an error with %s", body, err, want)
			}
		}
	}
}

// TestResultRoundTrip writes results of each kind as JSON, and reads the JSON back. The test also
// reads results with numbers instead of names, as earlier chips send them.
func TestResultRoundTrip(t *testing.T) {
	dst, other := wire.FabricNodeID{Chip: 3}, wire.FabricNodeID{Chip: 4}
	for want, r := range map[string]flow.Result{
		`{"fate":"done","data":"eA==","nanoseconds":5}`:                    {Data: []byte("x"), Done: 5},
		`{"fate":"refused","outcome":"bad-address","nanoseconds":0}`:       {Fate: flow.FateRefused, Outcome: wire.OutcomeBadAddress},
		`{"fate":"lost","drop":"ttl-expired","at":"M0D0","nanoseconds":0}`: {Fate: flow.FateLost, Drop: wire.DropTTL},
		`{"fate":"lost","nanoseconds":0}`:                                  {Fate: flow.FateLost},
		`{"fate":"unknown","doubt":"route-died","nanoseconds":0}`:          {Fate: flow.FateUnknown, Doubt: flow.DoubtRouteDead},
		`{"fate":"unknown","drop":"timeout","at":"M0D4","doubt":"data-lost","nanoseconds":0}`: {Fate: flow.FateUnknown, Doubt: flow.DoubtData,
			Drop: wire.DropTimeout, At: other},
		`{"fate":"refused","nanoseconds":0,"members":[{"chip":"M0D4","fate":"refused","outcome":"misaligned"}]}`: {Fate: flow.FateRefused,
			Members: []flow.MemberResult{{Node: other, Fate: flow.FateRefused, Outcome: wire.OutcomeMisaligned}}},
	} {
		text, err := json.Marshal(NewResult(&r))
		if string(text) != want || err != nil {
			t.Errorf("%+v is written as\n%s, want\n%s: %v", r, text, want, err)
		}
		var b ResultBody
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatal(err)
		}
		r.Token, r.Dst = 9, dst
		if got := b.result(9, dst); !reflect.DeepEqual(got, r) {
			t.Errorf("%s\nis read as %+v,\nwant       %+v", text, got, r)
		}
	}
	var b ResultBody
	if err := json.Unmarshal([]byte(`{"fate":2,"outcome":0,"drop":6,"at":"M0D4","doubt":0,"nanoseconds":7}`), &b); err != nil {
		t.Fatal(err)
	}
	if got, want := b.result(0, dst), (flow.Result{Dst: dst, Fate: flow.FateLost, Drop: wire.DropUnreachable, At: other, Done: 7}); !reflect.DeepEqual(got, want) {
		t.Errorf("read as %+v, want %+v", got, want)
	}
}

// TestLists writes channels and hops as lists, and reads the lists back. The test also reads the
// forms of an earlier version of the API.
func TestLists(t *testing.T) {
	if b, err := json.Marshal(NetemBody{Channels: Channels{8, 15}}); err != nil || !strings.Contains(string(b), `"channels":[8,15]`) {
		t.Errorf("%s %v", b, err)
	}
	for _, text := range []string{`[8,15]`, `"CA8="`} {
		var c Channels
		if err := json.Unmarshal([]byte(text), &c); err != nil || !reflect.DeepEqual(c, Channels{8, 15}) {
			t.Errorf("%s is read as %v: %v", text, c, err)
		}
	}
	for _, text := range []string{`["E","S"]`, `[0,3]`, `"AAM="`} {
		var h Hops
		if err := json.Unmarshal([]byte(text), &h); err != nil || !reflect.DeepEqual(h, Hops{wire.East, wire.South}) {
			t.Errorf("%s is read as %v: %v", text, h, err)
		}
	}
	for _, text := range []string{`["E","up"]`, `[256]`, `{}`, `"%"`} {
		if err := json.Unmarshal([]byte(text), new(Hops)); err == nil {
			t.Errorf("the hops %s were accepted", text)
		}
	}
	var h Hops
	if err := json.Unmarshal([]byte(`["Z"]`), &h); err != nil || !reflect.DeepEqual(h, Hops{wire.Z}) {
		t.Errorf("direction Z is read as %v: %v", h, err)
	}
	if b, err := json.Marshal(Hops{wire.NumSides}); err == nil {
		t.Errorf("direction %d is written as %s", wire.NumSides, b)
	}
}

// TestLimits checks that the largest batch and the longest line of an answer are within their
// limits.
func TestLimits(t *testing.T) {
	most := flow.Request{Dst: wire.FabricNodeID{Mesh: wire.MaxMeshes - 1, Chip: wire.MaxChipsPerMesh - 1}, Plane: 255, Trace: true, Other: true, Payload: make([]byte, wire.MaxPayload),
		Via: make([]wire.Direction, wire.MaxHops), Ranges: wire.Ranges{Hops: [4]uint8{255, 255, 255, 255}}, Posted: true,
		Command: wire.Command{Type: wire.NocFusedInc, Value: 1<<32 - 1, Flush: true, Size: 1<<16 - 1, Chunks: 4}}
	for i := range wire.MaxScatter {
		most.Command.Scatter[i], most.Command.Sizes[i] = 1<<48-1, 1<<16-1
	}
	most.Command.Addr, most.Command.Sem = 1<<48-1, 1<<48-1
	one, err := json.Marshal(NewRequest(&most))
	if size := MaxBatch * (len(one) + 1); err != nil || size > MaxBatchBody || size < MaxBatchBody/2 {
		t.Errorf("a batch takes up to %d bytes, the limit is %d: %v", size, MaxBatchBody, err)
	}
	end := flow.Result{Fate: flow.FateUnknown, Data: make([]byte, wire.MaxPayload), Done: 1 << 62}
	for range flow.MaxMembers {
		end.Members = append(end.Members, flow.MemberResult{Node: most.Dst, Fate: flow.FateUnknown, Outcome: wire.OutcomeRestarted, Drop: wire.DropTables, At: most.Dst, Doubt: flow.DoubtRestarted})
	}
	line, err := json.Marshal(BatchEnd{MaxBatch, NewResult(&end)})
	if err != nil || len(line) > MaxBatchLine {
		t.Errorf("a line takes up to %d bytes, the limit is %d: %v", len(line), MaxBatchLine, err)
	}
}
