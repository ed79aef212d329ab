package membership

import (
	"fmt"
	"net/netip"
	"slices"

	"ttfabric/wire"
)

// Member describes one process that claims to be a chip. The fields come from the process's gossip.
type Member struct {
	Name string // name of the process, from Meta.Name; unique for each incarnation
	Addr netip.Addr
	Meta Meta
}

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of events.
const (
	Joined    EventKind = iota + 1 // the view believes a process to be a chip, and believed no process to be this chip before
	Updated                        // the process that the view believes has new metadata or a new address
	Restarted                      // the view now believes a process to be the chip, and believed another process before
	Left                           // the process that the view took for the chip left, fell silent or lost its valid claim, and no other process claims to be the chip
	Rejected                       // the view has rejected a claim; see Reason
)

// String returns the name of the kind in lower case, such as "joined".
func (k EventKind) String() string {
	names := [...]string{"", "joined", "updated", "restarted", "left", "rejected"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Event is a change of the view, or a rejected claim.
type Event struct {
	Kind   EventKind
	Member Member
	Reason string // Rejected: why the view rejected the claim; "" for other kinds
}

// MaxClaims is the largest number of claims that a view stores. A view rejects further claims.
const MaxClaims = 4 * wire.MaxChipsPerMesh

// MaxFormer is the largest number of former processes that a view stores. For each further former
// process, the view discards the oldest.
const MaxFormer = 1024

// View decides which processes are the chips of the fabric. The metadata that a process gossips
// says which chip the process claims to be. For each chip, a View believes at most one process. Of
// several processes that claim to be the chip, the View believes the process that started last, and
// stores the other claims. If the believed process leaves or falls silent, the View believes the
// process with the best of the other claims.
//
// A process is gone after it has left or has fallen silent. A process that is gone and has a
// successor is a former process of its chip. A View ignores all later claims of a former process,
// even after the successor is gone too. The View recognizes a former process by its name and not by
// its start time, because clocks can jump. A View forgets the oldest names beyond [MaxFormer].
type View struct {
	topology uint32
	member   func(wire.FabricNodeID) bool // reports whether a chip belongs to the fabric; nil: every chip does
	claims   map[string]Member            // claims by name of the process
	chips    map[wire.FabricNodeID]string // name of the process that the view believes to be the chip
	gone     map[wire.FabricNodeID]string // for a chip without claims: name of the last process that claimed to be the chip
	former   map[string]bool              // names of former processes
	order    []string                     // the names in former, the oldest first
}

// NewView returns an empty view of a fabric. The parameter "topology" has the low bits of the
// fabric's topology hash; 0 matches all fabrics. The function "member" reports whether a chip
// belongs to the fabric; nil: every chip does.
func NewView(topology uint32, member func(wire.FabricNodeID) bool) *View {
	return &View{topology: topology, member: member, claims: map[string]Member{}, chips: map[wire.FabricNodeID]string{}, gone: map[wire.FabricNodeID]string{}, former: map[string]bool{}}
}

// Former reports whether the process with the given name is a former process of its chip.
func (v *View) Former(name string) bool { return v.former[name] }

// retire adds a process to the former processes.
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
// rejects the claim. If the metadata is readable, Judge returns the metadata together with the
// error.
func (v *View) Judge(name string, meta []byte) (Meta, error) {
	m, err := DecodeMeta(meta)
	_, known := v.claims[name]
	switch {
	case err != nil:
		return Meta{}, err
	case v.topology != 0 && m.Topology != 0 && m.Topology != v.topology:
		return m, fmt.Errorf("the process has topology %08x, and this fabric has topology %08x", m.Topology, v.topology)
	case v.member != nil && !v.member(m.Node):
		return m, fmt.Errorf("the topology has no chip %s", m.Node)
	case !known && !v.former[name] && len(v.claims) >= MaxClaims:
		return m, fmt.Errorf("more than %d processes claim to be chips", MaxClaims)
	}
	return m, nil
}

// Alive tells the view that a process is alive, with its address and metadata. Alive returns the
// resulting events.
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
		return nil // older metadata than the view already has
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

// Gone tells the view that a process has left, or that the gossip pool believes the process dead.
// Gone returns the resulting events.
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

// elect makes the view believe the process with the best claim to chip n. If the view believed
// another process before, elect returns an event.
func (v *View) elect(n wire.FabricNodeID) []Event {
	if best := v.best(n); best != v.chips[n] {
		v.chips[n] = best
		return []Event{{Restarted, v.claims[best], ""}}
	}
	return nil
}

// best returns the name of the process with the best claim to chip n, or "" if no process claims to
// be the chip. The newest process has the best claim. Of two equally new processes, the process
// with the greater name has the better claim. All views therefore choose the same process.
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

// Len returns the number of processes that the view believes to be chips.
func (v *View) Len() int { return len(v.chips) }

// Members returns the processes that the view believes to be chips, sorted by mesh and chip.
func (v *View) Members() []Member {
	out := make([]Member, 0, len(v.chips))
	for _, name := range v.chips {
		out = append(out, v.claims[name])
	}
	slices.SortFunc(out, func(a, b Member) int { return a.Meta.Node.Compare(b.Meta.Node) })
	return out
}
