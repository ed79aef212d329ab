package shim

import (
	"strings"
	"testing"

	"ttfabric/node/firmware/board"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

func TestSoCDescriptor(t *testing.T) {
	b, err := SoCDescriptor(wire.Wormhole)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"arch_name: WORMHOLE_B0", "grid: {x_size: 10, y_size: 12}", "arc: [0-10]", "pcie: [0-3]", "router_only: [0-2, 0-4, 0-8, 0-9]",
		"eth: [9-0, 1-0, 8-0, 2-0, 7-0, 3-0, 6-0, 4-0, 9-6, 1-6, 8-6, 2-6, 7-6, 3-6, 6-6, 4-6]", "  - [5-2, 5-9, 5-10]",
		"noc0_x_to_noc1_x: [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]", "worker_l1_size: 1499136", "eth_l1_size: 262144", "dram_bank_size: 2147483648"} {
		if !strings.Contains(string(b), line+"\n") {
			t.Errorf("the descriptor has no line %q:\n%s", line, b)
		}
	}
	if _, err := SoCDescriptor(wire.ArchUnknown); err == nil {
		t.Error("an unknown architecture has a floor plan")
	}
}

// The descriptor has the ids that the chips tell a host, and on Blackhole the two harvested ethernet channels
// without which tt-umd refuses a chip.
func TestClusterDescriptor(t *testing.T) {
	t3000, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	p150, err := topo.Load("p150.yaml", []byte("arch: {0: blackhole}\nethernet_connections: []\nchips_with_mmio: [0: 0]\nboards: [[{board_id: 1}, {board_type: p150}, {chips: [0]}]]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		machine *topo.Topology
		masks   string
	}{{t3000, "harvest_mask: 0}"}, {p150, "harvest_mask: 0, eth_harvesting_mask: 12288, pcie_harvesting_mask: 2}"}} {
		b, err := ClusterDescriptor(c.machine, 0)
		if err != nil {
			t.Fatal(err)
		}
		again, err := topo.Load("again.yaml", b)
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range board.Identify(c.machine) {
			if got := again.Chips[i]; got.BoardID != id.Board || got.UniqueID != id.ASIC {
				t.Errorf("%s: chip %d has board %#x and unique id %#x, want %#x and %#x", c.machine.Name, i, got.BoardID, got.UniqueID, id.Board, id.ASIC)
			}
		}
		if again.Hash() != c.machine.Hash() {
			t.Errorf("%s: the descriptor describes another topology", c.machine.Name)
		}
		if n := strings.Count(string(b), c.masks); n != len(c.machine.Chips) {
			t.Errorf("%s: %d chips have %s, want %d:\n%s", c.machine.Name, n, c.masks, len(c.machine.Chips), b)
		}
	}
}

// A fabric of several meshes has a descriptor for each mesh. The way in which links are secured does not matter.
func TestClusterDescriptorOfAMesh(t *testing.T) {
	two, err := topo.Named("2xt3000")
	if err != nil {
		t.Fatal(err)
	}
	two.Transport, two.Auth = "udp", "psk"
	ids := board.Identify(two)
	for mesh := range wire.MeshID(2) {
		b, err := ClusterDescriptor(two, mesh)
		if err != nil {
			t.Fatal(err)
		}
		again, err := topo.Load("again.yaml", b)
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Chips) != 8 || again.Chips[0].UniqueID != ids[8*mesh].ASIC || !strings.Contains(string(b), "ethernet_connections_to_remote_devices") {
			t.Errorf("mesh %d: %d chips:\n%s", mesh, len(again.Chips), b)
		}
	}
	if _, err := ClusterDescriptor(two, 2); err == nil || !strings.Contains(err.Error(), "has no mesh 2") {
		t.Errorf("mesh 2: %v", err)
	}
}
