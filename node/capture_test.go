package node_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// taken is a captured datagram that is kept.
type taken struct {
	node.Captured
	data []byte
}

// readAll closes a capture and returns what it took.
func readAll(t *testing.T, c *node.Capture) (out []taken) {
	t.Helper()
	c.Close()
	for {
		err := c.Read(context.Background(), func(k *node.Captured) { out = append(out, taken{*k, bytes.Clone(k.Data)}) })
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// traffic writes from chip 0 to the last one, so many bytes.
func writeTo(t *testing.T, from *node.Node, to wire.FabricNodeID, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := session.New(from).Write(ctx, to, wire.NewNocAddr(0, 0, 0), make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// TestCaptureBothEnds captures at both ends of two impaired cables, since
// writes take the plane that they like: what arrives is what was sent and not
// said to be lost, and the fates are those that the impairments count.
func TestCaptureBothEnds(t *testing.T) {
	_, _, ns := fabric(t, "mesh:1x2")
	var cs [2]*node.Capture
	for i := len(cs) - 1; i >= 0; i-- { // the receiver first, so that nothing arrives before it looks
		c, err := ns[i].Capture(node.CaptureConfig{Buffer: 256 << 20})
		if err != nil {
			t.Fatal(err)
		}
		cs[i] = c
	}
	for _, p := range cs[0].Ports() {
		if err := ns[0].SetImpairment(p.Local.Channel, fault.Change{"loss": "2%", "corruption": "1%", "duplicate": "1%"}, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	writeTo(t, ns[0], chipID(1), 4<<20)
	var counts fault.Counts
	for _, i := range ns[0].Impairments() {
		counts.Lost += i.Counts.Lost
		counts.Corrupted += i.Counts.Corrupted
		counts.Duplicated += i.Counts.Duplicated
	}
	peers := map[wire.Channel]bool{}
	for _, p := range cs[0].Ports() {
		if err := ns[0].ResetImpairment(p.Local.Channel); err != nil { // the capture goes on around the bare port
			t.Fatal(err)
		}
		peers[p.Peer.Channel] = true
	}
	writeTo(t, ns[0], chipID(1), 1<<20)
	got := readAll(t, cs[0])
	var lost, corrupted, twice uint64
	missing := map[string]int{} // at the other end
	for i, k := range got {
		if k.Length != len(k.data) || k.Dropped != 0 || !k.From.IsValid() || !k.To.IsValid() {
			t.Fatalf("datagram %d: %+v", i, k.Captured)
		}
		if !k.Sent {
			continue
		}
		if f, err := wire.DecodeFrame(k.data); err != nil {
			t.Fatalf("a frame that was sent: %+v, %v", f, err) // never what was corrupted
		}
		notes := strings.Join(k.Notes, "; ")
		switch {
		case strings.Contains(notes, "injected fault: lost"):
			lost++
			continue
		case strings.Contains(notes, "corrupted"):
			corrupted++
			continue // it arrived as something else
		}
		if strings.Contains(notes, "duplicated") {
			twice++
			missing[string(k.data)]++
		}
		missing[string(k.data)]++
	}
	if lost == 0 || lost < counts.Lost || corrupted < counts.Corrupted/2 || twice < counts.Duplicated/2 {
		t.Errorf("notes say %d lost, %d corrupted, %d twice; the impairments counted %+v", lost, corrupted, twice, counts)
	}
	arrive := func(k *node.Captured) {
		if data := string(k.Data); !k.Sent && peers[k.Channel] {
			if missing[data]--; missing[data] <= 0 {
				delete(missing, data) // it may come once more, as what got damaged on its way is sent again
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(missing) > 0 {
		if err := cs[1].Read(ctx, arrive); err != nil {
			t.Fatalf("%d datagrams that nothing was done to did not arrive: %v", len(missing), err)
		}
	}
	var received uint64
	for _, p := range cs[0].Ports() {
		s := cs[0].Statistics(p.Local.Channel)
		if s.Dropped != 0 || s.Received != s.Accepted {
			t.Errorf("statistics %+v", s)
		}
		received += s.Received
	}
	if received != uint64(len(got)) {
		t.Errorf("statistics say %d, the capture has %d", received, len(got))
	}
}

// TestCaptureIsBounded lets a capture run full: it drops and counts, the fabric goes on, and the next datagram tells how many.
func TestCaptureIsBounded(t *testing.T) {
	_, _, ns := fabric(t, "mesh:1x2")
	c, err := ns[0].Capture(node.CaptureConfig{Buffer: 256 << 10, SnapLen: 100})
	if err != nil {
		t.Fatal(err)
	}
	writeTo(t, ns[0], chipID(1), 16<<20)
	n, told := 0, uint64(0)
	count := func(k *node.Captured) {
		told += k.Dropped
		if n++; len(k.Data) > 100 || k.Length < len(k.Data) {
			t.Fatalf("%d of %d bytes", len(k.Data), k.Length)
		}
	}
	if err := c.Read(context.Background(), count); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	writeTo(t, ns[0], chipID(1), 64)
	for _, k := range readAll(t, c) {
		count(&k.Captured)
	}
	var dropped, accepted uint64
	for _, p := range c.Ports() {
		s := c.Statistics(p.Local.Channel)
		dropped, accepted = dropped+s.Dropped, accepted+s.Accepted
	}
	if dropped == 0 || told == 0 || told > dropped || uint64(n)+dropped != accepted {
		t.Errorf("%d taken, %d dropped, of which datagrams told %d, of %d", n, dropped, told, accepted)
	}
}

// TestCaptureFilters takes what the filter says, and nothing once it is closed.
func TestCaptureFilters(t *testing.T) {
	_, _, ns := fabric(t, "mesh:1x3")
	f, err := capture.ParseFilter("data and out and dst M0D2 and send write")
	if err != nil {
		t.Fatal(err)
	}
	c, err := ns[1].Capture(node.CaptureConfig{Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	writeTo(t, ns[0], chipID(2), 100_000)
	writeTo(t, ns[2], chipID(0), 100_000)
	got := readAll(t, c)
	writeTo(t, ns[0], chipID(2), 1000)
	if err := c.Read(context.Background(), func(*node.Captured) { t.Error("taken behind the end") }); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	packets := 0
	for _, k := range got {
		x, err := wire.DecodeFrame(k.data)
		if err != nil || !k.Sent || x.VC != wire.VCData {
			t.Fatalf("%+v %v", x, err)
		}
		packets++
	}
	if packets < 25 {
		t.Errorf("%d packets of 4 KiB for 100,000 bytes", packets)
	}
}

// TestCaptureRefusals names what cannot be.
func TestCaptureRefusals(t *testing.T) {
	_, _, ns := fabric(t, "mesh:1x2")
	for want, cfg := range map[string]node.CaptureConfig{"no cable at channel 15": {Channels: []wire.Channel{15}}, "buffer of 7 bytes": {Buffer: 7}, "-1 bytes of each": {SnapLen: -1}} {
		if _, err := ns[0].Capture(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for i := range node.MaxCaptures + 1 {
		if _, err := ns[0].Capture(node.CaptureConfig{}); (err == nil) != (i < node.MaxCaptures) {
			t.Errorf("capture %d: %v", i, err)
		}
	}
}

// TestCaptureNotes finds what happens at a port without a frame of its own on the next one: here the death of a
// neighbour, and packets that a router drops because of it.
func TestCaptureNotes(t *testing.T) {
	_, _, ns := fabric(t, "mesh:1x3")
	c, err := ns[1].Capture(node.CaptureConfig{SnapLen: 64})
	if err != nil {
		t.Fatal(err)
	}
	var dead atomic.Bool
	time.AfterFunc(100*time.Millisecond, func() {
		ns[2].Close()
		dead.Store(true)
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var writers sync.WaitGroup
	for range 8 { // so that packets are under way at any moment
		writers.Go(func() {
			s := session.New(ns[0])
			for err := error(nil); ctx.Err() == nil && (err == nil || !dead.Load()); {
				err = s.Write(ctx, chipID(2), wire.NewNocAddr(0, 0, 0), make([]byte, 1<<20))
			}
		})
	}
	writers.Wait()
	var told []string
	both := func() bool {
		notes := strings.Join(told, "\n")
		return strings.Contains(notes, "link down: peer closed") && strings.Contains(notes, "of M0D0 to M0D2: ")
	}
	for !both() { // hellos go on
		if err := c.Read(ctx, func(k *node.Captured) { told = append(told, k.Notes...) }); err != nil {
			t.Fatalf("%v; notes: %s", err, strings.Join(told, "\n"))
		}
	}
}

// TestCaptureAddress shows a chip that listens at all addresses of its machine with the one that others know.
func TestCaptureAddress(t *testing.T) {
	_, _, ns := fabricWith(t, "mesh:1x2", func(c *node.Config) { c.Listen = netip.IPv4Unspecified() })
	c, err := ns[0].Capture(node.CaptureConfig{})
	if err != nil {
		t.Fatal(err)
	}
	writeTo(t, ns[0], chipID(1), 100)
	for _, k := range readAll(t, c) {
		if k.From.Addr() != netip.MustParseAddr("127.0.0.1") || k.To.Addr() != k.From.Addr() || k.From.Port() == 0 {
			t.Fatalf("from %s to %s", k.From, k.To)
		}
	}
}
