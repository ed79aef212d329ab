// Package control steers a model: a fabric in virtual time that one process simulates ('ttfabric up --runtime
// model'). The process of the model has a Unix socket in the fabric's run folder. Commands send words to this
// socket, and get an [Answer]. Only the user of the fabric can enter the run folder, so that the socket needs no key.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"ttfabric/wire"
)

// Socket is the name of the model's socket in the run folder.
const Socket = "model.sock"

// SnapshotFile is the file in the run folder from which a model goes on.
const SnapshotFile = "from.json"

// Path is the path of the call of the model's HTTP server.
const Path = "/v1/model"

// Limits of a call, in bytes.
const (
	MaxBody   = 64 << 10
	MaxAnswer = 1 << 30 // a reply can hold a snapshot with the memory of many chips
)

// Body is a command for a model.
type Body struct {
	Words []string `json:"words"` // the command, as the user wrote it
}

// Reply says how far a model has come, and why the model stands still.
type Reply struct {
	State
	Hit *Hit `json:"hit,omitempty"` // the condition that stopped the model; left out while the model runs
}

// Answer is the answer of a model to a command.
type Answer struct {
	Reply
	Snapshot json.RawMessage `json:"snapshot,omitempty"` // answer to "snapshot"
	Error    string          `json:"error,omitempty"`    // why the model did not carry out the command
	Usage    bool            `json:"usage,omitempty"`    // the error is about the words of the command
}

// State is the state of a model.
type State struct {
	Nanos       int64        `json:"time_ns"`          // virtual time since all links were up, in nanoseconds
	Events      int          `json:"events"`           // events of the simulator so far
	Running     bool         `json:"running"`          // virtual time passes
	Speed       float64      `json:"speed"`            // virtual seconds for each second of the wall clock at most; 0: as fast as possible
	Open        int          `json:"open"`             // open requests of all chips
	InFlight    int          `json:"in_flight"`        // packets in the routers of all chips
	Alive       int          `json:"alive"`            // chips that live
	Breakpoints []Breakpoint `json:"breakpoints"`      // in the order in which they were added
	Failed      string       `json:"failed,omitempty"` // error that ended the simulation
}

// Breakpoint is a condition at which a model stops, until somebody deletes the breakpoint.
type Breakpoint struct {
	ID        int    `json:"id"`        // number of the breakpoint
	Condition string `json:"condition"` // the condition, as the user wrote it
	Hits      int    `json:"hits"`      // number of times that the breakpoint stopped the model
}

// Hit says which condition stopped a model.
type Hit struct {
	Breakpoint int    `json:"breakpoint,omitempty"` // number of the breakpoint; 0: the condition of 'run until'
	Condition  string `json:"condition"`            // the condition, as the user wrote it
	Nanos      int64  `json:"time_ns"`              // virtual time since all links were up, in nanoseconds
	What       string `json:"what"`                 // what happened, as a clause
	Circle     []Wait `json:"circle,omitempty"`     // for a deadlock: the full channels that wait for each other
}

// Wait is a full channel of a circle of waits. The first packet of the channel waits for room in the channel of the
// next Wait.
type Wait struct {
	Chip    wire.FabricNodeID `json:"chip"`             // chip of the channel
	Channel wire.Channel      `json:"channel"`          // channel of the port
	VC      string            `json:"vc"`               // virtual channel
	Side    string            `json:"side"`             // receiver or sender
	Sender  int               `json:"sender,omitempty"` // number of the sender channel
	Packets int               `json:"packets"`          // packets in the channel
	Slots   int               `json:"slots"`            // packets for which the channel has room
	Src     wire.FabricNodeID `json:"src"`              // source of the first packet
	Dst     wire.FabricNodeID `json:"dst"`              // destination of the first packet
	AgeNS   int64             `json:"age_ns"`           // how long the first packet has been in the channel, in whole milliseconds
}

// String says which packets wait where.
func (w Wait) String() string {
	side := w.Side
	if side == "sender" {
		side = fmt.Sprintf("sender %d", w.Sender)
	}
	return fmt.Sprintf("%s channel %d, %s %s: %d of %d slots; first packet %s to %s", w.Chip, w.Channel, w.VC, side, w.Packets, w.Slots, w.Src, w.Dst)
}

