package flow

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
	"ttfabric/wire/tracetest"
)

var rewrite = flag.Bool("rewrite", false, "write new traces")

// TestTraces runs the scripts of testdata/traces. The commands:
//
//	read [N]       the source sends N reads (default 1); write N sends writes
//	take           the sent requests arrive at the destination, which answers
//	lose requests  the sent requests are lost; also "lose completions" and "lose replies"
//	answer         the completions of the destination arrive at the source
//	data [N]       the first N replies (default: all) arrive at the source
//	overtake       the last reply arrives at the source before the others
//	drop reply     a router drops the first reply, and its drop report arrives at the source
//	drop request   the same for the first request
//	restart        the destination restarts, and loses its replies and completions; its life grows by 1
//	told [N]       gossip tells the source that the destination has life N (default: its present life)
//	met            the destination proves its present life to a link of the source
//	late           the lost requests arrive at the destination after all; the trace says which of them it performs
//	cut, mend      the source's tables lose their route to the destination, or get it back
//	silent, heard  the destination is silent while the tables have no route to it, or no longer silent
//	pass T         T passes; the source's timers fire in this time
//
// The trace lists the packets that the source sends, and the results of the requests.
func TestTraces(t *testing.T) {
	tracetest.Run(t, *rewrite, func(t *testing.T, x *tracetest.Trace) tracetest.Machine {
		m := &pair{t: t, x: x, now: mono.Time(time.Second), life: 1, tables: Route{OK: true}}
		m.dst = &destination{Sink: NewSink(m.life)}
		m.src = NewSource(Config{Self: far, Incarnation: 100, Epoch: 32}, m)
		return m
	})
}

// pair is a source, a destination, and the packets between the two.
type pair struct {
	t       *testing.T
	x       *tracetest.Trace
	now     mono.Time
	src     *Source
	dst     *destination
	life    wire.Life // life of the destination
	tables  Route
	silent  bool              // the destination is silent: the tables have no route, but the source waits
	dead    mono.Time         // when a cable of the answers' route last went out of service while the destination is silent; 0: none did
	lost    []wire.Packet     // lost requests and probes
	sent    []wire.Packet     // requests and probes that have not arrived
	replies []uint64          // IDs of the reads whose replies have not arrived
	answers []wire.Completion // completions that have not arrived
	token   uint64
}

func (m *pair) Now() time.Duration                      { return m.now.Sub(mono.Time(time.Second)) }
func (m *pair) Route(Key, []wire.Direction) *Route      { r := m.tables; return &r }
func (m *pair) Reachable(Key) bool                      { return true }
func (m *pair) Late(Key) bool                           { return m.silent }
func (m *pair) Crosses(Key, *Route) (silent, dead bool) { return m.silent, !m.silent }

func (m *pair) Room(*Route) bool   { return true }
func (m *pair) Done(Owner, Result) {}

func (m *pair) Answers(Key) (silent bool, dead mono.Time) {
	if m.silent {
		return true, m.dead
	}
	return false, mono.Never
}

func (m *pair) Tree(Tree) ([]wire.FabricNodeID, *Route, bool) {
	return nil, nil, false
}

func (m *pair) Launch(_ mono.Time, _ *Route, p wire.Packet) bool {
	what, known := p.Command.Type.String(), ""
	if p.Type == wire.PacketProbe {
		what = "probe"
	}
	if p.Known {
		known = ", known"
	}
	if p.Life != 0 {
		known += fmt.Sprintf(", for life %d", p.Life)
	}
	m.x.Say("  sends %s: id %d, seq %d, base %d, epoch %d%s", what, p.ID-100, p.FlowSeq, p.FlowBase, p.FlowEpoch, known)
	m.sent = append(m.sent, p)
	return true
}

