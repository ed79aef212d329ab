package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ttfabric/node/fabric"
	"ttfabric/node/output"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

// specL0 and specL1 are the tables of Spec §2.2.1.1.1 and §2.2.1.2.1. Only the entries for Mesh 2
// of the devices of Mesh 3 differ from the specification's tables. The specification has the exit 2
// in these entries. TestSpecificationsL1Table in router/route explains the difference.
const specL0 = `
| Src\Dst | 0    | 1   | 2    | 3   | 4  | 5   | 6    | 7   | 8    |
| 0       | -    | E   | EE   | S   | ES | EES | SS   | ESS | EESS |
| 1       | W    | -   | E    | WS  | S  | ES  | WSS  | SS  | ESS  |
| 2       | WW   | W   | -    | WWS | WS | S   | WWSS | WSS | SS   |
| 3       | N    | EN  | EEN  | -   | E  | EE  | S    | ES  | EES  |
| 4       | WN   | N   | EN   | W   | -  | E   | WS   | S   | ES   |
| 5       | WWN  | WN  | N    | WW  | W  | -   | WWS  | WS  | S    |
| 6       | NN   | ENN | EENN | N   | EN | EEN | -    | E   | EE   |
| 7       | WNN  | NN  | ENN  | WN  | N  | EN  | W    | -   | E    |
| 8       | WWNN | WNN | NN   | WWN | WN | N   | WW   | W   | -    |`

// specL1 has one line for consecutive devices with equal entries.
const specL1 = `
| Src Mesh | Node | Mesh0 | Mesh1 | Mesh2 | Mesh3 |
| 0 | 0-1 | - | 5 | 6 | 5 |
| 0 | 2-2 | - | 5 | 8 | 5 |
| 0 | 3-4 | - | 5 | 6 | 5 |
| 0 | 5-5 | - | 5 | 8 | 5 |
| 0 | 6-7 | - | 5 | 6 | 5 |
| 0 | 8-8 | - | 5 | 8 | 5 |
| 1 | 0-8 | 3 | - | 3 | 8 |
| 2 | 0-1 | 0 | 0 | - | 8 |
| 2 | 2-2 | 2 | 2 | - | 8 |
| 2 | 3-4 | 0 | 0 | - | 8 |
| 2 | 5-5 | 2 | 2 | - | 8 |
| 2 | 6-7 | 0 | 0 | - | 8 |
| 2 | 8-8 | 2 | 2 | - | 8 |
| 3 | 0-8 | 2 | 2 | 6 | - |`

// rowsOf returns the rows of a table. The table is our output, or a copy from the
// specification. Blanks separate the cells of a row.
func rowsOf(text string) (rows []string) {
	for line := range strings.Lines(strings.NewReplacer("│", "|").Replace(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	return rows
}

// TestRoutesAreThoseOfTheSpecification compares the output of 'routes' with the tables of
// the specification. 'routes CHIP' must print the rows of this chip.
func TestRoutesAreThoseOfTheSpecification(t *testing.T) {
	c := newCLI(t)
	l0 := rowsOf(specL0)
	var l1 []string
	for _, row := range rowsOf(specL1) {
		var mesh, first, last int
		var rest string
		if n, _ := fmt.Sscanf(row, "%d %d-%d", &mesh, &first, &last); n != 3 {
			l1 = append(l1, row)
			continue
		}
		_, rest, _ = strings.Cut(row, fmt.Sprintf("%d-%d ", first, last))
		for node := first; node <= last; node++ {
			l1 = append(l1, fmt.Sprintf("%d %d %s", mesh, node, rest))
		}
	}
	if len(l0) != 10 || len(l1) != 37 {
		t.Fatalf("%d and %d rows of the specification", len(l0), len(l1))
	}
	all := c.must("routes", "-t", "spec-l1")
	if got := rowsOf(all); !slices.Equal(got, append(slices.Clone(l0), l1...)) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(append(l0, l1...), "\n"))
	}
	if !strings.HasPrefix(all, "L0, meshes 0, 1, 2 and 3\n") {
		t.Errorf("whose L0 is it? %.60s", all)
	}
	want := []string{l0[0], l0[1+5], l1[0], l1[1+3*9+5]}
	if got := rowsOf(c.must("routes", "-t", "spec-l1", "M3D5")); !slices.Equal(got, want) {
		t.Errorf("of M3D5: got %q, want %q", got, want)
	}
	var tables struct {
		L0 []output.L0Row
		L1 []output.L1Row
	}
	if err := json.Unmarshal([]byte(c.must("routes", "-t", "spec-l1", "-o", "json")), &tables); err != nil || len(tables.L0) != 36 || len(tables.L1) != 36 {
		t.Errorf("%v: %d and %d rows as JSON, want 36", err, len(tables.L0), len(tables.L1))
	}
}

