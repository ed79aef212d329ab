package membership

import (
	"fmt"
	"net/netip"
	"slices"

	"ttfabric/wire"
)

// Member is one process that claims to be a chip.
type Member struct {
	Name string // unique for each incarnation
	Addr netip.Addr
	Meta Meta
}

// EventKind tells events apart.
type EventKind uint8

// The kinds of events.
const (
	Joined    EventKind = iota + 1 // the view heard of a chip for the first time
	Updated                        // a chip has new metadata
	Restarted                      // another process claims to be the chip, and the view believes the process
	Left                           // a chip left or fell silent
	Rejected                       // the view does not believe a claim; see Reason
)

// String returns the kind in lower case.
func (k EventKind) String() string {
	names := [...]string{"", "joined", "updated", "restarted", "left", "rejected"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Event is a change of the view.
type Event struct {
	Kind   EventKind
	Member Member
	Reason string // why the view rejected a claim
}

// MaxClaims is the number of processes that the view remembers. The view rejects further processes.
const MaxClaims = 4 * wire.MaxChipsPerMesh

// MaxFormer is the number of former processes that the view remembers. The view forgets the oldest
// first.
const MaxFormer = 1024

// View merges the news about processes. A View believes that at most one process is a given chip.
// Of the processes that claim to be the chip, the View believes the process that started last. The
// View remembers the other claims. If the believed process goes, another process takes over.
//
// A process that is gone and has a successor is a former process of its chip. The view does not
// believe any news about a former process, even when the successor is gone too. The view recognizes
// a former process by its name and not by its start time, since clocks jump.
type View struct {
	topology uint32
	member   func(wire.FabricNodeID) bool
	claims   map[string]Member            // claims, by name of the process
	chips    map[wire.FabricNodeID]string // name of the process that the view believes to be the chip
	gone     map[wire.FabricNodeID]string // name of the last believed process that is gone, until that process has a successor
	former   map[string]bool              // names of former processes
	order    []string                     // the names in former, oldest first
}

// NewView returns an empty view of a fabric. The argument topology is the low bits of the fabric's
// topology hash; 0 matches all fabrics. The function member reports whether a chip belongs to the
// fabric; nil: every chip does.
func NewView(topology uint32, member func(wire.FabricNodeID) bool) *View {
	return &View{topology: topology, member: member, claims: map[string]Member{}, chips: map[wire.FabricNodeID]string{}, gone: map[wire.FabricNodeID]string{}, former: map[string]bool{}}
}

// Former reports whether the process with a name is a former process of its chip.
func (v *View) Former(name string) bool { return v.former[name] }

// retire notes a former process.
func (v *View) retire(name string) {
	if v.former[name] {
		return
	}
	if len(v.order) == MaxFormer {
		delete(v.former, v.order[0])
		v.order = append(v.order[:0], v.order[1:]...)
	}
	v.former[name] = true
	v.order = append(v.order, name)
}

// Judge decodes the metadata of a process that claims to be a chip. The error says why the view
// rejects the claim. If the metadata is readable, Judge returns it beside the error.
func (v *View) Judge(name string, meta []byte) (Meta, error) {
	m, err := DecodeMeta(meta)
	_, known := v.claims[name]
	switch {
	case err != nil:
		return Meta{}, err
	case v.topology != 0 && m.Topology != 0 && m.Topology != v.topology:
		return m, fmt.Errorf("topology %08x is not ours, %08x", m.Topology, v.topology)
	case v.member != nil && !v.member(m.Node):
		return m, fmt.Errorf("the topology has no chip %s", m.Node)
	case !known && !v.former[name] && len(v.claims) >= MaxClaims:
		return m, fmt.Errorf("more than %d processes", MaxClaims)
	}
	return m, nil
}

// Alive notes that a process is alive, for the first time or again.
func (v *View) Alive(name string, addr netip.Addr, meta []byte) []Event {
	m, err := v.Judge(name, meta)
	mem := Member{name, addr, m}
	switch {
	case err != nil && m == Meta{}:
		return []Event{{Rejected, mem, err.Error()}}
	case err != nil:
		return append(v.Gone(name), Event{Rejected, mem, err.Error()})
	case v.former[name]:
		return nil
	}
	was, known := v.claims[name]
	if known && was.Meta.Node != m.Node {
		return append(v.Gone(name), v.Alive(name, addr, meta)...)
	}
	if known && was.Meta.sameProcess(&m) && int32(m.LinkVersion-was.Meta.LinkVersion) < 0 {
		return nil // old news about a former process
	}
	v.claims[name] = mem
	if last, ok := v.gone[m.Node]; ok {
		if last != name {
			v.retire(last)
		}
		delete(v.gone, m.Node)
	}
	holder, held := v.chips[m.Node]
	switch {
	case !held:
		v.chips[m.Node] = name
		return []Event{{Joined, mem, ""}}
	case holder == name:
		if was == mem {
			return nil
		}
		return append([]Event{{Updated, mem, ""}}, v.elect(m.Node)...)
	}
	h := v.claims[holder]
	if m.Newer(&h.Meta) {
		v.chips[m.Node] = name
		return []Event{{Restarted, mem, ""}}
	}
	return nil
}

// Gone notes that a process left, or that the pool believes the process dead.
func (v *View) Gone(name string) []Event {
	m, ok := v.claims[name]
	if !ok {
		return nil
	}
	delete(v.claims, name)
	next := v.best(m.Meta.Node)
	if next != "" {
		v.retire(name)
	} else {
		if len(v.gone) >= MaxClaims {
			clear(v.gone)
		}
		v.gone[m.Meta.Node] = name
	}
	if v.chips[m.Meta.Node] != name {
		return nil
	}
	delete(v.chips, m.Meta.Node)
	if next != "" {
		v.chips[m.Meta.Node] = next
		return []Event{{Restarted, v.claims[next], ""}}
	}
	return []Event{{Left, m, ""}}
}

// elect chooses the process with the best claim to a chip, and believes that process.
func (v *View) elect(n wire.FabricNodeID) []Event {
	if best := v.best(n); best != v.chips[n] {
		v.chips[n] = best
		return []Event{{Restarted, v.claims[best], ""}}
	}
	return nil
}

// best returns the name of the process with the best claim to a chip. If there is no claim, best
// returns "". Of equal claims, the greater name wins. Every view therefore chooses the same
// process.
func (v *View) best(n wire.FabricNodeID) string {
	name := ""
	for k, c := range v.claims {
		if c.Meta.Node != n {
			continue
		}
		if name == "" {
			name = k
			continue
		}
		b := v.claims[name]
		if c.Meta.Newer(&b.Meta) || !b.Meta.Newer(&c.Meta) && k > name {
			name = k
		}
	}
	return name
}

// Members lists the chips that the view believes alive, sorted by their address in the fabric.
func (v *View) Members() []Member {
	out := make([]Member, 0, len(v.chips))
	for _, name := range v.chips {
		out = append(out, v.claims[name])
	}
	slices.SortFunc(out, func(a, b Member) int { return a.Meta.Node.Compare(b.Meta.Node) })
	return out
}