// String says what happened, in lines.
func (h *Hit) String() string {
	name := h.Condition
	if h.Breakpoint > 0 {
		name = fmt.Sprintf("breakpoint %d, %s", h.Breakpoint, name)
	}
	text := fmt.Sprintf("%s: %s", name, h.What)
	for _, w := range h.Circle {
		text += "\n  " + w.String()
	}
	return text
}

// String says what the model has done, in lines.
func (r *Reply) String() string {
	text := r.State.String()
	if r.Hit != nil {
		text = r.Hit.String() + "\n" + text
	}
	for _, b := range r.Breakpoints {
		text += fmt.Sprintf("\nbreakpoint %d: %s, %d hits", b.ID, b.Condition, b.Hits)
	}
	return text
}

// String says how far the model has come.
func (s *State) String() string {
	text := fmt.Sprintf("%v of virtual time, %d events: ", time.Duration(s.Nanos), s.Events)
	switch {
	case s.Failed != "":
		return text + "the simulation has failed: " + s.Failed
	case s.Running && s.Speed == 0:
		text += "running as fast as possible"
	case s.Running:
		text += fmt.Sprintf("running at %g times the wall clock at most", s.Speed)
	default:
		text += "stopped"
	}
	return text + fmt.Sprintf("; %d chips live, %d requests are open, %d packets are under way", s.Alive, s.Open, s.InFlight)
}

// Verb is a command for a model.
type Verb struct{ Use, Short, Long, Example string }

// Verbs are the commands for people.
var Verbs = []Verb{
	{"status", "Print how far the model has come", "", "  ttfabric model status"},
	{"run [until CONDITION]", "Let virtual time pass, until a condition holds", "Without a condition, the command returns at once, and time passes until 'model stop' or a breakpoint.\nWith a condition, the command waits until the model stops.\n\n" + ConditionHelp, "  ttfabric model run\n  ttfabric model run until link M0D0-M0D1 down\n  ttfabric model run until packet at M0D3 src M0D0\n  ttfabric model run until idle"},
	{"stop", "Stop virtual time", "While the model stands still, commands that need packets wait.", "  ttfabric model stop"},
	{"step [N|DURATION]", "Carry out N events, or run for a virtual time", "", "  ttfabric model step\n  ttfabric model step 100\n  ttfabric model step 20us"},
	{"back [DURATION|to TIME]", "Go back in virtual time", "The model starts anew from its seed, and makes all inputs up to this time again. Without a time, the\nmodel goes back to its begin, when all links were up. Inputs after this time are forgotten.", "  ttfabric model back 5ms\n  ttfabric model back to 20ms\n  ttfabric model back"},
	{"break [add CONDITION|list|delete ID|delete all]", "Stop the model whenever a condition begins to hold", ConditionHelp, "  ttfabric model break add deadlock\n  ttfabric model break add channel full at M0D3\n  ttfabric model break delete 1"},
	{"speed FACTOR|max", "Set how fast virtual time passes, in seconds for each second of the wall clock", "", "  ttfabric model speed 0.001\n  ttfabric model speed max"},
}

// ConditionHelp describes the language of conditions in help texts.
const ConditionHelp = `A condition is one of these:
  packet at CHIP [FILTER]      a datagram comes to the chip, and the filter takes it; FILTER is
                               that of 'ttfabric capture'; without a filter: any piece of a packet
  channel full [at CHIP]       a sender or receiver channel has no room
  link LINK up|down            a link of LINK is up at both ends, or is not
  deadlock                     full channels wait for each other in a circle
  time TIME                    the fabric has run for this virtual time
  idle                         no request is open, and no packet is under way`

// UsageError is the error of a command with wrong words.
type UsageError struct{ Text string }

// Error returns the text.
func (e *UsageError) Error() string { return e.Text }

// Ask sends a command to the model with the given socket, and returns the answer. Ask waits until the model has carried
// out the command, or ctx ends.
func Ask(ctx context.Context, socket string, words ...string) (r Answer, err error) {
	b, err := json.Marshal(Body{words})
	if err != nil {
		return r, err
	}
	h := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model"+Path, bytes.NewReader(b))
	if err != nil {
		return r, err
	}
	res, err := h.Do(req)
	if err != nil {
		return r, fmt.Errorf("the model does not answer: %w", errors.Unwrap(err))
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, MaxAnswer)).Decode(&r); err != nil {
		return r, fmt.Errorf("the model's answer is damaged: %w", err)
	}
	switch {
	case r.Usage:
		return r, &UsageError{r.Error}
	case r.Error != "":
		return r, errors.New(r.Error)
	}
	return r, nil
}
