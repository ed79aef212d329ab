package main

import (
	"errors"
	"fmt"

	"ttfabric/node/admin/api"
	"ttfabric/wire"
)

// moved lists the counters that must all have increased, summed over all ports.
var moved = []string{"short", "magic", "checksum", "malformed_hello", "miswired_hello", "unproved_hello", "stale_hello", "kind", "version", "stale_session", "duplicates", "bad_ack"}

// The variable "still" lists the counters that must not have changed if there is no traffic.
var still = []string{"packets_sent", "packets_received", "injected", "forwarded", "delivered", "retransmitted", "timeouts"}

// noFrames lists the counters of datagrams that are no frames, by the reason.
var noFrames = []string{"short", "length", "magic", "version", "checksum", "reserved", "kind"}

// looks is the largest allowed difference between the counters of a socket and of its link. A chip
// reads the two counters one after the other, and a live link sends a frame from time to time.
const looks = 8

// judgement collects the faults that a comparison of two states of the chips finds.
type judgement struct {
	idle  bool // there is no traffic: only counters of frames may change
	sum   map[string]uint64
	wrong []error

	// The next fields belong to the chip that is being judged: the datagrams that its sockets
	// received, and the datagrams that its ports counted. If a frame names the channel of another
	// port, that other port may count the frame.
	got, counted uint64
}

func (j *judgement) bad(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Errorf(format, args...))
}

// judge compares the state of the chips with their state before the garbage was sent.
func (cs chips) judge(before chips, ts []*target, idle bool) error {
	j := judgement{idle: idle, sum: map[string]uint64{}}
	at := map[wire.PortID]*target{}
	for _, t := range ts {
		at[t.self] = t
	}
	for id, was := range before {
		is, ok := cs[id]
		if !ok || len(is.Links) != len(was.Links) {
			j.bad("%s: the chip has other ports than before, or none", id)
			continue
		}
		j.chip(&is, &was)
		for i := range is.Links {
			port := wire.PortID{Node: id, Channel: is.Links[i].Channel}
			j.link(port, &is.Links[i], &was.Links[i])
			j.counts(port, &is.Links[i], &was.Links[i], at[port])
		}
		if apart := int64(j.got - j.counted); idle && (apart > looks || apart < -looks) {
			j.bad("%s: %d datagrams received, but %d counted as frames or as no frames", id, j.got, j.counted)
		}
		j.got, j.counted = 0, 0
	}
	for _, k := range moved {
		if j.sum[k] == 0 {
			j.bad("no datagram was counted as %s", k)
		}
	}
	for _, k := range append(moved, "no room") {
		fmt.Printf("garbage: %8d %s\n", j.sum[k], k)
	}
	return errors.Join(j.wrong...)
}

// chip compares the state of one chip before and after.
func (j *judgement) chip(is, was *api.ChipView) {
	if is.Incarnation != was.Incarnation || is.Members != was.Members {
		j.bad("%s: incarnation %s, %d members; before %s, %d", is.Chip, is.Incarnation, is.Members, was.Incarnation, was.Members)
	}
	if !j.idle {
		return
	}
	if is.TableEpoch != was.TableEpoch || is.LinksUp != was.LinksUp {
		j.bad("%s: tables %s, %d links; before %s, %d", is.Chip, is.TableEpoch, is.LinksUp, was.TableEpoch, was.LinksUp)
	}
	if now, then := fmt.Sprint(is.Counters, is.Dropped, is.InFlight, is.Memory.Tiles), fmt.Sprint(was.Counters, was.Dropped, was.InFlight, was.Memory.Tiles); now != then {
		j.bad("%s: %s, before %s", is.Chip, now, then)
	}
	if grown := is.Memory.Buffers - was.Memory.Buffers; grown > 0 {
		j.bad("%s: buffers have grown by %d bytes", is.Chip, grown)
	}
}

// link compares a link's state before and after. During traffic, link does not compare the fields
// that change when a link goes down. If chips wait long for a processor during traffic, a link may
// go down, and come up again in the same session.
func (j *judgement) link(port wire.PortID, is, was *api.LinkView) {
	state := func(l *api.LinkView) string {
		s := fmt.Sprintf("session %s, frames of %d, to %s, %q", l.Session, l.Payload, l.PeerAddr, l.Miswired)
		if j.idle {
			s += fmt.Sprintf(", %s, %d retrains, credits %v", l.State, l.Retrains, l.Credits)
		}
		return s
	}
	if now, then := state(is), state(was); now != then {
		j.bad("%v: %s; before %s", port, now, then)
	}
	if j.idle && is.RTTMicros > 2*was.RTTMicros+5000 {
		j.bad("%v: a round trip of %.0f µs, before %.0f", port, is.RTTMicros, was.RTTMicros)
	}
}

// counts checks that the counters of a port have counted every datagram that was sent to the port.
// Without traffic, counts also checks the counters in the list still.
func (j *judgement) counts(port wire.PortID, is, was *api.LinkView, t *target) {
	got := is.Socket.Counters["received"] - was.Socket.Counters["received"]
	lost := is.Socket.Counters["receive_buffer_full"] - was.Socket.Counters["receive_buffer_full"]
	if got+lost < uint64(t.sent) {
		j.bad("%v: %d datagrams received and %d without room, of %d that were sent", port, got, lost, t.sent)
	}
	j.sum["no room"] += lost
	for k, n := range is.FrameDrops {
		j.sum[k] += n - was.FrameDrops[k]
	}
	for k, n := range is.Counters {
		j.sum[k] += n - was.Counters[k]
	}
	frames := uint64(t.empty) + is.Counters["frames_received"] - was.Counters["frames_received"]
	for _, k := range noFrames {
		frames += is.FrameDrops[k] - was.FrameDrops[k]
	}
	j.got, j.counted = j.got+got, j.counted+frames
	for _, k := range still {
		if j.idle && is.Counters[k] != was.Counters[k] {
			j.bad("%v: %s is %d, before %d", port, k, is.Counters[k], was.Counters[k])
		}
	}
}
