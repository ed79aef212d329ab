package topo

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"ttfabric/wire"
)

// noted is a file with labels and impairments. The second cable in the file has its upper end
// first.
const noted = `ttfabric: 1
name: lab
arch: wormhole_b0
meshes:
    - {id: 0, rows: 1, cols: 2}
chips:
    - chip: M0D0
    - chip: M0D1
cables:
    - a: M0D0/8
      b: M0D1/0
      labels: [wan, east]
      netem: delay=1ms,loss=1%
    - a: M0D1/1
      b: M0D0/9
      labels: [wan]
      netem: delay=2ms,direction=a-to-b
netem:
    - label:wan,jitter=1ms
`

func TestNotes(t *testing.T) {
	m, err := Load("lab.yaml", []byte(noted))
	if err != nil {
		t.Fatal(err)
	}
	port := func(chip wire.ChipID, ch wire.Channel) wire.PortID {
		return wire.PortID{Node: wire.FabricNodeID{Chip: chip}, Channel: ch}
	}
	want := map[wire.PortID]Note{
		port(0, 8): {Labels: []string{"east", "wan"}, Netem: "delay=1ms,loss=1%"},
		port(0, 9): {Labels: []string{"wan"}, Netem: "delay=2ms,direction=b-to-a"},
	}
	if !reflect.DeepEqual(m.Notes, want) || !slices.Equal(m.Netem, []string{"label:wan,jitter=1ms"}) {
		t.Errorf("notes %+v, %q", m.Notes, m.Netem)
	}
	for _, p := range []wire.PortID{port(0, 8), port(1, 0)} {
		if got := m.Labels(p); !slices.Equal(got, []string{"east", "wan"}) {
			t.Errorf("labels at %v: %q", p, got)
		}
	}
	if m.Labels(port(1, 7)) != nil || !slices.Equal(m.AllLabels(), []string{"east", "wan"}) {
		t.Errorf("labels where there is no cable: %q; all labels: %q", m.Labels(port(1, 7)), m.AllLabels())
	}
	again, err := Load("x", m.Encode())
	if err != nil || !reflect.DeepEqual(again, m) || !m.SameNotes(again) {
		t.Errorf("read back as %+v, %v", again, err)
	}
	plain, err := Load("lab.yaml", []byte(strings.NewReplacer("      labels: [wan, east]\n", "", "      labels: [wan]\n", "",
		"      netem: delay=1ms,loss=1%\n", "", "      netem: delay=2ms,direction=a-to-b\n", "", "netem:\n    - label:wan,jitter=1ms\n", "").Replace(noted)))
	if err != nil || plain.Notes != nil || plain.Hash() != m.Hash() || plain.SameNotes(m) || strings.Contains(string(plain.Encode()), "netem") {
		t.Errorf("without notes: %+v, %v", plain, err)
	}
}

func TestBadNotes(t *testing.T) {
	many := "[" + strings.Join(strings.Split(strings.Repeat("abcdefghi", 1), ""), ", ") + "]"
	for _, c := range []struct{ what, with, want string }{
		{"labels: [wan, east]", "labels: wan", `f:12: labels: want a list of words`},
		{"labels: [wan, east]", "labels: [wan, wan]", `f:12: label "wan" occurs twice`},
		{"labels: [wan, east]", "labels: ['a b']", `f:12: label "a b": want letters, digits, '-', '_' and '.', at most 64`},
		{"labels: [wan, east]", "labels: ['']", `f:12: label "": want letters, digits, '-', '_' and '.', at most 64`},
		{"labels: [wan, east]", "labels: [[x]]", `f:12: label: want a plain value, not a list`},
		{"labels: [wan, east]", "labels: " + many, `f:12: 9 labels: at most 8`},
		{"netem: delay=1ms,loss=1%", "netem: {delay: 1ms}", `f:13: netem: want a plain value, not a map`},
		{"netem: delay=1ms,loss=1%", "netem: " + strings.Repeat("x", MaxDeclared+1), `f:13: netem: want an impairment of at most 1024 bytes on one line, such as delay=1ms,loss=1%`},
		{"netem:\n    - label:wan,jitter=1ms", "netem: x", `f:18: netem: want a list of impairments, such as label:wan,delay=1ms`},
		{"netem:\n    - label:wan,jitter=1ms", "netem: [{}]", `f:18: netem: want a plain value, not a map`},
	} {
		in := strings.Replace(noted, c.what, c.with, 1)
		if _, err := Load("f", []byte(in)); err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.with[:min(40, len(c.with))], err, c.want)
		}
	}
	m := mustName(t, "n300")
	m.Notes = map[wire.PortID]Note{m.Cables[0].B: {Labels: []string{"x"}}}
	if err := m.Validate(); err == nil {
		t.Error("Validate accepts a note about an upper end")
	}
	m.Notes = map[wire.PortID]Note{m.Cables[0].A: {Labels: []string{"b", "a"}}}
	if err := m.Validate(); err == nil || !strings.Contains(err.Error(), "sorted") {
		t.Errorf("labels that are not sorted: %v", err)
	}
}
