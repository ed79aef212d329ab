package chip

import (
	"slices"
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// mailbox lets chip "from" read a mailbox over the fabric. The mailbox belongs to channel
// ch of chip "of".
func (w *fabric) mailbox(from, of int, ch wire.Channel) wire.Mailbox {
	w.t.Helper()
	at, err := MailboxAddr(w.m.Arch, ch)
	if err != nil {
		w.t.Fatal(err)
	}
	var region []byte
	for len(region) < wire.MailboxSize {
		n := min(wire.MaxPayload, wire.MailboxSize-len(region))
		r := flow.Request{Dst: w.m.Chips[of].Node, Command: wire.Command{Type: wire.NocRead, Addr: at.Add(len(region)), Size: uint16(n)}}
		if got := w.chips[from].HandleRequest(w.now, r); got != flow.Accepted {
			w.t.Fatalf("a read was not taken: %d", got)
		}
		rs := w.results(from, 1)
		if len(rs) != 1 || rs[0].Fate != flow.FateDone || len(rs[0].Data) != n {
			w.t.Fatalf("a read ended as %+v", rs)
		}
		region = append(region, rs[0].Data...)
	}
	m, err := wire.DecodeMailbox(region)
	if err != nil || m.Torn != 0 {
		w.t.Fatalf("%v, %d torn", err, m.Torn)
	}
	return m
}

// drain polls all events of all chips. PollEvent posts each event to the mailboxes.
func (w *fabric) drain() {
	for _, c := range w.chips {
		for _, ok := c.PollEvent(); ok; _, ok = c.PollEvent() {
		}
	}
}

// Spec §7.1: "Routers use this mailbox to post status updates, event
// notifications, and error messages".
func TestMailbox(t *testing.T) {
	w := newFabric(t, named(t, "line:3"))
	w.drain()
	c := w.chips[1]
	east, west := -1, -1
	for i := range c.ports.list {
		switch p := &c.ports.list[i]; {
		case p.Plane != 0:
		case p.Dir == wire.East:
			east = i
		case p.Dir == wire.West:
			west = i
		}
	}
	p := &c.ports.list[east]
	m := w.mailbox(0, 1, p.Local.Channel)
	s := m.Status
	if s.Local != p.Local || s.Peer != p.Peer || s.Incarnation != c.Incarnation() || s.State != wire.RouterRunning || s.Postcode != wire.PostReady ||
		s.LinkState != uint8(ttlink.StateUp) || s.Dir != wire.East || s.Path != wire.MailboxOwnCable || s.Epoch != c.tables.epoch || s.At == 0 {
		t.Errorf("the status is %+v", s)
	}
	kinds := map[wire.MailboxKind]int{}
	for _, e := range m.Entries {
		kinds[e.Kind]++
	}
	if kinds[wire.MailboxKind(ttlink.EventUp)] == 0 || kinds[wire.MailboxKind(ttlink.EventSessionStarted)] == 0 || s.Posted != uint32(len(m.Entries)) {
		t.Errorf("%d posted: %+v", s.Posted, m.Entries)
	}

	before := w.mailbox(0, 1, c.ports.list[west].Local.Channel).Status
	for range 10 {
		w.chips[0].HandleRequest(w.now, flow.Request{Dst: w.m.Chips[2].Node, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}, Payload: []byte("pass")})
	}
	w.results(0, 10)
	after := w.mailbox(0, 1, c.ports.list[west].Local.Channel).Status
	if after.Forwarded < before.Forwarded+10 || after.PacketsReceived < before.PacketsReceived+10 || after.Seq <= before.Seq || after.At <= before.At {
		t.Errorf("ten packets later the status went from %+v to %+v", before, after)
	}

	w.cut(c, wire.East, true) // on both planes: no parallel link is left as a fallback path
	for slices.ContainsFunc(c.ports.list, func(p port) bool { return p.Dir == wire.East && p.up }) {
		w.run(time.Millisecond)
	}
	w.chips[0].HandleRequest(w.now, flow.Request{Dst: w.m.Chips[2].Node, Command: wire.Command{Type: wire.NocUnicastWrite, Addr: wire.NewNocAddr(1, 1, 0)}, Payload: []byte("lost")})
	w.run(time.Second)
	w.results(0, 1)
	w.drain()
	m = w.mailbox(0, 1, p.Local.Channel)
	if m.Status.State != wire.RouterRetraining || m.Status.Postcode != wire.PostStarted || m.Status.LastDown != uint8(ttlink.DownSilence) || m.Status.Dropped != 1 {
		t.Errorf("with the cable cut the status is %+v", m.Status)
	}
	tables := len(m.Entries) - 2
	if m.Entries[tables].Kind != wire.MailboxTables || m.Entries[tables].Packets == 0 || m.Entries[tables].Session != wire.SessionID(c.tables.epoch) {
		t.Fatalf("no entry tells of the tables in force: %+v", m.Entries)
	}
	last := m.Entries[len(m.Entries)-1]
	if last.Kind != wire.MailboxDropped || last.Reason != uint8(wire.DropUnreachable) || last.Severity != wire.SeverityError || last.Packets != 1 ||
		last.Src != w.m.Chips[0].Node || last.Dst != w.m.Chips[2].Node {
		t.Errorf("the last entry is %+v", last)
	}
	if !slices.ContainsFunc(m.Entries[:tables], func(d wire.MailboxEntry) bool {
		return d.Kind == wire.MailboxKind(ttlink.EventDown) && d.Reason == uint8(ttlink.DownSilence) && d.Severity == wire.SeverityWarning
	}) {
		t.Errorf("none before it says that the link went down: %+v", m.Entries)
	}
}

