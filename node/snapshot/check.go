package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"ttfabric/wire"
)

// senders is the number of sender channels of a virtual channel (Spec §3.1.2).
const senders = 4

// The words of the file.
var (
	linkStates   = []string{"off", "training", "up", "closed"}
	routerStates = []string{"initializing", "running", "paused", "draining", "retraining"}
	cableStates  = []string{"up", "down", "fallback", "miswired", "one end"}
)

// checker checks a file. The first fault ends the check.
type checker struct {
	f       *File
	chips   map[wire.FabricNodeID]*Chip
	ports   map[Port]*PortState
	packets int
}

// Check returns an error if the snapshot contradicts itself, or exceeds a limit. The error begins with
// the name of the wrong field, such as "chips[2].ports[0].vcs[1].receiver[3].ttl".
func (f *File) Check() error {
	c := &checker{f: f, chips: map[wire.FabricNodeID]*Chip{}, ports: map[Port]*PortState{}}
	for _, check := range []func() error{c.head, c.index, c.eachChip, c.cables, c.cuts, c.tables} {
		if err := check(); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	return nil
}

// within returns an error that names a field, or nil if err is nil.
func within(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	sep := "."
	if text := err.Error(); strings.HasPrefix(text, "[") || strings.HasPrefix(text, ":") {
		sep = ""
	}
	return fmt.Errorf("%s%s%w", fmt.Sprintf(format, args...), sep, err)
}

// atMost returns an error if a list is longer than its limit.
func atMost(name string, n, most int) error {
	if n > most {
		return fmt.Errorf("%s: %d entries: want at most %d", name, n, most)
	}
	return nil
}

// among returns an error if a word is not one of the words that a field may have.
func among(name, word string, words []string) error {
	if !slices.Contains(words, word) {
		return fmt.Errorf("%s: %q: want one of %s", name, word, strings.Join(words, ", "))
	}
	return nil
}

// between returns an error if a number is out of range.
func between(name string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s: %d: want %d to %d", name, n, least, most)
	}
	return nil
}

func (c *checker) head() error {
	f := c.f
	switch {
	case f.Format != Format:
		return fmt.Errorf("format: %q: want %q", f.Format, Format)
	case f.Version != Version:
		return fmt.Errorf("version: %d: want %d", f.Version, Version)
	case f.Time < 0:
		return fmt.Errorf("time_ns: %d: want at least 0", f.Time)
	}
	return errors.Join(among("source", f.Source, []string{FromSimulator, FromFabric}),
		atMost("chips", len(f.Chips), MaxChips), atMost("no_answer", len(f.NoAnswer), MaxChips), atMost("cables", len(f.Cables), MaxChips*wire.MaxChannels),
		atMost("topology.text", len(f.Topology.Text), MaxTopo), between("options.ttl", f.Options.TTL, 0, 1<<16-1))
}

// index finds the chips and ports of the file. Each chip and each port must be in the file once.
func (c *checker) index() error {
	for i := range c.f.Chips {
		k := &c.f.Chips[i]
		if !k.Node.Valid() || c.chips[k.Node] != nil {
			return fmt.Errorf("chips[%d].chip: %s is no chip, or stands in the file twice", i, k.Node)
		}
		if i > 0 && c.f.Chips[i-1].Node.Compare(k.Node) > 0 {
			return fmt.Errorf("chips[%d].chip: %s stands behind %s", i, k.Node, c.f.Chips[i-1].Node)
		}
		c.chips[k.Node] = k
		for j := range k.Ports {
			p := &k.Ports[j]
			at := Port{Node: k.Node, Channel: p.Channel}
			if p.Channel >= wire.MaxChannels || c.ports[at] != nil {
				return fmt.Errorf("chips[%d].ports[%d].channel: %d: want a channel below %d that no other port of the chip has", i, j, p.Channel, wire.MaxChannels)
			}
			c.ports[at] = p
		}
	}
	for i, n := range c.f.NoAnswer {
		if !n.Valid() || c.chips[n] != nil {
			return fmt.Errorf("no_answer[%d]: %s is no chip, or the file has the state of the chip", i, n)
		}
	}
	return nil
}

func (c *checker) eachChip() error {
	for i := range c.f.Chips {
		if err := c.chip(&c.f.Chips[i]); err != nil {
			return within(err, "chips[%d]", i)
		}
	}
	return nil
}

