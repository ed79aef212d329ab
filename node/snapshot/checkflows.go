package snapshot

import (
	"errors"
	"fmt"
	"strings"

	"ttfabric/wire"
)

// maxExceptions is the largest number of exceptions that a chip keeps of one flow, see package flow.
const maxExceptions = 64

// maxDoubt is the largest code of a doubt, see package flow.
const maxDoubt = 8

// flowKey identifies a flow at one of its ends.
type flowKey struct {
	node  wire.FabricNodeID
	group uint16
	plane wire.Plane
	other bool
}

func (c *checker) flows(k *Chip) error {
	if err := errors.Join(atMost("flows", len(k.Flows), MaxFlows), atMost("arrived", len(k.Arrived), MaxFlows), atMost("jobs", len(k.Jobs), MaxFlows)); err != nil {
		return err
	}
	seen := map[flowKey]bool{}
	for i := range k.Flows {
		f := &k.Flows[i]
		key := flowKey{f.Dst, f.Group, f.Plane, f.Other}
		if f.Group != 0 {
			key.node = wire.FabricNodeID{} // the group's number identifies the flow
		}
		err := f.check()
		if err == nil && seen[key] {
			err = fmt.Errorf("dst: a second flow to %s with group %d", f.Dst, f.Group)
		}
		if seen[key] = true; err != nil {
			return within(err, "flows[%d]", i)
		}
	}
	clear(seen)
	owed := true
	for i := range k.Arrived {
		a := &k.Arrived[i]
		key := flowKey{a.Src, a.Group, a.Plane, a.Other}
		err := a.check()
		switch {
		case err != nil:
		case seen[key]:
			err = fmt.Errorf("src: a second flow from %s with group %d", a.Src, a.Group)
		case a.Owed && !owed:
			err = errors.New("owed: flows to which the chip owes a completion come first")
		}
		if err != nil {
			return within(err, "arrived[%d]", i)
		}
		seen[key], owed = true, a.Owed
	}
	return nil
}

func (f *Flow) check() error {
	many := f.Ranges != nil || f.Members != nil
	switch {
	case !f.Dst.Valid():
		return fmt.Errorf("dst: %s is no chip", f.Dst)
	case f.Plane > 15:
		return fmt.Errorf("plane: %d: want a plane below 16", f.Plane)
	case many != (f.Group != 0) || f.Ranges != nil && f.Members != nil || f.Ranges != nil && !f.Ranges.Any() || f.Members != nil && !f.Members.Any():
		return errors.New("group: a group has ranges or members, and a unicast flow has neither")
	case many && (f.Other || f.Via != ""):
		return errors.New("via: a group has neither hops nor another direction")
	case len(f.Via) > wire.MaxHops || strings.Trim(f.Via, "EWNSZ") != "":
		return fmt.Errorf("via: %q: want at most %d directions", f.Via, wire.MaxHops)
	case f.Next-f.Base != uint32(len(f.Requests)) || len(f.Requests) > MaxOpen:
		return fmt.Errorf("requests: %d requests, but base is %d, next is %d, and the limit is %d", len(f.Requests), f.Base, f.Next, MaxOpen)
	case len(f.Ends) == 0 || len(f.Ends) > wire.MaxChipsPerMesh || !many && (len(f.Ends) != 1 || f.Ends[0].Chip != f.Dst):
		return fmt.Errorf("ends: %d members: a unicast flow has its destination, and a group at most %d chips", len(f.Ends), wire.MaxChipsPerMesh)
	case f.Run < 0:
		return fmt.Errorf("run: %d: want at least 0", f.Run)
	}
	for i := 1; i < len(f.Ends); i++ {
		if f.Ends[i-1].Chip.Compare(f.Ends[i].Chip) >= 0 {
			return fmt.Errorf("ends[%d].chip: %s stands behind %s", i, f.Ends[i].Chip, f.Ends[i-1].Chip)
		}
	}
	for i := range f.Requests {
		if err := f.request(&f.Requests[i], many); err != nil {
			return within(err, "requests[%d]", i)
		}
		if want := f.Base + uint32(i); f.Requests[i].Seq != want {
			return fmt.Errorf("requests[%d].seq: %d: want %d", i, f.Requests[i].Seq, want)
		}
	}
	for i := range f.Reads {
		if r := &f.Reads[i]; many || !r.Read || r.Performed == nil {
			return fmt.Errorf("reads[%d]: want a performed read of a unicast flow", i)
		} else if err := f.request(r, many); err != nil {
			return within(err, "reads[%d]", i)
		}
	}
	for i, list := range [][]Request{f.Requests, f.Reads} {
		for k := 1; k < len(list); k++ {
			if int64(list[k].ID-list[k-1].ID) <= 0 {
				return fmt.Errorf("%s[%d].id: %016x does not come after %016x", []string{"requests", "reads"}[i], k, uint64(list[k].ID), uint64(list[k-1].ID))
			}
		}
	}
	return f.flushes()
}

