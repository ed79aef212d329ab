package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ttfabric/node/flow"
	"ttfabric/node/noc"
	"ttfabric/wire"
)

// Counter is a [Fabric] that counts how the requests of its chip have ended. A chip in
// this process is a Counter. A chip that the program reaches through the chip's API is a
// Counter too.
type Counter interface {
	Moment(ctx context.Context) (flow.Moment, error)
}

// ErrNoCounter is the error of [Session.Checkpoint] and [Session.LostSince] on a fabric
// that is no [Counter].
var ErrNoCounter = errors.New("this fabric does not count how requests end; take checkpoints from a chip, or from its API")

// Checkpoint records how the requests of a chip had ended at one moment.
// [Session.Checkpoint] makes a Checkpoint. A workload can keep a Checkpoint as JSON
// beside the workload's own checkpoint. A Checkpoint stays valid after the process or
// the chip has ended.
type Checkpoint struct {
	Moment flow.Moment                            `json:"moment"`
	Lives  map[wire.FabricNodeID]wire.Incarnation `json:"lives"` // incarnation of each chip that answered
}

// PeerLosses counts the losses of requests to one chip since a checkpoint.
type PeerLosses struct {
	Chip        wire.FabricNodeID `json:"chip"`
	Lost        uint64            `json:"lost"`        // requests that got lost, and that the chip therefore did not perform
	Unknown     uint64            `json:"unknown"`     // requests of which nobody knows whether the chip performed them
	Open        int               `json:"open"`        // requests whose fate is still open
	Restarted   bool              `json:"restarted"`   // the chip restarted since the checkpoint and lost its memory; also true if the checkpoint lacks the chip's incarnation
	Unreachable string            `json:"unreachable"` // why LostSince could not read the chip's incarnation; "" if LostSince could read it
}

// Losses is the answer of [Session.LostSince].
type Losses struct {
	Chip      wire.FabricNodeID `json:"chip"`
	Restarted bool              `json:"restarted"` // this chip itself restarted, and lost its memory and its count of how earlier requests ended
	Peers     []PeerLosses      `json:"peers"`     // chips with lost, unknown or open requests, and chips that restarted or did not answer; in the order of their numbers
	Now       Checkpoint        `json:"now"`       // checkpoint made with this answer, for the next call of LostSince
}

// Any reports whether a request was lost, may have been lost or is still open, or whether
// a chip restarted or did not answer.
func (l *Losses) Any() bool { return l.Restarted || len(l.Peers) > 0 }

// Err returns nil if Any returns false, and otherwise a [*LossError].
func (l *Losses) Err() error {
	if !l.Any() {
		return nil
	}
	return &LossError{l}
}

// LossError is the error for losses since a checkpoint, see [Losses.Err].
type LossError struct{ Losses *Losses }

// Error names the chips and what happened at each chip.
func (e *LossError) Error() string {
	var parts []string
	if e.Losses.Restarted {
		parts = append(parts, fmt.Sprintf("chip %s, the chip of this session, has restarted", e.Losses.Chip))
	}
	for _, p := range e.Losses.Peers {
		var what []string
		for _, x := range []struct {
			n    uint64
			name string
		}{{p.Lost, "lost"}, {p.Unknown, "of unknown outcome"}, {uint64(p.Open), "open"}} {
			if x.n > 0 {
				what = append(what, fmt.Sprintf("%d requests %s", x.n, x.name))
			}
		}
		if p.Restarted {
			what = append(what, "restarted and lost its memory")
		}
		if p.Unreachable != "" {
			what = append(what, "unreachable")
		}
		parts = append(parts, fmt.Sprintf("chip %s: %s", p.Chip, strings.Join(what, ", ")))
	}
	return "since the checkpoint: " + strings.Join(parts, "; ")
}

// Checkpoint notes how the chip's requests have ended so far, and the incarnation of
// each chip of the fabric. Checkpoint reads the incarnations over the fabric, and
// leaves out a chip that does not answer. The counts cover all requests of the chip,
// also the requests of other programs on the chip and of traffic runs.
func (s *Session) Checkpoint(ctx context.Context) (Checkpoint, error) {
	c, _, err := s.look(ctx)
	return c, err
}

