package picture

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/wire"
)

// KeptEvents is the largest number of past events that a page shows.
const KeptEvents = 1000

// KeptFaults is the largest number of injected faults that a page shows, however many other events
// came after them.
const KeptFaults = 200

// The kinds of events, for colours and filters.
const (
	KindFault = "fault" // somebody injected a fault, or ended one
	KindLoss  = "loss"  // packets were dropped, or became of unknown fate
	KindDown  = "down"  // a link went down, a chip was starved, a packet is stuck
	KindGood  = "good"  // a link came up, a chip joined
	KindOther = "other"
)

// Event is an event of a chip, with the cable and the chips that the event is about.
type Event struct {
	ID    string    `json:"id"`
	Time  time.Time `json:"time"`
	Chip  string    `json:"chip"` // the chip that reports the event
	Kind  string    `json:"kind"`
	Type  string    `json:"type"`
	Text  string    `json:"text"`           // the event in one line, for people
	Cable int       `json:"cable"`          // position of the cable that the event is about; -1: none
	About int       `json:"about"`          // position of the chip that the event is about; -1: none
	Lost  int       `json:"lost,omitempty"` // packets that the event says are lost, or of unknown fate
}

// Event converts an event of the API.
func (m *Machine) Event(v *api.EventView) Event {
	e := Event{ID: v.ID(), Time: v.Time, Chip: v.Chip.String(), Type: v.Type, Kind: kindOf(v), Cable: -1, About: -1}
	name, channel, isPort := strings.Cut(v.Actor, " channel ")
	if n, err := wire.ParseFabricNodeID(name); err == nil {
		e.About = m.Chip(n)
		if k, err := strconv.ParseUint(channel, 10, 8); err == nil && isPort {
			e.Cable = m.Cable(wire.PortID{Node: n, Channel: wire.Channel(k)})
		}
	}
	for _, k := range []string{"count", "packets_of_unknown_fate"} {
		if n, err := strconv.Atoi(v.Detail[k]); err == nil && e.Kind == KindLoss {
			e.Lost += n
		}
	}
	words := []string{strings.TrimSpace(v.Actor + " " + v.Type + " " + v.Action)}
	if strings.HasPrefix(v.Actor, v.Type) || v.Actor == "" {
		words[0] = strings.TrimSpace(v.Type + " " + v.Action)
	}
	for _, k := range slices.Sorted(maps.Keys(v.Detail)) {
		words = append(words, strings.ReplaceAll(k, "_", " ")+" "+v.Detail[k])
	}
	if v.Lost > 0 {
		words = append(words, fmt.Sprintf("%d events before this event are missing", v.Lost))
	}
	e.Text = strings.Join(words, ", ")
	return e
}

// kindOf returns the kind of an event.
func kindOf(v *api.EventView) string {
	switch v.Type + " " + v.Action {
	case "packet dropped":
		return KindLoss
	case "link session ended":
		if n := v.Detail["packets_of_unknown_fate"]; n != "" && n != "0" {
			return KindLoss
		}
		return KindDown
	case "link down", "link held", "link unreliable", "link miswired", "link incompatible", "link narrow", "packet stuck", "member left", "member failed",
		"tables refused", "port refused":
		return KindDown
	case "link up", "link released", "link reliable", "link wide", "member joined":
		return KindGood
	}
	if v.Type == "fault" {
		return KindFault
	}
	return KindOther
}

// Log keeps the latest events. A Log must not be used by several goroutines at once.
type Log struct{ list []Event }

// Add adds an event, and keeps the events in the order of time. Events of several chips may come a
// little out of order.
func (l *Log) Add(e Event) {
	i := len(l.list)
	for i > 0 && l.list[i-1].Time.After(e.Time) {
		i--
	}
	l.list = slices.Insert(l.list, i, e)
	if len(l.list) > KeptEvents+KeptEvents/4 {
		l.list = newest(l.list)
	}
}

// Events returns the latest events, oldest first, at most [KeptEvents].
func (l *Log) Events() []Event { return newest(l.list) }

// newest returns the newest events of a list, at most [KeptEvents]. Up to [KeptFaults] faults count as newer
// than all others, because one fault may have hundreds of consequences, and a person looks for the cause.
func newest(list []Event) []Event {
	out := []Event{}
	spare := KeptEvents // places for events that are no faults
	faults := 0
	for i := len(list) - 1; i >= 0 && faults < KeptFaults; i-- {
		if list[i].Kind == KindFault {
			faults++
		}
	}
	spare -= faults
	for i := len(list) - 1; i >= 0; i-- {
		switch fault := list[i].Kind == KindFault; {
		case fault && faults > 0:
			faults--
		case !fault && spare > 0:
			spare--
		default:
			continue
		}
		out = append(out, list[i])
	}
	slices.Reverse(out)
	return out
}
