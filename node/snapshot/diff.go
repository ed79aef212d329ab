package snapshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ttfabric/wire"
)

// Difference is one difference between two snapshots.
type Difference struct {
	Kind   string `json:"kind"`   // fabric, chip, port, tables, packet or flow
	Where  string `json:"where"`  // the chip, port or packet
	What   string `json:"what"`   // what differs
	Before string `json:"before"` // value in the first snapshot; empty: absent there
	After  string `json:"after"`  // value in the second snapshot; empty: absent there
}

// Diff lists what differs between two snapshots: chips, states of ports, tables, where packets are,
// and the numbers of open requests. Diff leaves out ages and counts of packets, which always differ.
func Diff(a, b *File) []Difference {
	d := differ{out: []Difference{}}
	d.add("fabric", "", "topology", a.Topology.Name+" "+text(a.Topology.Hash), b.Topology.Name+" "+text(b.Topology.Hash))
	d.add("fabric", "", "options", encoded(a.Options), encoded(b.Options))
	one, two := byNode(a), byNode(b)
	for _, n := range nodes(one, two) {
		p, q := one[n], two[n]
		if p == nil || q == nil {
			d.add("chip", n.String(), "state", present(p != nil), present(q != nil))
			continue
		}
		d.add("chip", n.String(), "incarnation", text(p.Incarnation), text(q.Incarnation))
		d.tables(n, &p.Tables, &q.Tables)
		d.ports(n, p, q)
		d.flows(n, p, q)
	}
	d.packets(a, b)
	return d.out
}

type differ struct{ out []Difference }

// add adds a difference if the two values differ.
func (d *differ) add(kind, where, what, before, after string) {
	if before != after {
		d.out = append(d.out, Difference{kind, where, what, before, after})
	}
}

func byNode(f *File) map[wire.FabricNodeID]*Chip {
	m := map[wire.FabricNodeID]*Chip{}
	for i := range f.Chips {
		m[f.Chips[i].Node] = &f.Chips[i]
	}
	return m
}

// nodes returns the chips of two maps, sorted.
func nodes(a, b map[wire.FabricNodeID]*Chip) []wire.FabricNodeID {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.SortedFunc(maps.Keys(all), wire.FabricNodeID.Compare)
}

func present(yes bool) string {
	if yes {
		return "known"
	}
	return ""
}

func text(v interface{ MarshalText() ([]byte, error) }) string {
	b, _ := v.MarshalText() // the types of a snapshot never return an error
	return string(b)
}

func encoded(v any) string {
	b, _ := json.Marshal(v) // the types of a snapshot never return an error
	return string(b)
}

func (d *differ) tables(n wire.FabricNodeID, p, q *Tables) {
	d.add("tables", n.String(), "epoch", text(p.Epoch), text(q.Epoch))
	d.add("tables", n.String(), "cables out of service", ports(p.Out), ports(q.Out))
	d.add("tables", n.String(), "unreachable", list(p.Unreachable), list(q.Unreachable))
	if encoded(p.Routes) == encoded(q.Routes) {
		return
	}
	rows := func(t *Tables) map[string]string {
		m := map[string]string{}
		for _, r := range t.Routes {
			for _, pl := range r.Planes {
				for dst, route := range r.L0 {
					m[fmt.Sprintf("%s to D%d on plane %d", r.Class, dst, pl)] = route
				}
				for _, e := range r.L1 {
					if e.Port != nil {
						m[fmt.Sprintf("%s to mesh %d on plane %d", r.Class, e.Mesh, pl)] = e.Port.String()
					}
				}
			}
		}
		return m
	}
	before, after := rows(p), rows(q)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		d.add("tables", n.String(), k, before[k], after[k])
	}
}

