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

// taken is a captured datagram with a copy of its data.
type taken struct {
	node.Captured
	data []byte
}

// readAll closes a capture and returns the datagrams that the capture recorded.
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

// writeTo writes n bytes from one chip to another.
func writeTo(t *testing.T, from *node.Node, to wire.FabricNodeID, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := session.New(from).Write(ctx, to, wire.NewNocAddr(0, 0, 0), make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

// TestCaptureBothEnds captures at both ends of the cables between two chips while the cables are
// impaired. Every datagram that the sender's capture does not call lost or corrupted must arrive.
// The notes about faults must agree with the counts of the impairments.
func TestCaptureBothEnds(t *testing.T) {
	_, _, ns := fabric(t, "mesh:1x2")
	var cs [2]*node.Capture
	for i := len(cs) - 1; i >= 0; i-- { // the receiver's capture begins first, and therefore misses no datagram
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
		if err := ns[0].ResetImpairment(p.Local.Channel); err != nil { // the capture continues although the port no longer injects faults
			t.Fatal(err)
		}
		peers[p.Peer.Channel] = true
	}
	writeTo(t, ns[0], chipID(1), 1<<20)
	got := readAll(t, cs[0])
	var lost, corrupted, twice uint64
	missing := map[string]int{} // datagrams that the receiver has not recorded yet, with the number of copies
	for i, k := range got {
		if k.Length != len(k.data) || k.Dropped != 0 || !k.From.IsValid() || !k.To.IsValid() {
			t.Fatalf("datagram %d: %+v", i, k.Captured)
		}
		if !k.Sent {
			continue
		}
		if f, err := wire.DecodeFrame(k.data); err != nil {
			t.Fatalf("a sent datagram is not a valid frame: %+v, %v", f, err) // the capture records a sent datagram before any corruption
		}
		notes := strings.Join(k.Notes, "; ")
		switch {
		case strings.Contains(notes, "injected fault: lost"):
			lost++
			continue
		case strings.Contains(notes, "corrupted"):
			corrupted++
			continue // the datagram arrived with other data
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
				delete(missing, data) // the link may send the datagram again after the loss of another datagram
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(missing) > 0 {
		if err := cs[1].Read(ctx, arrive); err != nil {
			t.Fatalf("%d datagrams did not arrive although no fault hit them: %v", len(missing), err)
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
		t.Errorf("the statistics count %d datagrams, and the capture has %d", received, len(got))
	}
}

// TestCaptureIsBounded fills a capture's memory. The capture must then drop and count datagrams,
// and the next recorded datagram must state the number. The fabric must not be disturbed.
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
		t.Errorf("%d datagrams recorded and %d dropped, of which the recorded datagrams report %d; %d accepted", n, dropped, told, accepted)
	}
}

// TestCaptureFilters checks that a capture records only datagrams that its filter accepts, and
// nothing after its end.
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
	if err := c.Read(context.Background(), func(*node.Captured) { t.Error("the capture recorded a datagram after its end") }); !errors.Is(err, io.EOF) {
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

// TestCaptureRefusals checks the errors for captures with invalid settings, and for too many
// captures.
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

// TestCaptureNotes checks the notes about events at a port. The test kills a neighbour, and the
// router then drops packets for the dead neighbour.
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
	for range 8 { // several writers keep packets under way at any moment
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
	for !both() { // the port still sends hellos, which carry the notes
		if err := c.Read(ctx, func(k *node.Captured) { told = append(told, k.Notes...) }); err != nil {
			t.Fatalf("%v; notes: %s", err, strings.Join(told, "\n"))
		}
	}
}

// TestCaptureAddress captures at a chip that listens on the wildcard address. The recorded
// datagrams must have the address to which other chips send.
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

// TestCaptureCutsOffBadFrames captures received frames whole and cut off, while a cable damages frames. The capture of cut frames must
// name as many refused frames as the capture of whole frames holds.
func TestCaptureCutsOffBadFrames(t *testing.T) {
	_, _, ns := fabric(t, "mesh:1x2")
	whole, err := ns[1].Capture(node.CaptureConfig{Buffer: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cut, err := ns[1].Capture(node.CaptureConfig{Buffer: 64 << 20, SnapLen: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range whole.Ports() {
		if err := ns[0].SetImpairment(p.Peer.Channel, fault.Change{"corruption": "3%"}, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	writeTo(t, ns[0], chipID(1), 2<<20)
	for _, p := range whole.Ports() {
		if err := ns[0].ResetImpairment(p.Peer.Channel); err != nil {
			t.Fatal(err)
		}
	}
	writeTo(t, ns[0], chipID(1), 1<<20) // the last damaged frames arrive before these frames
	bad, named := 0, 0
	for _, k := range readAll(t, whole) {
		if strings.Contains(strings.Join(k.Notes, ""), capture.RefusedNote) {
			t.Errorf("the capture of whole frames has the note %q", k.Notes)
		}
		if _, err := wire.DecodeFrame(k.data); err != nil && !k.Sent && k.Length > 100 {
			bad++
		}
	}
	for _, k := range readAll(t, cut) {
		if len(k.data) > 100 {
			t.Fatalf("%d bytes of a datagram", len(k.data))
		}
		for _, note := range k.Notes {
			if strings.HasPrefix(note, capture.RefusedNote) {
				if named++; k.Sent {
					t.Errorf("a sent frame has the note %q", note)
				}
			}
		}
	}
	if bad == 0 || named != bad {
		t.Errorf("%d frames are refused, and %d have a note", bad, named)
	}
}
