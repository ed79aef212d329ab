package shim

import (
	"strings"
	"testing"

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
