package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/gopacket/pcapgo"

	"ttfabric/node/admin/api"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// chips are what the chips of a fabric say of themselves.
type chips map[wire.FabricNodeID]api.ChipView

// target is one port of the fabric, and who it believes at the other end.
type target struct {
	at, peerAt netip.AddrPort
	self, peer wire.PortID
	session    wire.SessionID
	seen       [][]byte // frames that it once received
	sent       int      // datagrams that were thrown at it
	empty      int      // of them, without a byte
}

// look asks all chips whose files stand in the run folder.
func look(dir string) (chips, error) {
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return nil, err
	}
	files, _ := filepath.Glob(filepath.Join(dir, "chip-*.json"))
	out := chips{}
	for _, f := range files {
		var c struct{ API string }
		b, err := os.ReadFile(f)
		if err == nil {
			err = json.Unmarshal(b, &c)
		}
		if err != nil {
			return nil, err
		}
		var v api.ChipView
		req, _ := http.NewRequest("GET", "http://"+c.API+"/v1/chip", nil)
		req.Header.Set("Authorization", "Bearer "+string(token))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		err = json.NewDecoder(resp.Body).Decode(&v)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		out[v.Chip] = v
	}
	return out, nil
}

// targets are the ports of all chips.
func (cs chips) targets() ([]*target, error) {
	var out []*target
	where := map[wire.PortID]netip.AddrPort{}
	for _, v := range cs {
		for _, l := range v.Links {
			t := &target{self: wire.PortID{Node: v.Chip, Channel: l.Channel}, peer: wire.PortID{Node: l.Peer, Channel: l.PeerChan}}
			var err error
			if t.at, err = netip.ParseAddrPort(l.Address); err != nil || !t.at.Addr().IsLoopback() {
				return nil, fmt.Errorf("%s: only loopback addresses are shot at", l.Address)
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
		return nil, errors.New("no chip of this fabric runs")
	}
	return out, nil
}

// load reads the frames of a capture, each for the port that received it.
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
			break // the end, or a last packet that was cut off
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
	fmt.Printf("garbage: %d frames of %d sessions are there to be repeated\n", len(known), len(lives))
	return nil
}