// TestAlike groups the tables of meshes. Meshes of different sizes must not share a table.
func TestAlike(t *testing.T) {
	row := func(mesh, chip int, routes ...string) output.L0Row {
		return output.L0Row{Src: wire.FabricNodeID{Mesh: wire.MeshID(mesh), Chip: wire.ChipID(chip)}, Routes: routes}
	}
	got := output.Alike([]output.L0Row{row(0, 0, "-"), row(1, 0, "-", "E"), row(1, 1, "W", "-"), row(4, 0, "-"), row(7, 0, "-", "E"), row(7, 1, "x", "-")})
	if s := fmt.Sprint(len(got), got[0].Meshes, got[1].Meshes, got[2].Meshes); s != "3 [0 4] [1] [7]" {
		t.Error(s)
	}
	if s := output.OfMeshes([]wire.MeshID{0, 4, 9}); s != "meshes 0, 4 and 9" {
		t.Error(s)
	}
}

// thinly describes two meshes of two chips with two planes. Only one cable joins the
// meshes.
const thinly = `ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}
Board: [{name: B, type: Mesh, topology: [1, 2]}]
Mesh: [{id: 0, board: B}, {id: 1, board: B}]
RelaxedGraph: [[M0, M1, 1]]
`

// TestThinConnectionsCarryTraffic brings up two meshes that are joined by fewer cables
// than they have planes. All packets must arrive, because traffic uses only planes with a
// route. The traced packets must take the planned hops.
func TestThinConnectionsCarryTraffic(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	file := filepath.Join(c.dir, "thin.yaml")
	if err := os.WriteFile(file, []byte(thinly), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := c.must("validate", file); !strings.Contains(out, "Fewer than 2 planes lead between 2 ordered pairs of meshes, such as from M0 to M1 with 1.") {
		t.Errorf("'validate' does not print the number of pairs of meshes: %s", out)
	}
	if _, errs, code := c.run("up", file, "-d", patient); code != exitOK || !strings.Contains(errs, "Layout: exits of 1 connection placed at chips with a free direction") {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	c.must("traffic", "all-to-all", "--packets", "600", "--size", "500")
	var many traceCounts
	if err := json.Unmarshal([]byte(c.must("trace", "M0D0", "M1D1", "-c", "5", "-o", "json")), &many); err != nil || many.Packets != 5 || many.Answered != 5 ||
		many.Planned != 5 || len(many.Hops) != 3 || many.Hops[2].Seen != 5 || many.Hops[2].AsPlanned != 5 || many.Min <= 0 || many.Max < many.P50 {
		t.Errorf("trace -c 5: %v, %+v", err, many)
	}
	if out := c.must("trace", "M0D0", "M1D1", "-c", "2"); !strings.Contains(out, "2 packets, 2 answered") {
		t.Errorf("trace -c 2 says %s", out)
	}
	var hops []fabric.Hop
	if err := json.Unmarshal([]byte(c.must("trace", "M0D0", "M1D1", "-o", "json")), &hops); err != nil || len(hops) != 3 {
		t.Fatalf("%v: %+v", err, hops)
	}
	for _, h := range hops {
		if !h.Agrees || !strings.HasPrefix(h.Seen, h.To+" channel ") || h.VC != h.SeenVC || h.Crossing != (h.From == "M0D1") {
			t.Errorf("%+v", h)
		}
	}
	if _, errs, code := c.run("ping", "--all", "-c", "1", "--plane", "1"); code != exitOK || !strings.Contains(errs, "Left out: 8 pairs") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	for _, args := range []string{"ping M0D0 M0D1", "mem write M0D1 1-1:0 x --via M0D0", "trace M0D0 M0D1", "routes", "mailbox M0D1 --via M0D0"} {
		for _, plane := range []string{"2", "-1", "256"} { // planes that the fabric does not have
			if _, errs, code := c.run(append(strings.Fields(args), "--plane", plane)...); code != exitUsage || !strings.Contains(errs, "--plane "+plane) {
				t.Errorf("%s --plane %s: exit code %d, %s", args, plane, code, errs)
			}
		}
	}
	var chips []struct {
		Chip  string
		Pools []struct{ Label string }
	}
	if err := json.Unmarshal([]byte(c.must("gossip", "show", "-o", "json")), &chips); err != nil {
		t.Fatal(err)
	}
	in := map[string][]string{} // chips of each gossip pool: one pool per mesh, and one of the exit nodes
	for _, x := range chips {
		for _, p := range x.Pools {
			in[filepath.Base(p.Label)] = append(in[filepath.Base(p.Label)], x.Chip)
		}
	}
	if got := fmt.Sprint(in); got != "map[exits:[M0D1 M1D0] mesh0:[M0D0 M0D1] mesh1:[M1D0 M1D1]]" {
		t.Errorf("pools: %s", got)
	}
	if _, errs, code := c.run("trace", "M0D0", "M1D1", "--plane", "1"); code != exitAssert || !strings.Contains(errs, "no route from M0D0 to M1D1 on plane 1") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// TestOtherWayRoundARing traces packets in both directions round a ring. 'traffic' must
// use both directions.
func TestOtherWayRoundARing(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "ring:4", "-d", patient)
	for by, args := range map[string][]string{"M0D1": {"trace", "M0D0", "M0D2"}, "M0D3": {"trace", "M0D0", "M0D2", "--other-way"}} {
		var hops []fabric.Hop
		if err := json.Unmarshal([]byte(c.must(append(args, "-o", "json")...)), &hops); err != nil || len(hops) != 2 || hops[0].To != by {
			t.Fatalf("%v: %v: %+v", args, err, hops)
		}
		for _, h := range hops {
			if !h.Agrees || !strings.HasPrefix(h.Seen, h.To+" channel ") {
				t.Errorf("%v: %+v", args, h)
			}
		}
	}
	if _, errs, code := c.run("traffic", "all-to-all", "--ways", "3"); code != exitUsage || !strings.Contains(errs, "3 routes round rings") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	var res traffic.Result
	if err := json.Unmarshal([]byte(c.must("traffic", "all-to-all", "--size", "64", "--packets", "2400", "-o", "json")), &res); err != nil {
		t.Fatal(err)
	}
	tied := 0
	for _, r := range res.Rows {
		if r.Ways == traffic.MaxWays {
			tied++
		}
	}
	if tied != 4 || res.Spec.Ways != traffic.MaxWays || res.Total.Delivered != 2400 {
		t.Errorf("%d pairs use two routes, want 4: %+v", tied, res.Total)
	}
	c.must("traffic", "all-to-all", "--size", "64", "--packets", "2400", "--ways", "1")
}

// TestDownshiftedFabric brings up a torus whose fabric uses only the rows, as lines. 'validate' must list the unused cables.
// No unused cable may be in the tables or among the links. All pairs of a row must have a route.
func TestDownshiftedFabric(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	v := read[output.Topology](c, "validate", "torus:3x3@x,line")
	if len(v.Unused) != 24 || v.Cables != 36 || !strings.Contains(v.Unused[0].Reason, "not as rings") {
		t.Errorf("%+v", v)
	}
	file := filepath.Join(c.dir, "torus.yaml")
	c.must("generate", "torus:3x3", "-f", file)
	c.must("up", file+"@x,line", "-d", patient)
	for _, x := range read[output.Chips](c, "inspect").Chips {
		for _, l := range x.Links {
			if l.Peer.Chip/3 != x.Chip.Chip/3 || l.Peer.Chip-x.Chip.Chip == 2 || x.Chip.Chip-l.Peer.Chip == 2 {
				t.Errorf("chip %s has a link to %s", x.Chip, l.Peer)
			}
		}
	}
	for _, row := range read[output.Routes](c, "routes").L0 {
		for i, r := range row.Routes {
			if same := i/3 == int(row.Src.Chip)/3; same == (r == "x") {
				t.Errorf("route from %s to chip %d: %q", row.Src, i, r)
			}
		}
	}
	if res := read[traffic.Result](c, "traffic", "all-to-all", "--packets", "500", "--size", "100"); !res.OK() || res.Total.Delivered != 500 {
		t.Errorf("%+v", res.Total)
	}
	c.must("ping", "--all", "-c", "1")
	if out := c.must("inspect", "--diff"); !strings.HasPrefix(out, "all 12 cables are up") {
		t.Error(out)
	}
	for _, name := range []string{"torus:3x3@", "torus:3x3@z", "mesh:3x3@mesh", "nope@x", "./nope.yaml@x"} {
		c.fails(exitTopology, "validate", name)
	}
}
