package snapshot_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ttfabric/node/admin/api/schema"
	"ttfabric/node/flow"
	"ttfabric/node/sim"
	"ttfabric/node/snapshot"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

var rewrite = flag.Bool("rewrite", false, "write schema.json anew instead of comparing; look at the changes before you commit the file")

// sample returns a snapshot of a simulated mesh of 2×2 chips with requests of several kinds under way.
func sample(t testing.TB, payload bool) *snapshot.File {
	t.Helper()
	m, err := topo.Named("mesh:2x2")
	if err != nil {
		t.Fatal(err)
	}
	d, err := sim.NewDriven(sim.Config{Topology: m, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	for k := range 40 {
		for src := range 4 {
			r := flow.Request{Dst: m.Chips[(src+1+k%3)%4].Node, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 2, 0).Add(64 * (4*k + src))}, Payload: bytes.Repeat([]byte{byte(k)}, 64)}
			switch k % 4 {
			case 1:
				r.Command, r.Payload = wire.Command{Type: wire.NocRead, Addr: r.Command.Addr, Size: 64}, nil
			case 2:
				r = flow.Request{Ranges: [4]wire.Ranges{0: {Hops: [4]uint8{1, 0, 0, 1}}, 1: {Hops: [4]uint8{0, 1, 0, 1}}, 2: {Hops: [4]uint8{1, 0, 1, 0}}, 3: {Hops: [4]uint8{0, 1, 1, 0}}}[src], Command: r.Command, Payload: r.Payload}
			}
			d.Submit(src, r, func(flow.Result) {})
		}
	}
	for from := d.Events(); d.Events() < from+160; {
		if err := d.Run(max(d.Now(), min(d.Next(), mono.Never-1))); err != nil {
			t.Fatal(err)
		}
	}
	return d.Snapshot(payload, true)
}