func ports(ps []Port) string {
	var s []string
	for _, p := range ps {
		s = append(s, p.String())
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}

func list(ns []wire.FabricNodeID) string {
	var s []string
	for _, n := range ns {
		s = append(s, n.String())
	}
	return strings.Join(s, " ")
}

func (d *differ) ports(n wire.FabricNodeID, p, q *Chip) {
	by := map[wire.Channel]*PortState{}
	for i := range q.Ports {
		by[q.Ports[i].Channel] = &q.Ports[i]
	}
	for i := range p.Ports {
		x := &p.Ports[i]
		where := Port{Node: n, Channel: x.Channel}.String()
		y := by[x.Channel]
		if delete(by, x.Channel); y == nil {
			d.add("port", where, "state", x.Link, "")
			continue
		}
		d.add("port", where, "link", x.Link, y.Link)
		d.add("port", where, "session", text(x.Session), text(y.Session))
		d.add("port", where, "router", x.Router, y.Router)
		d.add("port", where, "carried by", fmt.Sprint(x.By), fmt.Sprint(y.By))
		d.add("port", where, "fallback", fmt.Sprint(x.Fallback), fmt.Sprint(y.Fallback))
		d.add("port", where, "out of service", fmt.Sprint(x.Out), fmt.Sprint(y.Out))
		d.add("port", where, "avoided", fmt.Sprint(x.Avoided), fmt.Sprint(y.Avoided))
		d.add("port", where, "compliance mode", fmt.Sprint(x.Raw), fmt.Sprint(y.Raw))
	}
	for _, ch := range slices.Sorted(maps.Keys(by)) {
		d.add("port", Port{Node: n, Channel: ch}.String(), "state", "", by[ch].Link)
	}
}

func (d *differ) flows(n wire.FabricNodeID, p, q *Chip) {
	open := func(k *Chip) map[string]int {
		m := map[string]int{}
		for i := range k.Flows {
			f := &k.Flows[i]
			to := fmt.Sprintf("to %s on plane %d", f.Dst, f.Plane)
			if f.Group != 0 {
				to = fmt.Sprintf("to group %d on plane %d", f.Group, f.Plane)
			}
			for j := range f.Requests {
				if !f.Requests[j].Settled {
					m[to]++
				}
			}
			m[to] += len(f.Reads)
		}
		return m
	}
	before, after := open(p), open(q)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		d.add("flow", n.String(), "open requests "+k, fmt.Sprint(before[k]), fmt.Sprint(after[k]))
	}
}

// packets lists the packets that have moved, come or gone. Packets are the same if their type, source,
// destination and id are equal. Control packets without an id are left out.
func (d *differ) packets(a, b *File) {
	before, after := places(a), places(b)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, k := range slices.SortedFunc(maps.Keys(all), func(x, y packetKey) int {
		return cmp.Or(x.src.Compare(y.src), cmp.Compare(x.id, y.id), strings.Compare(x.kind, y.kind))
	}) {
		d.add("packet", fmt.Sprintf("%s %016x of %s", k.kind, uint64(k.id), k.src), "place", strings.Join(before[k], ", "), strings.Join(after[k], ", "))
	}
}

type packetKey struct {
	kind string
	src  wire.FabricNodeID
	id   Hex64
}

// places returns where the packets of a snapshot are.
func places(f *File) map[packetKey][]string {
	m := map[packetKey][]string{}
	note := func(ps []Packet, format string, args ...any) {
		for i := range ps {
			if p := &ps[i]; p.ID != 0 {
				k := packetKey{p.Type, p.Src, p.ID}
				m[k] = append(m[k], fmt.Sprintf(format, args...))
			}
		}
	}
	for i := range f.Chips {
		k := &f.Chips[i]
		for j := range k.Ports {
			p := &k.Ports[j]
			at := Port{Node: k.Node, Channel: p.Channel}
			for x := range p.VCs {
				v := &p.VCs[x]
				note(v.InFlight, "in flight to %s %s", at, wire.VC(v.VC))
				note(v.Receiver, "%s %s receiver", at, wire.VC(v.VC))
				for s := range v.Senders {
					note(v.Senders[s], "%s %s sender %d", at, wire.VC(v.VC), s)
				}
			}
		}
		for _, o := range k.Own {
			note(o.Packets, "%s own multicasts of plane %d", k.Node, o.Plane)
		}
		note(k.Replies, "%s waiting replies", k.Node)
		note(k.Host, "%s waiting for the host", k.Node)
	}
	for _, at := range m {
		slices.Sort(at)
	}
	return m
}