func (c *checker) chip(k *Chip) error {
	if k.Incarnation == 0 {
		return errors.New("incarnation: 0: want another number")
	}
	for i := range k.Ports {
		if err := c.port(k, &k.Ports[i]); err != nil {
			return within(err, "ports[%d]", i)
		}
	}
	planes := map[wire.Plane]bool{}
	for i, o := range k.Own {
		if o.Plane > 15 || planes[o.Plane] {
			return fmt.Errorf("own[%d].plane: %d: want a plane below 16 that no other entry has", i, o.Plane)
		}
		planes[o.Plane] = true
		for j := range o.Packets {
			v, err := c.packet(&o.Packets[j], j == 0)
			if err == nil && (v.Trunk() == wire.TrunkNone && !v.HasMembers() || v.Plane() != o.Plane) {
				err = errors.New("head: want a multicast on the plane of the entry")
			}
			if err != nil {
				return within(err, "own[%d].packets[%d]", i, j)
			}
		}
	}
	for name, list := range map[string][]Packet{"replies": k.Replies, "host": k.Host} {
		for i := range list {
			if _, err := c.packet(&list[i], false); err != nil {
				return within(err, "%s[%d]", name, i)
			}
		}
	}
	for i := range k.Reports {
		if _, err := wire.DecodeDropReport(k.Reports[i].Data); err != nil {
			return fmt.Errorf("reports[%d].data: %w", i, err)
		}
	}
	if k.OwnHost < 0 {
		return fmt.Errorf("own_host: %d: want at least 0", k.OwnHost)
	}
	return errors.Join(c.flows(k), c.memory(k))
}

func (c *checker) memory(k *Chip) error {
	sum := 0
	for i := range k.Memory {
		m := &k.Memory[i]
		if sum += len(m.Data); sum > MaxMemory || len(m.Data) == 0 || m.X > 63 || m.Y > 63 || m.At > wire.MaxNocOffset {
			return fmt.Errorf("memory[%d]: %d bytes at %d of tile %d-%d: want a tile of the NoC, an offset up to %d, and at most %d bytes of a chip", i, len(m.Data), m.At, m.X, m.Y, uint64(wire.MaxNocOffset), MaxMemory)
		}
	}
	return nil
}

func (c *checker) port(k *Chip, p *PortState) error {
	if err := errors.Join(among("link", p.Link, linkStates), among("router", p.Router, routerStates), among("direction", p.Direction, []string{"E", "W", "N", "S", "Z"}),
		between("plane", int(p.Plane), 0, 15), between("by", int(p.By), 0, wire.MaxChannels-1), between("fallback", int(p.Fallback), 0, wire.MaxChannels-1),
		between("unacked", p.Unacked, 0, 1<<20), atMost("vcs", len(p.VCs), wire.NumVCs)); err != nil {
		return err
	}
	if q := c.ports[p.Peer]; q != nil && (q.Peer != Port{Node: k.Node, Channel: p.Channel} || q.Plane != p.Plane) {
		return fmt.Errorf("peer: %s, whose peer is %s on plane %d", p.Peer, q.Peer, q.Plane)
	}
	if c.chips[p.Peer.Node] != nil && c.ports[p.Peer] == nil {
		return fmt.Errorf("peer: %s is no port of the chip", p.Peer)
	}
	if wire.PortID(p.Peer).Node == k.Node {
		return fmt.Errorf("peer: %s is a port of the same chip", p.Peer)
	}
	for _, ch := range []wire.Channel{p.By, p.Fallback} {
		if c.ports[Port{Node: k.Node, Channel: ch}] == nil {
			return fmt.Errorf("by, fallback: the chip has no port on channel %d", ch)
		}
	}
	if err := atMost("pending", len(p.Pending), MaxWaiting); err != nil {
		return err
	}
	for i := range p.Pending {
		if _, err := c.packet(&p.Pending[i], false); err != nil {
			return within(err, "pending[%d]", i)
		}
	}
	var seen [wire.NumVCs]bool
	for i := range p.VCs {
		v := &p.VCs[i]
		if seen[v.VC] {
			return fmt.Errorf("vcs[%d].vc: %s stands in the list twice", i, wire.VC(v.VC))
		}
		seen[v.VC] = true
		if err := c.vc(p, v); err != nil {
			return within(err, "vcs[%d]", i)
		}
	}
	return nil
}

