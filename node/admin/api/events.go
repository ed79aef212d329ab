package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/session"
	"ttfabric/wire"
)

// Watch calls f with the events of the chip that sessions report, from the call on: links,
// installed tables and dropped packets. Watch skips the events that the chip reported before the
// call, by their sequence numbers. Watch returns when ctx ends or the connection
// breaks. See [session.Watcher].
func (c *Client) Watch(ctx context.Context, f func(session.Event)) error {
	err := c.stream(ctx, "", func(latest uint64, v EventView) {
		if e, ok := SessionEvent(&v); ok && v.Seq > latest { // skip earlier events from the history
			f(e)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// sessionKinds maps the type and action of an event of the API to the kind of an event of a
// session.
var sessionKinds = map[string]session.EventKind{
	"link up": session.LinkUp, "link down": session.LinkDown, "link session ended": session.SessionEnded,
	"packet dropped": session.PacketsDropped, "tables installed": session.TablesChanged,
}

// SessionEvent converts an event of the API into an event of a session. For events that sessions do
// not report, SessionEvent returns false.
func SessionEvent(v *EventView) (e session.Event, ok bool) {
	if e.Kind, ok = sessionKinds[v.Type+" "+v.Action]; !ok {
		return e, false
	}
	e.Time, e.Reason = v.Time, v.Detail["reason"]
	fmt.Sscanf(strings.TrimPrefix(v.Actor, v.Chip.String()), " channel %d", &e.Port.Channel)
	e.Port.Node = v.Chip
	if node, channel, found := strings.Cut(v.Detail["peer"], " channel "); found {
		n, err := strconv.ParseUint(channel, 10, 8)
		if e.Peer.Node.UnmarshalText([]byte(node)) == nil && err == nil {
			e.Peer.Channel = wire.Channel(n)
		}
	}
	for _, k := range []string{"count", "packets_of_unknown_fate"} {
		if n, err := strconv.Atoi(v.Detail[k]); err == nil {
			e.Count = n
		}
	}
	e.Silent, e.Unreachable = chipsIn(v.Detail["silent"]), chipsIn(v.Detail["unreachable"])
	return e, true
}

// chipsIn returns the chips in a list of words. Other words, such as "none", are not chips.
func chipsIn(list string) (chips []wire.FabricNodeID) {
	for word := range strings.FieldsSeq(list) {
		if n, err := wire.ParseFabricNodeID(word); err == nil {
			chips = append(chips, n)
		}
	}
	return chips
}

// Events calls f for each event of the chip, past events first. Events returns when ctx ends, when
// the connection to the chip breaks, or after a malformed event. If the chip ends the stream, the
// error is nil.
func (c *Client) Events(ctx context.Context, f func(EventView)) error {
	return c.EventsAfter(ctx, "", f)
}

// EventsAfter is like Events, but begins after the event with the id last; see [EventView.ID]. If the
// chip no longer has the next event, the field Lost of the first event counts the missing events. If
// the chip has restarted since the event, EventsAfter begins with the first past event of the new
// incarnation.
func (c *Client) EventsAfter(ctx context.Context, last string, f func(EventView)) error {
	return c.stream(ctx, last, func(_ uint64, v EventView) { f(v) })
}

// HeaderSeq is the header of an event stream with the sequence number of the chip's latest event at the
// beginning of the stream.
const HeaderSeq = "Ttfabric-Seq"

// MaxEventLine is the largest length of a line of an event stream, in bytes.
const MaxEventLine = 1 << 20

// stream calls f for each event of the chip after the event with the id last. The argument "latest"
// of f is the sequence number of the chip's latest event at the beginning of the stream.
func (c *Client) stream(ctx context.Context, last string, f func(latest uint64, v EventView)) error {
	resp, err := c.open(ctx, "GET", "/v1/events", nil, "Last-Event-ID", last)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	latest, err := strconv.ParseUint(resp.Header.Get(HeaderSeq), 10, 64)
	if err != nil {
		return fmt.Errorf("%s began an event stream without a number in the header %s: %w", c.who(), HeaderSeq, err)
	}
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, MaxEventLine)
	for sc.Scan() {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		if !ok {
			continue
		}
		var e EventView
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("chip %s sent a malformed event: %w", c.self, err)
		}
		f(latest, e)
	}
	return sc.Err()
}

// EventTypes are the types of events, in the order of the alphabet.
var EventTypes = []string{"archive", "chip", "fault", "host request", "job", "link", "member", "packet", "port", "recording", "router", "tables"}

// EventView is one event of a chip. Each line of an archive of events holds one EventView.
type EventView struct {
	Time   time.Time         `json:"time"`             // when the event happened
	Chip   wire.FabricNodeID `json:"chip"`             // the chip that reports the event
	Type   string            `json:"type"`             // archive, chip, fault, host request, job, link, member, packet, port, recording, router, tables
	Action string            `json:"action"`           // what happened: up, down, dropped, joined, starved, …
	Actor  string            `json:"actor"`            // the port or chip that the event is about
	Detail map[string]string `json:"detail,omitempty"` // further facts about the event, by name
	Lost   uint64            `json:"lost,omitempty"`   // number of events directly before this event that are missing, because the reader was too slow or the archive left the events out
	Seq    uint64            `json:"seq"`              // the sequence number of the event; each incarnation of the chip numbers its events 1, 2, 3 …
	Life   string            `json:"incarnation"`      // the incarnation of the chip, 16 hexadecimal digits
}

// ID returns the event's id in the event stream: the incarnation and the sequence number, such as
// "0123456789abcdef-17".
func (v *EventView) ID() string { return fmt.Sprintf("%s-%d", v.Life, v.Seq) }

// ParseEventID reads an id of [EventView.ID]. For the text "", the incarnation and the sequence
// number are 0. The error names a bad text.
func ParseEventID(id string) (life wire.Incarnation, seq uint64, err error) {
	if id == "" {
		return 0, 0, nil
	}
	l, n, _ := strings.Cut(id, "-")
	v, err := strconv.ParseUint(l, 16, 64)
	if err == nil {
		seq, err = strconv.ParseUint(n, 10, 64)
	}
	if err != nil || len(l) != 16 {
		return 0, 0, fmt.Errorf("event id %q: want the id of an event, such as 0123456789abcdef-17", id)
	}
	return wire.Incarnation(v), seq, nil
}
