// Package shim builds the libraries by which Tenstorrent's drivers reach the chips of a running fabric,
// and writes the descriptors that belong beside the libraries. The sources are in the folder cpp.
package shim

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"ttfabric/node/firmware/board"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Paths of the files in the folder that Make fills. tt-umd looks for the JTAG library below its working
// folder, and for the descriptors beside the other library.
const (
	JTAG    = "build/lib/libtt_umd_jtag.so"
	TTSim   = "libttsim.so"
	Cluster = "cluster_descriptor.yaml"
	SoC     = "soc_descriptor.yaml"
	N300    = "n300" // example program; only on x86-64
)

//go:embed build cpp/attach.hpp cpp/attach.cpp cpp/jtag.cpp cpp/ttsim.cpp cpp/n300.cpp
var sources embed.FS

// Make builds both libraries with the system's C++ compiler into dir, and writes the descriptors of a mesh of
// the topology t there. Make makes the folder. The error holds the compiler's messages.
func Make(ctx context.Context, dir string, t *topo.Topology, mesh wire.MeshID) error {
	cluster, err := ClusterDescriptor(t, mesh)
	if err != nil {
		return err
	}
	soc, err := SoCDescriptor(t.Arch)
	if err != nil {
		return err
	}
	src, err := os.MkdirTemp("", "ttfabric-shim-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	if err := os.CopyFS(src, sources); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "bash", filepath.Join(src, "build"), dir).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the libraries: %w: %s", err, strings.TrimSpace(string(out)))
	}
	for name, b := range map[string][]byte{Cluster: cluster, SoC: soc} {
		if err := os.WriteFile(filepath.Join(dir, name), b, fs.FileMode(0o644)); err != nil {
			return err
		}
	}
	return nil
}

// ClusterDescriptor returns the cluster descriptor of a mesh of a topology, with the board ids and unique ids that
// the chips themselves report to a host. ClusterDescriptor returns an error if the topology has no such mesh.
func ClusterDescriptor(t *topo.Topology, mesh wire.MeshID) ([]byte, error) {
	named := *t
	named.Chips = slices.Clone(t.Chips)
	for i, id := range board.Identify(t) {
		c := &named.Chips[i]
		c.BoardID, c.UniqueID, c.Board = id.Board, id.ASIC, string(id.Kind)
	}
	var cables []topo.FoundCable
	for _, c := range t.Cables {
		cables = append(cables, topo.FoundCable{A: c.A, B: c.B})
	}
	return named.EncodeCabling(mesh, []string{fmt.Sprintf("Cluster descriptor of mesh %d of %s, as tt-umd reads it.", mesh, t.Name)}, cables, nil)
}

// keys are the names of the kinds of tiles in a SoC descriptor.
var keys = []struct {
	key  string
	kind noc.Kind
}{{"arc", noc.ARC}, {"pcie", noc.PCIe}, {"eth", noc.Ethernet}, {"functional_workers", noc.Tensix}, {"router_only", noc.Router}}

// SoCDescriptor returns the floor plan of a chip as a SoC descriptor of tt-umd
// (soc_arch_descriptor.cpp, load_from_yaml). SoCDescriptor returns an error if the architecture has no
// floor plan.
func SoCDescriptor(a wire.Arch) ([]byte, error) {
	m, err := noc.New(a, 0)
	if err != nil {
		return nil, err
	}
	at, size := map[noc.Kind][]string{}, map[noc.Kind]uint64{}
	var banks [][]string
	name := ""
	var width, height int
	for _, t := range m.Tiles() {
		place := fmt.Sprintf("%d-%d", t.X, t.Y)
		at[t.Kind], size[t.Kind] = append(at[t.Kind], place), t.Size
		width, height = max(width, int(t.X)+1), max(height, int(t.Y)+1)
		if t.Kind == noc.DRAM {
			if t.Name != name {
				name, banks = t.Name, append(banks, nil)
			}
			banks[len(banks)-1] = append(banks[len(banks)-1], place)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Floor plan of a chip, as tt-umd reads it.\narch_name: %s\ngrid: {x_size: %d, y_size: %d}\n", strings.ToUpper(a.String()), width, height)
	for _, k := range keys {
		fmt.Fprintf(&b, "%s: [%s]\n", k.key, strings.Join(at[k.kind], ", "))
	}
	b.WriteString("dram:\n")
	for _, bank := range banks {
		fmt.Fprintf(&b, "  - [%s]\n", strings.Join(bank, ", "))
	}
	fmt.Fprintf(&b, "noc0_x_to_noc1_x: [%s]\nnoc0_y_to_noc1_y: [%s]\n", countdown(width), countdown(height))
	fmt.Fprintf(&b, "worker_l1_size: %d\neth_l1_size: %d\ndram_bank_size: %d\n", size[noc.Tensix], size[noc.Ethernet], size[noc.DRAM])
	return []byte(b.String()), nil
}

// countdown returns the numbers from n-1 to 0: NoC 1 counts from the other end.
func countdown(n int) string {
	var s []string
	for i := n - 1; i >= 0; i-- {
		s = append(s, fmt.Sprint(i))
	}
	return strings.Join(s, ", ")
}