func encode(t testing.TB, f *snapshot.File) []byte {
	t.Helper()
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSchema generates the schema from the types, compares the schema with the shipped file, and checks
// that a snapshot fits the schema.
func TestSchema(t *testing.T) {
	g := &schema.Generator{Root: "../..", Refs: "#/$defs/", Name: func(rt reflect.Type) string { return rt.Name() }, Own: func(reflect.Type) bool { return true }}
	s := g.Of(reflect.TypeFor[snapshot.File]())
	s["$schema"], s["title"], s["$defs"] = "https://json-schema.org/draft/2020-12/schema", "snapshot of a ttfabric", g.Schemas()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(s); err != nil || g.Err() != nil {
		t.Fatal(err, g.Err())
	}
	if !bytes.Equal(b.Bytes(), snapshot.Schema) {
		if !*rewrite {
			t.Fatal("schema.json differs from the schema of the types; 'go test ./node/snapshot -run TestSchema -rewrite' writes the file anew")
		}
		if err := os.WriteFile("schema.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("snapshot.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range []bool{false, true} {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(encode(t, sample(t, payload))))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(v); err != nil {
			t.Error(err)
		}
	}
}

// change replaces the value at a path of a snapshot, such as chips[0].ports[1].plane.
func change(t *testing.T, b []byte, path string, v any) []byte {
	t.Helper()
	var doc any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`[a-z0-9_]+`).FindAllString(path, -1)
	at := doc
	for i, s := range steps {
		last := i == len(steps)-1
		switch x := at.(type) {
		case map[string]any:
			if _, ok := x[s]; !ok {
				t.Fatalf("%s: no field %s", path, s)
			}
			if last {
				x[s] = v
			}
			at = x[s]
		case []any:
			k, err := strconv.Atoi(s)
			if err != nil || k >= len(x) {
				t.Fatalf("%s: no entry %s of %d", path, s, len(x))
			}
			if last {
				x[k] = v
			}
			at = x[k]
		default:
			t.Fatalf("%s: %s has no parts", path, s)
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// find returns the path of the first place of a snapshot for which the function "wanted" returns true:
// a virtual channel, with its chip, port and number.
func find(t *testing.T, f *snapshot.File, wanted func(*snapshot.VC) bool) string {
	t.Helper()
	for i := range f.Chips {
		for j := range f.Chips[i].Ports {
			for k := range f.Chips[i].Ports[j].VCs {
				if wanted(&f.Chips[i].Ports[j].VCs[k]) {
					return fmt.Sprintf("chips[%d].ports[%d].vcs[%d]", i, j, k)
				}
			}
		}
	}
	t.Fatal("the sample lacks the state that the test needs")
	return ""
}

// TestBadFields changes one field of a valid snapshot at a time. The error must name the field.
func TestBadFields(t *testing.T) {
	f := sample(t, false)
	b := encode(t, f)
	if _, err := snapshot.Decode(b); err != nil {
		t.Fatal(err)
	}
	flying := find(t, f, func(v *snapshot.VC) bool { return len(v.InFlight) > 1 })
	open := ""
	for i := range f.Chips {
		for j := range f.Chips[i].Flows {
			if w := &f.Chips[i].Flows[j]; len(w.Requests) > 1 && w.Group == 0 {
				open = fmt.Sprintf("chips[%d].flows[%d]", i, j)
			}
		}
	}
	arrived := ""
	for i := range f.Chips {
		if len(f.Chips[i].Arrived) > 0 {
			arrived = fmt.Sprintf("chips[%d].arrived[0]", i)
		}
	}
	group := ""
	for i := range f.Chips {
		for j := range f.Chips[i].Flows {
			if w := &f.Chips[i].Flows[j]; w.Group != 0 && len(w.Requests) > 0 {
				group = fmt.Sprintf("chips[%d].flows[%d]", i, j)
			}
		}
	}
	if open == "" || group == "" || arrived == "" {
		t.Fatal("the sample has no flow with two open requests, or no group")
	}
	for _, c := range []struct {
		path  string
		value any
		want  string // beginning of the name in the error; "": path
	}{
		{"format", "x", ""}, {"version", 2, ""}, {"source", "moon", ""}, {"time_ns", -1, ""}, {"options.ttl", -1, ""},
		{"chips[1].chip", "M0D0", ""}, {"chips[1].chip", "M0D3", "chips[2].chip"}, {"chips[0].incarnation", "0000000000000000", ""},
		{"no_answer", []string{"M0D0"}, "no_answer[0]"},
		{"chips[0].ports[1].channel", f.Chips[0].Ports[0].Channel, ""}, {"chips[0].ports[0].direction", "U", ""}, {"chips[0].ports[0].plane", 16, ""}, {"chips[0].ports[0].plane", 3, "chips[0].ports[0].peer"},
		{"chips[0].ports[0].peer", "M0D2/15", ""}, {"chips[0].ports[0].peer", "M0D0/1", ""}, {"chips[0].ports[0].link", "loose", ""}, {"chips[0].ports[0].router", "asleep", ""},
		{"chips[0].ports[0].by", 14, "chips[0].ports[0].by"}, {"chips[0].ports[0].unacked", -1, ""}, {"chips[0].ports[0].session", "00000001", "chips["},
		{flying + ".credits", -1, ""}, {flying + ".credits", 70000, ""}, {flying + ".receiver_slots", 1, flying + ".in_flight"}, {flying + ".receiver_slots", 1 << 20, ""}, {flying + ".sender_slots", -1, ""},
		{flying + ".received", 1 << 30, flying + ".in_flight"}, {flying + ".senders", []any{}, ""}, {flying + ".vc", "fast", "no virtual channel"},
		{flying + ".in_flight[1].head", "AAAA", ""}, {flying + ".in_flight[1].id", "0000000000000001", ""}, {flying + ".in_flight[1].ttl", 999, ""}, {flying + ".in_flight[1].bytes", 0, ""}, {flying + ".in_flight[1].bytes", 1 << 30, ""},
		{flying + ".in_flight[1].src", "M0D77", ""}, {flying + ".in_flight[1].type", "letter", ""}, {flying + ".in_flight[1].parts", 1, ""}, {flying + ".in_flight[1].age_ms", -4, ""},
		{"chips[0].tables.routes[0].l0[1]", "E!", ""}, {"chips[0].tables.routes[0].l0[1]", "EE", ""}, {"chips[0].tables.routes[0].l0[1]", "S", ""}, {"chips[0].tables.routes[0].l0[0]", "E", ""}, {"chips[0].tables.routes[0].l0", []any{}, ""},
		{"chips[0].tables.routes[0].planes", []int{17}, ""}, {"chips[0].tables.routes[0].class", "first", ""},
		{open + ".next", 1 << 20, open + ".requests"}, {open + ".requests[1].id", "0000000000000001", ""}, {open + ".requests[0].seq", 1 << 20, ""}, {open + ".requests[0].age_ns", -1, ""}, {open + ".dst", "M0D0", "chips["},
		{open + ".via", "up", ""}, {open + ".ends", []any{}, ""}, {open + ".group", 3, ""}, {open + ".flushes", []any{map[string]any{"seq": 1 << 20, "missed": 0}}, open + ".flushes[0]"},
		{group + ".requests[0].waits", []int{9}, group + ".requests[0].waits[0]"}, {group + ".ranges", nil, group + ".group"},
		{arrived + ".next", uint32(1) << 31, arrived}, {arrived + ".exceptions", []any{map[string]any{"first": 0, "count": 0, "outcome": 1}}, arrived + ".exceptions[0]"},
		{"chips[0].memory[0].x", 99, "chips[0].memory[0]"}, {"cables[0].state", "warm", ""}, {"cables[0].a", "M0D9/0", "cables[0]"}, {"cables[1].a", f.Cables[0].A, "cables[1]"},
	} {
		_, err := snapshot.Decode(change(t, b, c.path, c.value))
		want := c.want
		if want == "" {
			want = c.path
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s = %v: %v, want an error that names %s", c.path, c.value, err, want)
		}
	}
	if _, err := snapshot.Decode(bytes.Replace(b, []byte(`"cut":`), []byte(`"knife":1,"cut":`), 1)); err == nil || !strings.Contains(err.Error(), "knife") {
		t.Errorf("an unknown field gives %v", err)
	}
}

// TestAccountFinds takes a packet out of a snapshot, puts the packet in twice, and takes away the open
// requests of the packet's source. Account must find each change.
func TestAccountFinds(t *testing.T) {
	f := sample(t, false)
	if a := f.Account(); len(a.Missing)+len(a.Strays)+len(a.Doubles) > 0 || a.UnderWay == 0 {
		t.Fatalf("%+v", a)
	}
	var list *[]snapshot.Packet
	for i := range f.Chips {
		for j := range f.Chips[i].Ports {
			for k := range f.Chips[i].Ports[j].VCs {
				x := &f.Chips[i].Ports[j].VCs[k]
				for _, l := range []*[]snapshot.Packet{&x.InFlight, &x.Receiver, &x.Senders[0], &x.Senders[1], &x.Senders[2], &x.Senders[3]} {
					if len(*l) > 0 && (*l)[0].Type == "request" && wire.PacketView((*l)[0].Head).Group() == 0 {
						list = l
					}
				}
			}
		}
	}
	if list == nil {
		t.Fatal("the sample has no unicast request under way")
	}
	all := *list
	p := all[0]
	*list = all[1:]
	if a := f.Account(); len(a.Missing) != 1 || a.Missing[0] != p.ID {
		t.Errorf("without a packet: %+v, want %016x as missing", a, uint64(p.ID))
	}
	*list = append([]snapshot.Packet{p}, all...)
	if a := f.Account(); len(a.Doubles) != 1 || a.Doubles[0] != p.ID {
		t.Errorf("with a packet twice: %+v, want %016x as double", a, uint64(p.ID))
	}
	*list = all
	for i := range f.Chips {
		if f.Chips[i].Node == p.Src {
			f.Chips[i].Flows = nil
		}
	}
	if a := f.Account(); len(a.Strays) == 0 {
		t.Errorf("without the open requests of %s: %+v, want strays", p.Src, a)
	}
}

// TestDiff compares a snapshot with itself, and with changed copies.
func TestDiff(t *testing.T) {
	f := sample(t, false)
	if ds := snapshot.Diff(f, sample(t, false)); len(ds) != 0 {
		t.Errorf("two equal snapshots differ: %+v", ds)
	}
	b := encode(t, f)
	var g snapshot.File
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	g.Chips[0].Ports[0].Link = "training"
	g.Chips[1].Tables.Routes[0].L0[0] = "x"
	g.Chips = g.Chips[:3]
	got := map[string]string{}
	for _, d := range snapshot.Diff(f, &g) {
		got[d.Kind+" "+d.Where+" "+d.What] = d.Before + " > " + d.After
	}
	port := snapshot.Port{Node: f.Chips[0].Node, Channel: f.Chips[0].Ports[0].Channel}
	for what, want := range map[string]string{"port " + port.String() + " link": "up > training", "tables M0D1 request to D0 on plane 0": f.Chips[1].Tables.Routes[0].L0[0] + " > x", "chip M0D3 state": "known > "} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q; all: %v", what, got[what], want, got)
		}
	}
}

// FuzzDecode changes the bytes of snapshots. If Decode accepts the bytes, the snapshot must stay the same
// when it is encoded and decoded again. A simulator must load or refuse the snapshot.
func FuzzDecode(f *testing.F) {
	for _, payload := range []bool{false, true} {
		b := encode(f, sample(f, payload))
		f.Add(b)
		f.Add(bytes.Replace(b, []byte(`"parts":0`), []byte(`"parts":3`), 1))
		f.Add(bytes.Replace(b, []byte(`"complete":true`), []byte(`"complete":false`), 9))
	}
	f.Add([]byte(`{"format":"ttfabric-snapshot","version":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := snapshot.Decode(b)
		if err != nil {
			return
		}
		again, err := snapshot.Decode(encode(t, s))
		if err != nil || len(snapshot.Diff(s, again)) != 0 {
			t.Fatalf("%v, or the snapshot differs after a round", err)
		}
		s.Account()
		if d, _, err := sim.Load(s, nil); err == nil {
			_ = d.Run(d.Now().Add(1e6))
		}
	})
}
