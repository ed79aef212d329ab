// Package mapping puts the chips of a mesh graph descriptor on chips of a machine. The chips of the
// descriptor are logical chips, and the chips of the machine are physical chips. A machine is one or
// more hosts, each with a cluster descriptor.
package mapping

import (
	"fmt"
	"slices"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// MaxChips is the largest number of chips of a machine.
const MaxChips = 8192

// Host is one host of a machine.
type Host struct {
	Name    string // name of the host, or of its file
	Cluster *topo.Cluster
}

// Chip is a physical chip.
type Chip struct {
	topo.ClusterChip
	Host int // index in Machine.Hosts
}

// Port is a port of a physical chip.
type Port struct {
	Chip    int // index in Machine.Chips
	Channel wire.Channel
}

// Cable joins two ports.
type Cable struct {
	A, B Port
	Z    bool // the cable is wired for a third dimension: only connections between meshes use it
}

// Machine is the chips of several hosts, and all cables between them.
type Machine struct {
	Arch    wire.Arch
	Hosts   []string // names
	Chips   []Chip   // by host, then by tt-umd's id
	Cables  []Cable  // each once, sorted
	LeftOut []topo.LeftOut
}

// String summarises the machine, such as "64 chips of 2 hosts, 208 cables".
func (m *Machine) String() string {
	of := ""
	if len(m.Hosts) > 1 {
		of = fmt.Sprintf(" of %d hosts", len(m.Hosts))
	}
	return fmt.Sprintf("%s%s, %s", topo.Count(len(m.Chips), "chip"), of, topo.Count(len(m.Cables), "cable"))
}

// Name returns the name of a physical chip: tt-umd's id of the chip and, if there are several hosts, the name of
// the host.
func (m *Machine) Name(chip int) string {
	c := &m.Chips[chip]
	if len(m.Hosts) == 1 {
		return fmt.Sprintf("chip %d", c.UMD)
	}
	return fmt.Sprintf("chip %d of %s", c.UMD, m.Hosts[c.Host])
}

// HostOf returns a topology as a host: the chips and cables that the topology has.
func HostOf(t *topo.Topology) Host {
	c := &topo.Cluster{Arch: t.Arch}
	ids := map[wire.FabricNodeID]int{}
	seen := map[int]bool{}
	for _, x := range t.Chips {
		seen[x.UMD] = true
	}
	own := len(seen) == len(t.Chips) && !seen[topo.NoUMD] // each chip has an id of its own
	for i, x := range t.Chips {
		if !own {
			x.UMD = i
		}
		if x.UniqueID == 0 {
			x.UniqueID = uint64(x.UMD) << 32
		}
		ids[x.Node] = x.UMD
		c.Chips = append(c.Chips, topo.ClusterChip{Chip: x})
	}
	slices.SortFunc(c.Chips, func(a, b topo.ClusterChip) int { return a.UMD - b.UMD })
	for _, x := range t.Cables {
		c.Cables = append(c.Cables, [2]topo.ClusterPort{{Chip: ids[x.A.Node], Channel: x.A.Channel}, {Chip: ids[x.B.Node], Channel: x.B.Channel}})
	}
	return Host{t.Name, c}
}

// Join makes one machine of the chips of several hosts. A cable between two hosts must be in the files of
// both; other cables that lead out of a host are left out. Hosts with the same chips count as one host,
// because several ranks may share a host.
func Join(hosts []Host) (*Machine, error) {
	m := &Machine{}
	byUnique := map[uint64]int{}
	var kept []int // indices in hosts
	for i, h := range hosts {
		if m.Arch != wire.ArchUnknown && h.Cluster.Arch != m.Arch {
			return nil, fmt.Errorf("%s has chips of the architecture %s, and %s has %s: a fabric has only one architecture (Spec §1.2)", h.Name, h.Cluster.Arch, hosts[0].Name, m.Arch)
		}
		m.Arch = h.Cluster.Arch
		same := 0
		for _, c := range h.Cluster.Chips {
			if _, ok := byUnique[c.UniqueID]; ok {
				same++
			}
		}
		switch other := ""; {
		case same == len(h.Cluster.Chips):
			continue
		case same > 0:
			for _, c := range h.Cluster.Chips {
				if k, ok := byUnique[c.UniqueID]; ok {
					other = fmt.Sprintf("chip %d of %s and chip %d of %s", m.Chips[k].UMD, m.Hosts[m.Chips[k].Host], c.UMD, h.Name)
					break
				}
			}
			return nil, fmt.Errorf("%s have the same unique id, but the hosts have different chips; give each chip its own id under chip_unique_ids", other)
		}
		if len(m.Chips)+len(h.Cluster.Chips) > MaxChips {
			return nil, fmt.Errorf("more than %d chips", MaxChips)
		}
		for _, c := range h.Cluster.Chips {
			if _, dup := byUnique[c.UniqueID]; dup {
				return nil, fmt.Errorf("two chips of %s have the unique id %d", h.Name, c.UniqueID)
			}
			byUnique[c.UniqueID] = len(m.Chips)
			m.Chips = append(m.Chips, Chip{c, len(m.Hosts)})
		}
		m.Hosts, kept = append(m.Hosts, h.Name), append(kept, i)
	}
	if len(m.Chips) == 0 {
		return nil, fmt.Errorf("no chips")
	}
	m.cable(hosts, kept, byUnique)
	return m, nil
}

// cable adds the cables within the hosts and between them.
func (m *Machine) cable(hosts []Host, kept []int, byUnique map[uint64]int) {
	far := map[[2]Port]bool{} // for each cable between hosts: one entry for each file that has it
	used := map[Port]bool{}
	beyond, oneSided, twice := 0, 0, 0
	add := func(a, b Port) {
		if a.Chip == b.Chip || used[a] || used[b] {
			twice++
			return
		}
		used[a], used[b] = true, true
		ca, cb := &m.Chips[a.Chip], &m.Chips[b.Chip]
		m.Cables = append(m.Cables, Cable{a, b, topo.ForZ(m.Arch, [2]string{ca.Board, cb.Board}, [2]wire.Channel{a.Channel, b.Channel})})
	}
	ids := make([]map[int]int, len(kept)) // for each host: index of each chip
	for n := range kept {
		ids[n] = map[int]int{}
	}
	for i, c := range m.Chips {
		ids[c.Host][c.UMD] = i
	}
	for n, k := range kept {
		c := hosts[k].Cluster
		twice += c.Twice
		for _, x := range c.Cables {
			add(sorted(Port{ids[n][x[0].Chip], x[0].Channel}, Port{ids[n][x[1].Chip], x[1].Channel}))
		}
		for _, x := range c.Far {
			if to, ok := byUnique[x.Unique]; ok {
				far[[2]Port{{ids[n][x.Port.Chip], x.Port.Channel}, {to, x.Channel}}] = true
			} else {
				beyond++
			}
		}
	}
	var both [][2]Port
	for pair := range far {
		a, b := sorted(pair[0], pair[1])
		switch {
		case !far[[2]Port{pair[1], pair[0]}]:
			oneSided++
		case pair[0] == a:
			both = append(both, [2]Port{a, b})
		}
	}
	slices.SortFunc(both, func(x, y [2]Port) int { return comparePorts(x[0], y[0]) })
	for _, x := range both {
		add(x[0], x[1])
	}
	slices.SortFunc(m.Cables, func(x, y Cable) int { return comparePorts(x.A, y.A) })
	for _, l := range []topo.LeftOut{{Count: beyond, What: "cables to chips of other hosts", Why: "no file has these chips"},
		{Count: oneSided, What: "cables between hosts", Why: "only one of the two hosts' files has them"},
		{Count: twice, What: "cables", Why: "a port at one end has another cable in the files"}} {
		if l.Count > 0 {
			m.LeftOut = append(m.LeftOut, l)
		}
	}
}

func sorted(a, b Port) (Port, Port) {
	if comparePorts(b, a) < 0 {
		return b, a
	}
	return a, b
}

func comparePorts(a, b Port) int {
	if a.Chip != b.Chip {
		return a.Chip - b.Chip
	}
	return int(a.Channel) - int(b.Channel)
}

// The method "at" returns the physical chips whose tray and location are among the given ones.
func (m *Machine) at(tray, location []int) (list []int) {
	for i, c := range m.Chips {
		if c.Tray > 0 && slices.Contains(tray, c.Tray) && slices.Contains(location, c.Location) {
			list = append(list, i)
		}
	}
	return list
}

// located reports whether the files say where any chip is.
func (m *Machine) located() bool {
	return slices.ContainsFunc(m.Chips, func(c Chip) bool { return c.Tray > 0 })
}

// tidy returns a text as one line of valid UTF-8.
func tidy(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}
