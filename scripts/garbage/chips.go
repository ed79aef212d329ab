package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/google/gopacket/pcapgo"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// chips holds the state that each chip of a fabric reports.
type chips map[wire.FabricNodeID]api.ChipView

// target is one port of the fabric, and the port that it believes to be at the other end.
type target struct {
	at, peerAt netip.AddrPort
	self, peer wire.PortID
	session    wire.SessionID
	seen       [][]byte // frames that the port received earlier
	sent       int      // number of datagrams sent to the port
	empty      int      // number of these datagrams that were empty
}

// look asks all chips of a fabric for their state. If a chip does not answer, look fails.
func look(name string) (chips, error) {
	ctx := context.Background()
	f, err := fabric.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	cs, missing, err := f.Clients()
	if err != nil {
		return nil, err
	}
	views, silent := fabric.Ask(ctx, cs)
	if silent = append(silent, missing...); len(silent) > 0 {
		return nil, fmt.Errorf("chips do not answer: %v", silent)
	}
	out := chips{}
	for _, v := range views {
		out[v.Chip] = v
	}
	return out, nil
}

// targets returns the ports of all chips as targets.
func (cs chips) targets() ([]*target, error) {
	var out []*target
	where := map[wire.PortID]netip.AddrPort{}
	for _, v := range cs {
		for _, l := range v.Links {
			t := &target{self: wire.PortID{Node: v.Chip, Channel: l.Channel}, peer: wire.PortID{Node: l.Peer, Channel: l.PeerChan}}
			var err error
			if t.at, err = netip.ParseAddrPort(l.Address); err != nil || !t.at.Addr().IsLoopback() {
				return nil, fmt.Errorf("%s: the port is not on loopback; garbage goes only to loopback addresses", l.Address)
			}
			fmt.Sscanf(l.Session, "%x", (*uint32)(&t.session))
			where[t.self] = t.at
			out = append(out, t)
		}
	}
	for _, t := range out {
		t.peerAt = where[t.peer]
	}
	if len(out) == 0 {
		return nil, errors.New("no chip of this fabric has a port")
	}
	return out, nil
}

// load reads the frames of a capture, each for the port that received it. load returns an error if
// a port received no frame, or if a present session has no frame. load also returns an error if the
// capture has no frame of a session that has ended.
func load(name string, ts []*target) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	ng, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	at := map[wire.PortID]*target{}
	for _, t := range ts {
		at[t.self] = t
	}
	known, lives := map[string]bool{}, map[wire.SessionID]bool{}
	for {
		b, _, err := ng.ReadPacketData()
		if err != nil {
			break // the capture ends here, perhaps with an incomplete packet
		}
		_, to, ok := capture.PortsOf(b)
		_, _, d, whole := capture.Payload(b)
		frame, err := wire.DecodeFrame(d)
		if t := at[to]; ok && whole && err == nil && t != nil && !known[string(b)] {
			known[string(b)] = true
			t.seen = append(t.seen, append([]byte(nil), d...))
			if frame.Session == t.session || frame.Kind != wire.KindClose {
				lives[frame.Session] = true
			}
		}
	}
	for _, t := range ts {
		if len(t.seen) == 0 {
			return fmt.Errorf("%s holds no frame that %v received", name, t.self)
		}
		if !lives[t.session] {
			return fmt.Errorf("%s holds no frame of the session of %v", name, t.self)
		}
	}
	if len(lives) <= len(ts)/2+1 {
		return fmt.Errorf("%s holds no frame of a session that has ended", name)
	}
	fmt.Printf("garbage: the capture has %d frames of %d sessions to repeat\n", len(known), len(lives))
	return nil
}
