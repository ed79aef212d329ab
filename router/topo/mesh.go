package topo

import (
	"fmt"
	"strconv"
	"strings"

	"ttfabric/wire"
)

// generatedPlanes is the number of cables between two neighbours in a generated mesh, as in a
// T3000.
const generatedPlanes = 2

// mesh generates the topology KIND:ROWSxCOLS, with two cables between neighbours. The argument arg
// is ROWSxCOLS. Cables to the east use channels 0 and 1, and cables to the west channels 4 and 5.
// Cables to the north use channels 8 and 9, and cables to the south channels 12 and 13. Each
// direction has four channels, as on a Wormhole Galaxy (Spec §2.2.2), and two of the four stay
// free.
func mesh(kind, arg string, wrapX, wrapY bool) (*Topology, error) {
	r, c, ok := strings.Cut(strings.ToLower(arg), "x")
	rows, err1 := strconv.Atoi(r)
	cols, err2 := strconv.Atoi(c)
	if !ok || r != strconv.Itoa(rows) || c != strconv.Itoa(cols) || err1 != nil || err2 != nil || !fits(rows, cols) {
		return nil, fmt.Errorf("topology %s:%s: want %s:ROWSxCOLS with at most %d chips, such as %s:4x8", kind, arg, kind, wire.MaxChipsPerMesh, kind)
	}
	if wrapX && cols < MinWrap || wrapY && rows < MinWrap {
		return nil, fmt.Errorf("topology %s:%s: an axis that wraps has at least %d chips; want for example %s:4x8, or mesh:%s without wraps", kind, arg, MinWrap, kind, arg)
	}
	return generate(fmt.Sprintf("%s:%dx%d", kind, rows, cols), Mesh{Rows: rows, Cols: cols, WrapX: wrapX, WrapY: wrapY})
}

// line generates the topology KIND:N, a mesh of one row of N chips. The argument arg is N. If wrap
// is true, the row is a ring.
func line(kind, arg string, wrap bool) (*Topology, error) {
	n, err := strconv.Atoi(arg)
	low := 1
	if wrap {
		low = MinWrap
	}
	if err != nil || arg != strconv.Itoa(n) || n < low || n > wire.MaxChipsPerMesh {
		return nil, fmt.Errorf("topology %s:%s: want %s:CHIPS with %d to %d chips, such as %s:8", kind, arg, kind, low, wire.MaxChipsPerMesh, kind)
	}
	return generate(fmt.Sprintf("%s:%d", kind, n), Mesh{Rows: 1, Cols: n, WrapX: wrap})
}

func generate(name string, m Mesh) (*Topology, error) {
	d := newDraft(name, builtIn, wire.Wormhole)
	if err := d.addMesh(m, generatedPlanes, generatedPlanes); err != nil {
		return nil, err
	}
	return d.finish()
}
