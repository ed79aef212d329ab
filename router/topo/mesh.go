package topo

import (
	"fmt"
	"strconv"
	"strings"

	"ttfabric/wire"
)

// mesh generates ROWSxCOLS. Each direction has four channels, as on a
// Wormhole Galaxy (Spec §2.2.2); two are cabled: east 0,1, west 4,5, north 8,9, south 12,13.
func mesh(arg string) (*Topology, error) {
	r, c, ok := strings.Cut(strings.ToLower(arg), "x")
	rows, err1 := strconv.Atoi(r)
	cols, err2 := strconv.Atoi(c)
	if !ok || r != strconv.Itoa(rows) || c != strconv.Itoa(cols) || err1 != nil || err2 != nil || rows < 1 || cols < 1 || rows > wire.MaxChipsPerMesh || cols > wire.MaxChipsPerMesh || rows*cols > wire.MaxChipsPerMesh {
		return nil, fmt.Errorf("topology mesh:%s: want mesh:ROWSxCOLS with at most %d chips, such as mesh:4x8", arg, wire.MaxChipsPerMesh)
	}
	t := grid(fmt.Sprintf("mesh:%dx%d", rows, cols), rows, cols)
	for i := range rows * cols {
		if i%cols < cols-1 {
			t.join(i, i+1, [2]wire.Channel{0, 1}, [2]wire.Channel{4, 5})
		}
		if i/cols < rows-1 {
			t.join(i, i+cols, [2]wire.Channel{12, 13}, [2]wire.Channel{8, 9})
		}
	}
	return t, t.finish()
}
