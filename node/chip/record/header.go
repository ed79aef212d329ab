package record

import (
	"encoding/json"
	"fmt"

	"ttfabric/node/chip"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// MaxSlots is the largest length of a sender or receiver channel of a replayed chip, in
// packets. Without this limit, a header from an unknown source could make a replay use
// all memory.
const MaxSlots = 1 << 12

// Header describes the recorded chip.
type Header struct {
	Program string      // version of the recording program, for display
	Begun   int64       // start of the recording, in milliseconds since 1970; 0 in a simulation
	Started mono.Time   // argument "now" of [chip.New]
	Config  chip.Config // complete configuration, with the topology; instead of the function Route.Failed, the file lists the ports for which the function returns true
}

// headerForm is the JSON form of a header. The outer fields hide inner fields of the
// same names, because the inner fields have no JSON form.
type headerForm struct {
	Program      string
	Begun        int64
	Started      mono.Time
	Config       configForm
	Topology     string
	TopologyHash uint64
}

type configForm struct {
	chip.Config
	Topology *struct{} `json:",omitempty"`
	Route    routeForm
}

type routeForm struct {
	route.Config
	Failed []wire.PortID `json:",omitempty"`
}

// encode returns the header as JSON. encode returns an error for more than MaxRaw bytes.
func (h *Header) encode() ([]byte, error) {
	c := &h.Config
	f := headerForm{Program: h.Program, Begun: h.Begun, Started: h.Started, Topology: string(c.Topology.Encode()), TopologyHash: uint64(c.Topology.Hash())}
	f.Config = configForm{Config: *c, Route: routeForm{Config: c.Route}}
	if c.Route.Failed != nil {
		for _, cable := range c.Topology.Cables {
			for _, end := range []wire.PortID{cable.A, cable.B} {
				if c.Route.Failed(end) {
					f.Config.Route.Failed = append(f.Config.Route.Failed, end)
				}
			}
		}
	}
	b, err := json.Marshal(&f)
	if err == nil && len(b) > MaxRaw {
		err = fmt.Errorf("the header has %d bytes: want at most %d", len(b), MaxRaw)
	}
	return b, err
}

// decodeHeader reads the output of encode. decodeHeader refuses a topology that cannot be
// loaded or has another hash than the header names. decodeHeader also refuses an unknown
// route order or ring, too many slots, and a negative time. [chip.New] checks the rest.
func decodeHeader(b []byte) (Header, error) {
	var f headerForm
	if err := json.Unmarshal(b, &f); err != nil {
		return Header{}, fmt.Errorf("recording: header: %w", err)
	}
	h := Header{Program: f.Program, Begun: f.Begun, Started: f.Started, Config: f.Config.Config}
	c := &h.Config
	var err error
	if c.Topology, err = topo.Load("the recording's topology", []byte(f.Topology)); err != nil {
		return Header{}, err
	}
	if got := uint64(c.Topology.Hash()); got != f.TopologyHash {
		return Header{}, fmt.Errorf("recording: header: the topology has the hash %#x, but the header names the hash %#x", got, f.TopologyHash)
	}
	c.Route = f.Config.Route.Config
	if c.Route.Order > route.NoOrder || c.Route.Ring > route.NoRing {
		return Header{}, fmt.Errorf("recording: header: unknown route order %d or unknown ring %d", c.Route.Order, c.Route.Ring)
	}
	if failed := f.Config.Route.Failed; failed != nil {
		set := map[wire.PortID]bool{}
		for _, p := range failed {
			set[p] = true
		}
		c.Route.Failed = func(p wire.PortID) bool { return set[p] }
	}
	for v := range wire.NumVCs {
		for _, n := range []int{c.Slots.Sender[v], c.Slots.Receiver[v]} {
			if n < 0 || n > MaxSlots {
				return Header{}, fmt.Errorf("recording: header: a sender or receiver channel of %d slots: want 0 to %d", n, MaxSlots)
			}
		}
	}
	if h.Started < 0 || c.Timeout.After < 0 {
		return Header{}, fmt.Errorf("recording: header: start %d or timeout %v is below 0", int64(h.Started), c.Timeout.After)
	}
	return h, nil
}
