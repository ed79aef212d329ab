package flow

import (
	"errors"
	"fmt"
)

// CheckInvariants returns an error if the source's own state is inconsistent. Tests and
// the simulator call CheckInvariants.
func (s *Source) CheckInvariants() error {
	open := 0
	for _, list := range [][]*outFlow{s.list, s.groups.list} {
		for _, f := range list {
			n, err := f.check()
			if err != nil {
				return fmt.Errorf("flow to %v: %w", f.key, err)
			}
			open += n
		}
	}
	for i, f := range s.groups.list {
		if int(f.key.Group) != i+1 || s.groups.byKey[f.tree] != f {
			return fmt.Errorf("group %d has index %d in the list, or its tree belongs to another group", f.key.Group, i)
		}
	}
	if open != s.open {
		return fmt.Errorf("%d requests are open, but the counter says %d", open, s.open)
	}
	return nil
}

// check returns the number of open requests in a flow's window. check returns an error if
// the flow's counters or members are inconsistent.
func (f *outFlow) check() (open int, err error) {
	if f.base+uint32(f.len()) != f.next {
		return 0, fmt.Errorf("the window has %d requests from number %d on, but the next number is %d", f.len(), f.base, f.next)
	}
	if f.open != nil && (len(f.members) < 2 || len(*f.open) != len(f.ops)) {
		return 0, fmt.Errorf("the window has %d requests, but %d sets of %d members", len(f.ops), len(*f.open), len(f.members))
	}
	if f.multicast() && f.epoch.peer != nil {
		return 0, errors.New("the packets of a group name a life")
	}
	var by [MaxMembers + 1]int
	for k := f.head; k < len(f.ops); k++ {
		o, n := &f.ops[k], 0
		for i := range f.members {
			if f.waits(k, i) {
				by[i]++
				n++
			}
		}
		if n != int(o.left) {
			return 0, fmt.Errorf("request %d is open at %d members, but its counter says %d", f.seq(k), n, o.left)
		}
		if !o.settled() {
			open++
		} else if k == f.head {
			return 0, fmt.Errorf("request %d is settled, but still the first in the window", f.base)
		}
	}
	if err := f.reads.check(); err != nil {
		return 0, err
	}
	open += f.reads.open
	by[0] += f.reads.open
	for i := range f.members {
		if m := &f.members[i]; m.open != by[i] {
			return 0, fmt.Errorf("member %s has %d open requests, but its counter says %d", m.node, by[i], m.open)
		}
		if i > 0 && compareNodes(f.members[i-1].node, f.members[i].node) >= 0 {
			return 0, fmt.Errorf("members %s and %s are out of order", f.members[i-1].node, f.members[i].node)
		}
	}
	return open, nil
}

// check returns an error if the reads are out of order, or their counter is wrong.
func (l *lateReads) check() error {
	open := 0
	for k := range l.ops {
		o := &l.ops[k]
		if k > 0 && int64(o.id-l.ops[k-1].id) <= 0 || !o.read || o.performed == 0 {
			return fmt.Errorf("late read %d is out of order, or not performed", o.seq)
		}
		if !o.settled() {
			open++
		}
	}
	if open != l.open {
		return fmt.Errorf("%d late reads are open, but their counter says %d", open, l.open)
	}
	return nil
}

// CheckInvariants returns an error if the sink's own state is inconsistent. Tests and
// the simulator call CheckInvariants.
func (s *Sink) CheckInvariants() error {
	for _, f := range s.owed {
		if !f.owed {
			return fmt.Errorf("flow from %v is in the list of owed completions, but no completion is owed to it", f.key)
		}
		if len(f.exc) > maxExceptions {
			return fmt.Errorf("flow from %v has %d exceptions, but a sink keeps at most %d", f.key, len(f.exc), maxExceptions)
		}
		if int32(f.told-f.next) > 0 {
			return fmt.Errorf("flow from %v: told up to request %d, which is after request %d", f.key, f.told, f.next)
		}
		for i := range f.exc {
			if e := &f.exc[i]; i > 0 && int32(e.First-f.exc[i-1].First) <= 0 || int32(f.next-e.First) <= 0 {
				return fmt.Errorf("flow from %v: exception %d at request %d is out of order, or not before request %d", f.key, i, e.First, f.next)
			}
		}
	}
	return nil
}
