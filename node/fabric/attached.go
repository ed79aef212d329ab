package fabric

import (
	"context"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Limits of a search for the chips of an attached fabric.
const (
	rosterTime  = 1500 * time.Millisecond // longest time of a search; a search that finds all chips ends earlier
	rosterFirst = 8                       // number of known addresses that a search asks first, all at once
	rosterMore  = 200 * time.Millisecond  // time after which a search also asks the other known addresses; earlier if all asked addresses have answered
)

// attached is the [host] of an attached fabric. The chips of an attached fabric run on
// other machines.
type attached struct {
	dir folder.Dir
	m   spec.Spec
}

// Chips implements [host]. Chips returns the chips that answer, and the chips that
// answering chips list as members of the gossip. Chips also writes each new address into
// the run folder.
func (e attached) Chips() (out []folder.Chip) {
	f, err := read(e.dir, e.m)
	if err != nil {
		return nil
	}
	last := map[wire.FabricNodeID]string{}
	known := slices.Clone(e.m.Attached)
	for _, c := range e.dir.ChipFiles() {
		last[c.Chip] = c.API
		known = append(known, c.API)
	}
	r := roster{t: f.Topology, token: f.bearer(), found: map[wire.FabricNodeID]place{}, asked: map[string]bool{}, answers: make(chan rosterAnswer)}
	r.find(known)
	for n, p := range r.found {
		c := folder.Chip{Chip: n, API: p.api, Gossip: p.gossip}
		if last[n] != c.API {
			_ = e.dir.WriteChip(c) // the next command asks the chip at this address
		}
		out = append(out, c)
	}
	folder.SortChips(out)
	return out
}

// notHere returns the error for a command that must run on the machine of chip n. The text "what"
// is a past participle such as "killed".
func (e attached) notHere(n wire.FabricNodeID, what string) error {
	return spec.Usagef("fabric %q is attached: its chips run on other machines, so chip %s cannot be %s from this machine; run the command on the chip's own machine", e.dir.Name(), n, what)
}

func (e attached) Launch(_ context.Context, ns []wire.FabricNodeID, _ spec.Records, _ chan<- folder.Exit) error {
	if len(ns) == 0 {
		return nil
	}
	return e.notHere(ns[0], "started")
}

func (e attached) Do(_ context.Context, f folder.Chip, k fault.Kind) error {
	return e.notHere(f.Chip, k.String())
}

func (e attached) LastWords(wire.FabricNodeID) string { return "" }

// Archive implements [host]. Archive does nothing, because each chip's part of the archive
// stays on the chip's machine.
func (e attached) Archive(context.Context) error { return nil }

func (e attached) KeyLog(context.Context) error { return nil }

func (e attached) Recording(_ context.Context, file string) (string, error) { return file, nil }

// Remove implements [host]. Remove removes the run folder of the attached fabric on this
// machine. The chips continue to run.
func (e attached) Remove() error { return e.dir.Remove() }

// place holds the addresses of a chip of an attached fabric.
type place struct {
	api, gossip string
	sure        bool // the chip has answered at the address api; false: another chip named the address
}

// rosterAnswer is the answer of the chip at one API address.
type rosterAnswer struct {
	addr    string
	self    wire.FabricNodeID
	gossip  string
	members []api.MemberView
	err     error
}

// roster is a search for the addresses of a fabric's chips.
type roster struct {
	t       *topo.Topology
	token   string
	found   map[wire.FabricNodeID]place
	asked   map[string]bool
	open    int // number of questions that wait for an answer
	answers chan rosterAnswer
}

// find asks the chips at known addresses for the addresses of other chips. find returns
// when it has the addresses of all chips, when each address has answered or failed, or
// after [rosterTime].
func (r *roster) find(known []string) {
	ctx, cancel := context.WithTimeout(context.Background(), rosterTime)
	defer cancel()
	for _, a := range known[:min(len(known), rosterFirst)] {
		r.ask(ctx, a)
	}
	rest := known[min(len(known), rosterFirst):]
	more := time.After(rosterMore)
	for len(r.found) < len(r.t.Chips) {
		if r.open == 0 {
			if len(rest) == 0 {
				return
			}
			more = time.After(0)
		}
		select {
		case a := <-r.answers:
			r.open--
			r.hear(ctx, &a)
		case <-more:
			for _, a := range rest {
				r.ask(ctx, a)
			}
			rest, more = nil, nil
		case <-ctx.Done():
			return
		}
	}
}

// ask asks the chip at an address for its own addresses and for the members that it knows.
// ask does nothing if the search has asked the address before, or has asked too many
// addresses.
func (r *roster) ask(ctx context.Context, addr string) {
	if r.asked[addr] || len(r.asked) >= 4*len(r.t.Chips)+spec.MaxSeeds {
		return
	}
	r.asked[addr] = true
	r.open++
	go func() {
		a := rosterAnswer{addr: addr}
		cl := api.NewClient(addr, r.token, wire.FabricNodeID{}, r.t)
		defer cl.Close()
		v, err := cl.Chip(ctx)
		if err == nil {
			a.self, a.gossip = v.Chip, v.Gossip
			a.members, err = cl.Members(ctx)
		}
		a.err = err
		select {
		case r.answers <- a:
		case <-ctx.Done():
		}
	}()
}

// hear adds the chips that an answer names to the chips that the search has found. If no chip of a
// mesh has answered yet, hear also asks the named chips of this mesh. hear ignores chips that are
// not in the topology, and members without an API address.
func (r *roster) hear(ctx context.Context, a *rosterAnswer) {
	if a.err != nil {
		return
	}
	if _, ok := r.t.Chip(a.self); !ok {
		return
	}
	r.found[a.self] = place{a.addr, a.gossip, true}
	heard := map[wire.MeshID]bool{}
	for n, p := range r.found {
		heard[n.Mesh] = heard[n.Mesh] || p.sure
	}
	for _, m := range a.members {
		if _, ok := r.t.Chip(m.Chip); !ok || m.API == "" {
			continue
		}
		if _, ok := r.found[m.Chip]; !ok {
			r.found[m.Chip] = place{api: m.API, gossip: m.Address}
		}
		if !heard[m.Chip.Mesh] {
			r.ask(ctx, m.API)
		}
	}
}