// TestMailboxIsARing posts more entries than a mailbox holds, and writes foreign bytes
// into the mailbox. A reader must then find exactly the newest entries.
func TestMailboxIsARing(t *testing.T) {
	w := newFabric(t, named(t, "n300"))
	w.drain()
	c := w.chips[1]
	ch := c.ports.list[0].Local.Channel
	at, _ := MailboxAddr(w.m.Arch, ch)
	posted := w.mailbox(0, 1, ch).Status.Posted
	for k := range uint64(1000) {
		c.events.add(Event{At: w.now, Local: c.ports.list[0].Local, Drop: wire.DropTTL, Count: k + 1})
		if k%37 == 0 {
			w.drain()
		}
		if k%100 == 0 {
			c.Memory().Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: at.Add(int(k))}, make([]byte, 100))
		}
	}
	w.drain()
	m := w.mailbox(0, 1, ch)
	if m.Status.Posted != posted+1000 || len(m.Entries) != wire.MailboxEntries {
		t.Fatalf("%d posted after %d, %d entries", m.Status.Posted, posted, len(m.Entries))
	}
	for i, e := range m.Entries {
		if e.Packets != uint32(1000-wire.MailboxEntries+i+1) {
			t.Fatalf("entry %d is %+v", i, e)
		}
	}
}

// TestMailboxCodes compares the codes that package wire documents for mailboxes with the
// codes of ttlink. Package wire cannot import ttlink.
func TestMailboxCodes(t *testing.T) {
	reasons := []string{"none", "silence", "peer retrained", "peer closed", "peer restarted", "path off", "closed", "path narrower", "fallback gone", "retrain"}
	for i, s := range reasons {
		if got := ttlink.DownReason(i).String(); got != s {
			t.Errorf("down reason %d is %q, documented as %q", i, got, s)
		}
	}
	for i, s := range []string{"off", "training", "up", "closed"} {
		if got := ttlink.State(i).String(); got != s {
			t.Errorf("link state %d is %q, documented as %q", i, got, s)
		}
	}
	for i, s := range []string{"up", "down", "session started", "session ended", "miswired", "incompatible", "path", "held", "released"} {
		if got := ttlink.EventKind(i + 1).String(); got != s {
			t.Errorf("kind %d is %q, documented as %q", i+1, got, s)
		}
	}
}

// Every port of every machine has an ethernet tile with room for the port's mailbox.
func TestMailboxTiles(t *testing.T) {
	for _, name := range []string{"t3000", "galaxy", "2xt3000"} {
		m, err := topo.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range m.Ports(m.Chips[0].Node) {
			if _, err := MailboxAddr(m.Arch, p.Local.Channel); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for arch, n := range map[wire.Arch]wire.Channel{wire.Wormhole: 16, wire.Blackhole: 14} {
		seen := map[wire.NocAddr]bool{}
		for ch := range n {
			a, err := MailboxAddr(arch, ch)
			if err != nil || seen[a] {
				t.Errorf("%s channel %d: %v, %v", arch, ch, a, err)
			}
			seen[a] = true
		}
		if _, err := MailboxAddr(arch, n); err == nil {
			t.Errorf("%s has a mailbox for channel %d", arch, n)
		}
	}
}
