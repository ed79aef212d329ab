package capture

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// TestPorts checks how many ports each list of words names, and that unknown names are refused.
func TestPorts(t *testing.T) {
	m, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]int{"": 40, "all": 40, "M0D0": 4, "M0D1": 6, "M0D0:0": 1, "M0D0/eth0": 1, "M0D0/0": 1, "M0D0-M0D1": 4, "M0D0-M0D1/p1": 2,
		"plane:1": 20, "M0D0 M0D0:0": 4, "M0D*": 40, "M0D[01]": 10, "M0D0:0 M0D1": 7} {
		where, err := Ports(m, strings.Fields(words))
		n := 0
		for _, chs := range where {
			n += len(chs)
		}
		if err != nil || n != want {
			t.Errorf("%q: %d ports, want %d: %v", words, n, want, err)
		}
	}
	if where, _ := Ports(m, []string{"M0D0"}); len(where) != 1 || len(where[wire.FabricNodeID{}]) != 4 {
		t.Errorf("M0D0: %v", where)
	}
	for _, word := range []string{"M0D99", "nothing", "M0D0:15", "plane:9"} {
		var e *spec.Error
		if _, err := Ports(m, []string{word}); !errors.As(err, &e) || e.Kind != spec.Usage {
			t.Errorf("%s: %v, want an error of usage", word, err)
		}
	}
}

// TestOptionsCheck checks options within and beyond each limit, and options that contradict
// each other.
func TestOptionsCheck(t *testing.T) {
	for want, o := range map[string]Options{
		`"tcp", word 1`:          {Filter: "tcp"},
		"--count -1":             {Count: -1},
		"--ring-size too":        {RingFiles: 3, Write: "x"},
		"with -w FILE":           {RingMiB: 3},
		"--ring-size 3: want":    {RingMiB: 3, Write: "-"},
		"--limit 3":              {LimitMiB: 3},
		"--keys":                 {Keys: true},
		"--snaplen 262145":       {SnapLen: api.MaxSnapLen + 1},
		"--duration -1s":         {Duration: -time.Second},
		"--ring-files -2":        {RingMiB: 1, RingFiles: -2, Write: "x"},
		"--buffer 1025: want 0 ": {BufferMiB: capture.MaxBuffer>>20 + 1},
	} {
		var e *spec.Error
		if err := o.Check(); !errors.As(err, &e) || e.Kind != spec.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error of usage with %s", o, err, want)
		}
	}
	for _, o := range []Options{{}, {Write: "-", Keys: true, LimitMiB: 1}, {SnapLen: api.MaxSnapLen, BufferMiB: capture.MaxBuffer >> 20},
		{Write: "x", RingMiB: 1, RingFiles: 99999}, {Filter: "data and dst M0D3", Count: 1, Duration: time.Second}} {
		if err := o.Check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestSection checks that the header of a pcapng file names the fabric and all impairments
// from the start.
func TestSection(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	m.Netem = []string{"all,delay=1ms"}
	f := &fabric.Fabric{Topology: m, Spec: spec.Spec{Name: "mine", Created: time.Unix(0, 0).UTC(), Behaviour: spec.Behaviour{Netem: []string{"M0D0-M0D1,loss=1%"}}}}
	s := Section(f, "v9")
	want := []string{`fabric "mine", ` + m.Name + ", started 1970-01-01T00:00:00Z", "impaired from the start: all,delay=1ms", "impaired from the start: M0D0-M0D1,loss=1%"}
	if !slices.Equal(s.Comments, want) || s.Application != "ttfabric v9" || !strings.HasSuffix(s.Hardware, ", emulated") {
		t.Errorf("%+v, want comments %q", s, want)
	}
}