func (c *checker) vc(p *PortState, v *VC) error {
	if err := errors.Join(between("sender_slots", v.SenderSlots, 0, MaxSlots), between("receiver_slots", v.ReceiverSlots, 0, MaxSlots), between("peer_slots", v.PeerSlots, 0, 1<<16-1),
		between("credits", v.Credits, 0, v.PeerSlots), between("receiver", len(v.Receiver), 0, v.ReceiverSlots), between("senders", len(v.Senders), senders, senders)); err != nil {
		return err
	}
	if n := len(v.Receiver) + len(v.InFlight); n > v.ReceiverSlots {
		return fmt.Errorf("in_flight: the receiver channel and the packets in flight need %d slots of %d", n, v.ReceiverSlots)
	}
	if err := c.list("receiver", v.Receiver, v.VC, p.Plane, true); err != nil {
		return err
	}
	if err := c.list("in_flight", v.InFlight, v.VC, p.Plane, false); err != nil {
		return err
	}
	for s := range v.Senders {
		if err := atMost(fmt.Sprintf("senders[%d]", s), len(v.Senders[s]), MaxWaiting); err != nil {
			return err
		}
		if n := len(v.Senders[s]); n > 0 && v.SenderSlots == 0 {
			return fmt.Errorf("senders[%d]: %d packets, but the channel has no slots", s, n)
		}
		if err := c.list(fmt.Sprintf("senders[%d]", s), v.Senders[s], v.VC, p.Plane, false); err != nil {
			return err
		}
	}
	return nil
}

// list checks the packets of a channel.
func (c *checker) list(name string, list []Packet, vc VCName, plane wire.Plane, parts bool) error {
	for i := range list {
		v, err := c.packet(&list[i], parts && i == 0)
		if err == nil && (v.VC() != wire.VC(vc) || v.Plane() != plane) {
			err = fmt.Errorf("head: the packet is on virtual channel %s and plane %d", v.VC(), v.Plane())
		}
		if err != nil {
			return within(err, "%s[%d]", name, i)
		}
	}
	return nil
}

// packet checks a packet, and counts it. Only the first packet of a receiver channel or of a queue of
// multicasts may have parts.
func (c *checker) packet(p *Packet, parts bool) (wire.PacketView, error) {
	if c.packets++; c.packets > MaxPackets {
		return nil, fmt.Errorf(": the file has more than %d packets", MaxPackets)
	}
	if p.Parts != 0 && !parts {
		return nil, errors.New("parts: only the first packet of a receiver channel, or of the chip's own multicasts, has parts")
	}
	return p.Raw()
}

// cables checks that each cable of the list joins ports of the file.
func (c *checker) cables() error {
	seen := map[Port]bool{}
	for i := range c.f.Cables {
		k := &c.f.Cables[i]
		if err := among("state", k.State, cableStates); err != nil {
			return within(err, "cables[%d]", i)
		}
		if p := c.ports[k.A]; p == nil || k.B != p.Peer && (p.Found == nil || k.B != *p.Found) {
			return fmt.Errorf("cables[%d]: the file has no port %s that leads to %s", i, k.A, k.B)
		}
		for _, p := range []Port{k.A, k.B} {
			if seen[p] && k.State != "miswired" {
				return fmt.Errorf("cables[%d]: %s is an end of another cable, too", i, p)
			}
			seen[p] = true
		}
	}
	return nil
}

// cuts checks that the cuts of the two chips at each cable are consistent: the number of packets in
// flight is the number of packets sent in the session, less the number of packets received.
func (c *checker) cuts() error {
	for i := range c.f.Chips {
		for j := range c.f.Chips[i].Ports {
			p := &c.f.Chips[i].Ports[j]
			q := c.ports[p.Peer]
			for k := range p.VCs {
				v := &p.VCs[k]
				name := fmt.Sprintf("chips[%d].ports[%d].vcs[%d].in_flight", i, j, k)
				if n := len(v.InFlight); n > 0 && (q == nil || p.Session == 0 || q.Session != p.Session) {
					return fmt.Errorf("%s: %d packets, but the file has no end of the session that sent them", name, n)
				}
				if q == nil || !p.Complete || p.Session == 0 || q.Session != p.Session {
					continue
				}
				var sent uint32
				for m := range q.VCs {
					if q.VCs[m].VC == v.VC {
						sent = q.VCs[m].Sent
					}
				}
				if n := sent - v.Received; n != uint32(len(v.InFlight)) {
					return fmt.Errorf("%s: %d packets, but the peer has sent %d in the session, and this chip has received %d", name, len(v.InFlight), sent, v.Received)
				}
			}
		}
	}
	return nil
}