func (m *pair) Do(words []string) error {
	arg := slices.Concat(words, []string{""})[1]
	n, _ := strconv.Atoi(arg)
	switch words[0] {
	case "read", "write":
		for range max(n, 1) {
			m.token++
			r := &Request{Token: m.token, Dst: near, Command: wire.Command{Type: wire.NocInlineWrite, Addr: wire.NewNocAddr(1, 1, 0)}}
			if words[0] == "read" {
				r.Command.Type, r.Command.Size = wire.NocRead, 4
			}
			if a := m.src.HandleRequest(m.now, r, Outside); a != Accepted {
				m.x.Say("  admission %d", a)
			}
		}
	case "take":
		m.take()
	case "lose":
		switch arg {
		case "requests":
			m.lost, m.sent = append(m.lost, m.sent...), nil
		case "completions":
			m.answers = nil
		case "replies":
			m.replies = nil
		default:
			return errors.New("lose what?")
		}
	case "answer":
		for i := range m.answers {
			m.src.HandleCompletion(m.now, Key{Node: near}, &m.answers[i])
		}
		m.answers = nil
	case "data":
		if n == 0 {
			n = len(m.replies)
		}
		for ; n > 0; n-- {
			m.src.HandleReply(m.now, Key{Node: near}, m.replies[0], []byte("data"))
			m.replies = m.replies[1:]
		}
	case "overtake":
		k := len(m.replies) - 1
		m.src.HandleReply(m.now, Key{Node: near}, m.replies[k], []byte("data"))
		m.replies = m.replies[:k]
	case "drop":
		r := wire.DropReport{Dst: near, Reason: wire.DropNextHopDead}
		if arg == "reply" {
			r.Type, r.ID, m.replies = wire.PacketReply, m.replies[0], m.replies[1:]
		} else {
			p := m.sent[0]
			r.Type, r.ID, r.FlowEpoch, r.FlowSeq, m.sent = p.Type, p.ID, p.FlowEpoch, p.FlowSeq, m.sent[1:]
		}
		m.src.HandleDrop(m.now, &r, wire.FabricNodeID{Chip: 7}, nil)
	case "restart":
		m.life++
		m.dst, m.replies, m.answers = &destination{Sink: NewSink(m.life)}, nil, nil
	case "told":
		if n == 0 {
			n = int(m.life)
		}
		m.src.HandleLives(m.now, []Life{{Node: near, Life: wire.Life(n)}})
	case "met":
		m.src.HandlePeer(m.now, Life{Node: near, Life: m.life})
	case "late":
		for _, p := range m.lost {
			p.Src = far
			m.x.Say("  request with id %d: performed %v", p.ID-100, m.dst.take(&p, wire.OutcomeDone))
		}
		m.lost = nil
	case "silent", "heard":
		m.silent = words[0] == "silent"
	case "cut", "mend":
		m.tables = Route{OK: words[0] == "mend"}
		m.src.HandleTables(m.now)
	case "pass":
		d, err := time.ParseDuration(arg)
		if err != nil {
			return err
		}
		for end := m.now.Add(d); m.now.Before(end); {
			m.now = mono.Min(end, m.now.Add(tickEvery))
			m.src.Tick(m.now)
			m.Tell()
		}
	default:
		return errors.New("unknown command")
	}
	return nil
}

// take hands all sent requests to the destination. The destination answers all these requests with
// one completion.
func (m *pair) take() {
	for i := range m.sent {
		p := &m.sent[i]
		p.Src = far
		if m.dst.take(p, wire.OutcomeDone) && p.Command.Type == wire.NocRead {
			m.replies = append(m.replies, p.ID)
		}
	}
	m.sent = nil
	m.dst.Answer(func(Key) *Route { return &m.tables }, func(_ Key, _ *Route, c wire.Completion) bool {
		c.Exceptions = slices.Clone(c.Exceptions)
		m.answers = append(m.answers, c)
		return true
	})
}

func (m *pair) Tell() {
	for r, ok := m.src.PollResult(); ok; r, ok = m.src.PollResult() {
		text := fmt.Sprintf("request %d ends after %v: %s", r.Token, r.Done.Sub(r.Sent), r.Fate)
		if r.Doubt != DoubtNone {
			text += ", " + r.Doubt.String()
		}
		if r.Fate == FateRefused {
			text += ", " + r.Outcome.String()
		}
		if r.Drop != 0 {
			text += fmt.Sprintf(" (chip %s: %s)", r.At, r.Drop)
		}
		if r.Data != nil {
			text += fmt.Sprintf(", %q", r.Data)
		}
		m.x.Say("  %s", text)
	}
	m.src.check(m.t)
}
