package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/router/route"
	"ttfabric/router/topo/draw"
	"ttfabric/wire"
)

// TestMarks checks how a still picture shows a cut cable, an impaired cable, and a cable whose frames go by another
// cable. TestMarks also checks a dead chip, the loads, and a route. The picture must be well-formed XML, whatever
// the chips said.
func TestMarks(t *testing.T) {
	x, m := machineOf(t, "t3000")
	p := New(m)
	cut, impaired, by := x.Cables[2], x.Cables[3], wire.Channel(1)
	p.Impair([]api.ImpairmentView{{Chip: cut.A.Node, Channel: cut.A.Channel, Active: true, Cut: true}, {Chip: impaired.B.Node, Channel: impaired.B.Channel, Active: true, Options: "loss=1%<&>"}})
	vs := views(x, 1)
	link(vs, 0, 0).By = &by
	link(vs, 0, 0).BytesOut = 5 * MinScale
	p.Take(start, Round{Views: vs[:7]})
	s := p.State()
	plan, err := route.New(x, route.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := m.Route(plan, x.Chips[0].Node, x.Chips[3].Node, 0)
	d := m.Marks(s, ByState, []Route{r, m.Route(plan, x.Chips[1].Node, x.Chips[1].Node, 0)})
	if c := d.Cables[2]; !c.Cross || c.Color != cutColor || c.Dash == "" {
		t.Errorf("the cut cable has the mark %+v", c)
	}
	if c := d.Cables[3]; c.Color != impairedColor || !strings.Contains(c.Note, "loss=1%<&>") {
		t.Errorf("the impaired cable has the mark %+v", c)
	}
	if i := m.Cable(wire.PortID{Node: x.Chips[0].Node}); d.Cables[i].Color != stateColors[Fallback] || !strings.Contains(d.Cables[i].Note, "frames go by M0D0/1") || !strings.Contains(d.Cables[i].Note, "41.9 Mb/s one way") {
		t.Errorf("the cable by another cable has the mark %+v", d.Cables[i])
	}
	if d.Chips[7].Fill == "" || d.Chips[0].Edge == "" || d.Chips[3].Edge != d.Chips[0].Edge {
		t.Errorf("chips %+v", d.Chips)
	}
	on := 0
	for i := range d.Cables {
		on += len(d.Cables[i].Routes)
	}
	if on != len(r.Hops) || on == 0 {
		t.Errorf("%d cables are on the route, want %d", on, len(r.Hops))
	}
	if !strings.Contains(d.Head, "7 of 8 chips answer") || !strings.Contains(d.Head, "1 cut") {
		t.Errorf("headline %q", d.Head)
	}
	text := string(wellFormed(t, draw.SVG(x, d)))
	for _, want := range []string{"loss=1%&lt;&amp;&gt;", "M0D0 to M0D3, plane 0: ", "source and destination are the same chip", "not running"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture has no %q", want)
		}
	}
	loads := m.Marks(s, ByLoad, nil)
	if i := m.Cable(wire.PortID{Node: x.Chips[0].Node}); loads.Cables[i].Color != "#c8371b" || loads.Cables[i].Width != 5 || loads.Cables[5].Color != "#c9d3dd" {
		t.Errorf("loads %+v and %+v", loads.Cables[i], loads.Cables[5])
	}
	wellFormed(t, draw.SVG(x, loads))
	planned := m.Planned([]Route{r})
	if len(planned.Legend) != 1 || planned.Cables[0].Color == "" {
		t.Errorf("%+v", planned)
	}
	wellFormed(t, draw.SVG(x, planned))
}

// wellFormed fails the test unless the text is XML.
func wellFormed(t *testing.T, text []byte) []byte {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return text
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
