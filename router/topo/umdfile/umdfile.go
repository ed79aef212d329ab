// Package umdfile renders cluster descriptors of tt-umd
// (docs/yaml_schemas/cluster_descriptor.yaml in tt-umd). Package topo decides what a descriptor says.
package umdfile

import (
	"fmt"
	"strings"
)

// File is the content of a cluster descriptor.
type File struct {
	About  []string // comments at the top of the file, one per line
	Arch   string   // architecture of all chips
	Chips  []Chip   // sorted by ID
	Within []Cable  // cables between chips of the file
	Beyond []Cable  // cables to chips of other files
	Boards []Board

	Unique    bool // the file gives the chips' unique ids
	Blackhole bool // the file has the harvesting masks of Blackhole chips
	Locations bool // the file has the numbers of the chips on their boards
}

// Chip is a chip of the file.
type Chip struct {
	ID                int
	X, Y, Rack, Shelf uint8
	Unique            uint64
	MMIO              bool   // the host reaches the chip directly
	Untranslated      bool   // the chip has no translated NoC coordinates
	Harvested         uint16 // mask of the Tensix tiles that are switched off
	HarvestedEthernet uint16 // mask of the ethernet channels that are switched off
	PCIe              int    // mask of the PCIe tiles without a host
	Location          int    // number of the chip on its board
}

// Cable is a cable from a chip of the file.
type Cable struct {
	Chip, Channel int
	Far           uint64 // id of the chip at the other end, or the unique id of a chip of another file
	FarChannel    int
	Note          string // a comment; may be empty
}

// Board is a board with its chips.
type Board struct {
	ID    uint64
	Type  string // name of the type in tt-umd
	Chips []int  // ids of the chips
}

// Encode renders the file.
func (f *File) Encode() []byte {
	var b strings.Builder
	each := func(key string, value func(c *Chip) string) {
		fmt.Fprintf(&b, "%s:\n", key)
		for i := range f.Chips {
			fmt.Fprintf(&b, "  %d: %s\n", f.Chips[i].ID, value(&f.Chips[i]))
		}
	}
	for _, line := range f.About {
		fmt.Fprintf(&b, "# %s\n", plain(line))
	}
	each("arch", func(*Chip) string { return f.Arch })
	each("chips", func(c *Chip) string { return fmt.Sprintf("[%d, %d, %d, %d]", c.X, c.Y, c.Rack, c.Shelf) })
	if f.Unique {
		each("chip_unique_ids", func(c *Chip) string { return fmt.Sprint(c.Unique) })
	}
	list(&b, "ethernet_connections", f.Within, func(c *Cable) string { return c.text("chip") })
	list(&b, "ethernet_connections_to_remote_devices", f.Beyond, func(c *Cable) string { return c.text("remote_chip_id") })
	var reached []string
	for _, c := range f.Chips {
		if c.MMIO {
			reached = append(reached, fmt.Sprintf("%d: %d", c.ID, len(reached)))
		}
	}
	list(&b, "chips_with_mmio", reached, func(s *string) string { return *s })
	each("harvesting", func(c *Chip) string {
		s := fmt.Sprintf("{noc_translation: %t, harvest_mask: %d", !c.Untranslated, c.Harvested)
		if f.Blackhole {
			s += fmt.Sprintf(", eth_harvesting_mask: %d, pcie_harvesting_mask: %d", c.HarvestedEthernet, c.PCIe)
		}
		return s + "}"
	})
	if f.Locations {
		each("asic_locations", func(c *Chip) string { return fmt.Sprint(c.Location) })
	}
	list(&b, "boards", f.Boards, func(x *Board) string {
		return fmt.Sprintf("[{board_id: %d}, {board_type: %s}, {chips: [%s]}]", x.ID, x.Type, strings.Join(strings.Fields(strings.Trim(fmt.Sprint(x.Chips), "[]")), ", "))
	})
	return []byte(b.String())
}

// list renders a list, one item per line.
func list[T any](b *strings.Builder, key string, items []T, text func(*T) string) {
	fmt.Fprintf(b, "%s:\n", key)
	for i := range items {
		fmt.Fprintf(b, "  - %s\n", text(&items[i]))
	}
	if len(items) == 0 {
		b.WriteString("  []\n")
	}
}

// text renders a cable. The argument "far" is the key of the chip at the other end.
func (c *Cable) text(far string) string {
	s := fmt.Sprintf("[{chip: %d, chan: %d}, {%s: %d, chan: %d}]", c.Chip, c.Channel, far, c.Far, c.FarChannel)
	if c.Note != "" {
		s += " # " + plain(c.Note)
	}
	return s
}

// plain returns a text as one line of valid UTF-8.
func plain(s string) string { return strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " ") }