func (f *Flow) flushes() error {
	last := f.Base
	for i, x := range f.Flushes {
		k := x.Seq - f.Base
		if k >= uint32(len(f.Requests)) || !f.Requests[k].Flush || f.Requests[k].Settled || i > 0 && int32(x.Seq-last) <= 0 {
			return fmt.Errorf("flushes[%d].seq: %d is no open flush of the window, or stands out of order", i, x.Seq)
		}
		last = x.Seq
	}
	open := 0
	for i := range f.Requests {
		if f.Requests[i].Flush && !f.Requests[i].Settled {
			open++
		}
	}
	if open != len(f.Flushes) {
		return fmt.Errorf("flushes: %d entries, but the window has %d open flushes", len(f.Flushes), open)
	}
	return nil
}

func (f *Flow) request(r *Request, many bool) error {
	switch {
	case r.Age < 0 || r.Performed != nil && *r.Performed < 0:
		return errors.New("age_ns, performed_ns: below 0")
	case many && !r.Settled && len(r.Waits) == 0, r.Settled && len(r.Waits) > 0,
		!many && len(r.Waits) > 0:
		return errors.New("waits: an unsettled multicast waits for members, and no other request does")
	case r.Read && (many || r.Posted || r.Size > wire.MaxPayload):
		return fmt.Errorf("read: a read of %d bytes: want at most %d bytes, no group, and not posted", r.Size, wire.MaxPayload)
	case !r.Read && r.Performed != nil:
		return errors.New("performed_ns: only a read has this field")
	}
	for i, x := range r.Failed {
		if !many || x.Fate < 1 || x.Fate > 3 || x.Outcome >= uint8(wire.NumOutcomes) || x.Drop >= uint8(wire.NumDropReasons) || x.Doubt > maxDoubt {
			return fmt.Errorf("failed[%d]: fate %d, outcome %d, drop %d, doubt %d: want codes of a multicast that was not done", i, x.Fate, x.Outcome, x.Drop, x.Doubt)
		}
	}
	for i, w := range r.Waits {
		if w < 0 || w >= len(f.Ends) || i > 0 && w <= r.Waits[i-1] {
			return fmt.Errorf("waits[%d]: %d: want growing indices below %d", i, w, len(f.Ends))
		}
	}
	return nil
}

func (a *Arrived) check() error {
	switch {
	case !a.Src.Valid():
		return fmt.Errorf("src: %s is no chip", a.Src)
	case a.Plane > 15:
		return fmt.Errorf("plane: %d: want a plane below 16", a.Plane)
	case int32(a.Next-a.Base) < 0:
		return fmt.Errorf("next: %d comes before base %d", a.Next, a.Base)
	case a.Owed && int32(a.Told-a.Next) > 0:
		return fmt.Errorf("told: %d comes after next %d", a.Told, a.Next)
	}
	if err := atMost("exceptions", len(a.Exceptions), maxExceptions); err != nil {
		return err
	}
	for i, e := range a.Exceptions {
		switch {
		case e.Count == 0 || int32(a.Next-(e.First+uint32(e.Count))) < 0:
			return fmt.Errorf("exceptions[%d].count: %d requests from %d on: want at least 1, and none from next %d on", i, e.Count, e.First, a.Next)
		case i > 0 && int32(e.First-(a.Exceptions[i-1].First+uint32(a.Exceptions[i-1].Count))) < 0:
			return fmt.Errorf("exceptions[%d].first: %d lies in the exception before", i, e.First)
		case e.Outcome == uint8(wire.OutcomeDone) || e.Outcome >= uint8(wire.NumOutcomes):
			return fmt.Errorf("exceptions[%d].outcome: %d: want the code of an outcome other than done", i, e.Outcome)
		}
	}
	return nil
}
