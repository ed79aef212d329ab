package wireshark

import (
	"reflect"
	"strings"
	"testing"

	"ttfabric/router/topo"
)

func TestParseRequest(t *testing.T) {
	filter := "data"
	for args, want := range map[string]Request{
		"--extcap-interfaces --extcap-version=4.0":                                  {List: true},
		"--extcap-interface ttfabric-a --extcap-dlts":                               {Interface: "ttfabric-a", DLTs: true},
		"--extcap-config --extcap-interface=ttfabric-a-M0D3":                        {Interface: "ttfabric-a-M0D3", Config: true},
		"--capture --fifo f --extcap-capture-filter data --ports M0D0:8,M0D1:1":     {Capture: true, FIFO: "f", Check: &filter, Ports: []string{"M0D0:8", "M0D1:1"}},
		"--capture --filter=nack --snaplen 80 --buffer 3 --ports M0D0 --ports M0D1": {Capture: true, Filter: "nack", SnapLen: 80, Buffer: 3, Ports: []string{"M0D0", "M0D1"}},
		"--keys --capture":                     {Keys: true, Capture: true},
		"--keys false --capture":               {Capture: true},
		"--keys=true --some-later-option x -z": {Keys: true},
	} {
		if got, err := ParseRequest(strings.Fields(args)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", args, got, err, want)
		}
	}
	for _, args := range []string{"--snaplen many", "--buffer -1", "--snaplen", "--buffer= --snaplen 3"} {
		if got, err := ParseRequest(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), "want a whole number") {
			t.Errorf("%s: %+v, %v", args, got, err)
		}
	}
}

// TestWholeFilter checks that WholeFilter joins the option --filter and the filter from Wireshark's
// field by "and".
func TestWholeFilter(t *testing.T) {
	empty, own := "", "nack or data"
	for _, c := range []struct {
		option string
		own    *string
		want   string
	}{{"", nil, ""}, {"out", nil, "out"}, {"out", &empty, "out"}, {"", &own, own}, {"out or in", &own, "(out or in) and (nack or data)"}} {
		x := Request{Filter: c.option, Check: c.own}
		if got := x.WholeFilter(); got != c.want {
			t.Errorf("%q: got %q, want %q", c.option, got, c.want)
		}
	}
}

func fabrics(t *testing.T, machines ...string) (out []Fabric) {
	t.Helper()
	for _, m := range machines {
		m, err := topo.Named(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Fabric{strings.NewReplacer(":", "-", "x", "-").Replace(m.Name), m})
	}
	return out
}

func TestFind(t *testing.T) {
	all := fabrics(t, "n300", "line:4")
	all[0].Name, all[1].Name = "lab", "lab-M0D1" // the name of the second fabric is also a chip's interface of the first fabric
	for iface, want := range map[string]struct {
		fabric int
		chip   string
		ok     bool
	}{
		"ttfabric-lab":           {0, "", true},
		"ttfabric-lab-M0D0":      {0, "M0D0", true},
		"ttfabric-lab-M0D1":      {1, "", true},
		"ttfabric-lab-M0D1-M0D3": {1, "M0D3", true},
		"ttfabric-lab-M0D3":      {}, // an n300 has two chips
		"ttfabric-other":         {},
		"lab":                    {},
	} {
		if fabric, chip, ok := Find(all, iface); fabric != want.fabric || chip != want.chip || ok != want.ok {
			t.Errorf("%s: %d %q %v, want %+v", iface, fabric, chip, ok, want)
		}
	}
}

// TestPrintInterfaces checks that a fabric of up to 64 chips has an interface for each chip, and
// that braces in names are replaced.
func TestPrintInterfaces(t *testing.T) {
	all := fabrics(t, "mesh:8x8", "mesh:5x13")
	all[0].Name, all[1].Name = "a", "b"
	all[0].Topology.Name = "odd{name}"
	var w strings.Builder
	PrintInterfaces(&w, "1{2}", all)
	lines := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
	if len(lines) != 1+1+64+1 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, want := range map[int]string{
		0:  "extcap {version=1(2)}{help=https://www.wireshark.org/docs/man-pages/extcap.html}{display=TT-Fabric}",
		1:  "interface {value=ttfabric-a}{display=ttfabric: a, all 64 chips (odd(name))}",
		65: "interface {value=ttfabric-a-M0D63}{display=ttfabric: a, chip M0D63}",
		66: "interface {value=ttfabric-b}{display=ttfabric: b, all 65 chips (mesh:5x13)}",
	} {
		if lines[i] != want {
			t.Errorf("got  %s\nwant %s", lines[i], want)
		}
	}
}

func TestPrintOptions(t *testing.T) {
	n300 := fabrics(t, "n300")[0].Topology
	var all, one strings.Builder
	PrintOptions(&all, n300, "")
	PrintOptions(&one, n300, "M0D1")
	for chip, ports := range map[string]int{"M0D0": len(n300.Ports(n300.Chips[0].Node)), "M0D1": len(n300.Ports(n300.Chips[1].Node))} {
		if got := strings.Count(all.String(), "{parent="+chip+"}"); ports == 0 || got != ports {
			t.Errorf("%s: %d ports listed, it has %d", chip, got, ports)
		}
	}
	if strings.Contains(one.String(), "{value=M0D0") || !strings.Contains(one.String(), "{value=M0D1:") {
		t.Errorf("options of M0D1 alone:\n%s", one.String())
	}
	for _, call := range []string{"--ports", "--filter", "--snaplen", "--buffer", "--keys"} {
		if strings.Count(one.String(), "{call="+call+"}") != 1 {
			t.Errorf("no option %s", call)
		}
	}
}

func TestUserPlace(t *testing.T) {
	t.Setenv("HOME", "/home/a")
	for _, c := range []struct{ config, xdg, data, want, wantData string }{
		{"", "", "", "/home/a/.config/wireshark", "/home/a/.local/share/ttfabric"},
		{"", "/x", "/d", "/x/wireshark", "/d/ttfabric"},
		{"/w", "/x", "", "/w", "/home/a/.local/share/ttfabric"},
	} {
		t.Setenv("WIRESHARK_CONFIG_DIR", c.config)
		t.Setenv("XDG_CONFIG_HOME", c.xdg)
		t.Setenv("XDG_DATA_HOME", c.data)
		if p, err := UserPlace(); err != nil || p.config() != c.want || p.data() != c.wantData {
			t.Errorf("%+v: %+v, %v", c, p, err)
		}
	}
	t.Setenv("HOME", "")
	if p, err := UserPlace(); err == nil {
		t.Errorf("%+v without a home folder", p)
	}
}