// LostSince returns how many requests got lost since a checkpoint of this chip. The
// answer names each chip with requests that were lost or may have been lost. The answer
// also names each chip that restarted, because earlier writes to a restarted chip are
// gone, and each chip that does not answer. The answer includes requests that were open
// at the checkpoint and got lost later. The answer also counts requests that are still
// open. A workload should therefore wait until its requests have ended, and then call
// LostSince. LostSince returns an error if it cannot get the counts, or if the checkpoint
// is of another chip.
func (s *Session) LostSince(ctx context.Context, c Checkpoint) (Losses, error) {
	now, failed, err := s.look(ctx)
	if err != nil {
		return Losses{}, err
	}
	if c.Moment.Chip != now.Moment.Chip {
		return Losses{}, fmt.Errorf("the checkpoint is of chip %s, but this session starts from chip %s; compare checkpoints of the same chip", c.Moment.Chip, now.Moment.Chip)
	}
	l := Losses{Chip: now.Moment.Chip, Restarted: c.Moment.Incarnation != now.Moment.Incarnation, Peers: []PeerLosses{}, Now: now}
	by := map[wire.FabricNodeID]*PeerLosses{}
	for _, t := range s.Topology().Chips {
		if t.Node == l.Chip {
			continue
		}
		p := &PeerLosses{Chip: t.Node}
		by[t.Node] = p
		if life, ok := now.Lives[t.Node]; ok {
			p.Restarted = life != c.Lives[t.Node]
		} else {
			p.Unreachable = failed[t.Node].Error()
		}
	}
	for _, e := range now.Moment.Since(&c.Moment) {
		if p := by[e.Dst]; p != nil {
			p.Lost, p.Unknown, p.Open = e.Fates[flow.FateLost], e.Fates[flow.FateUnknown], e.Open
			p.without(failed[e.Dst])
		}
	}
	for _, p := range by {
		if *p != (PeerLosses{Chip: p.Chip}) {
			l.Peers = append(l.Peers, *p)
		}
	}
	slices.SortFunc(l.Peers, func(a, b PeerLosses) int { return a.Chip.Compare(b.Chip) })
	return l, nil
}

// The method "without" corrects the counts if LostSince's own read of the chip's incarnation failed
// with err. The corrected counts leave out this read.
func (p *PeerLosses) without(err error) {
	var lost *LostError
	var unknown *OutcomeUnknownError
	switch {
	case errors.As(err, &lost):
		p.Lost -= min(p.Lost, 1)
	case errors.As(err, &unknown) && p.Unknown > 0:
		p.Unknown--
	case errors.As(err, &unknown): // the caller has stopped waiting for the answer to the read
		p.Open -= min(p.Open, 1)
	}
}

// look reads the incarnations of all other chips, and then takes this chip's counts. If a
// chip restarts after look has read its incarnation, the counts therefore include the
// losses. The returned map has the errors of the reads that failed.
func (s *Session) look(ctx context.Context) (Checkpoint, map[wire.FabricNodeID]error, error) {
	counter, ok := s.f.(Counter)
	if !ok {
		return Checkpoint{}, nil, ErrNoCounter
	}
	c := Checkpoint{Lives: map[wire.FabricNodeID]wire.Incarnation{}}
	failed := map[wire.FabricNodeID]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	at := make(chan struct{}, InFlight/4)
	for _, t := range s.Topology().Chips {
		if t.Node == s.Self() {
			continue
		}
		at <- struct{}{}
		wg.Go(func() {
			defer func() { <-at }()
			life, err := s.life(ctx, t.Node)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[t.Node] = err
			} else {
				c.Lives[t.Node] = life
			}
		})
	}
	wg.Wait()
	var err error
	c.Moment, err = counter.Moment(ctx)
	return c, failed, err
}

// life reads the incarnation of chip n from the life register of the chip.
func (s *Session) life(ctx context.Context, n wire.FabricNodeID) (wire.Incarnation, error) {
	a, ok := noc.LifeRegister(s.Topology().Arch)
	if !ok {
		return 0, fmt.Errorf("chips of architecture %s have no life register", s.Topology().Arch)
	}
	var b [noc.LifeSize]byte
	err := s.Read(ctx, n, a, b[:])
	return wire.Incarnation(binary.LittleEndian.Uint64(b[:])), err
}
