package node_test

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"ttfabric/node"
	"ttfabric/node/fabric/bench"
	"ttfabric/node/session"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// scales counts the bytes of the data frames that ports send.
type scales struct {
	mu                     sync.Mutex
	frames, bytes, longest int // number of data frames, their bytes, and the largest padded payload
}

func (s *scales) weigh(runs []transport.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range runs {
		for data := r.Data; len(data) > 0; {
			n := min(r.Seg, len(data))
			if f, err := wire.DecodeFrame(data[:n]); err == nil && f.Kind == wire.KindData && f.VC == wire.VCData {
				s.frames, s.bytes, s.longest = s.frames+1, s.bytes+n, max(s.longest, f.Padded)
			}
			data = data[n:]
		}
	}
}

// weighed is a port whose sent datagrams are counted.
type weighed struct {
	transport.Port
	s *scales
}

func (w weighed) Send(data []byte, seg int) (int, error) {
	w.s.weigh([]transport.Run{{Data: data, Seg: seg}})
	return w.Port.Send(data, seg)
}

func (w weighed) SendBatch(runs []transport.Run) (int, error) {
	w.s.weigh(runs)
	return w.Port.SendBatch(runs)
}

// TestFrameLimit sends packets over links with the frame limit of the CCL guide, 1500 bytes ("Maximum Packet Size"), on a
// path that takes longer frames. The test counts the bytes that the ports send. No padded payload may exceed the next lower
// multiple of 32. Of all bytes on the wire, the packets must take the share of the guide's curve, within 1 %.
func TestFrameLimit(t *testing.T) {
	const limit, count = 1500, 50
	s := new(scales)
	_, _, ns := fabricWith(t, "mesh:1x2", func(c *node.Config) {
		c.Frame = limit
		c.Port = func(a netip.AddrPort) (transport.Port, error) {
			p, err := udpPort(a)
			return weighed{p, s}, err
		}
	})
	header, _ := wire.HeaderLenFor(1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, size := range []int{16, 64, 576, 1024, 1088, 2048, 4096} {
		s.mu.Lock()
		s.frames, s.bytes, s.longest = 0, 0, 0
		s.mu.Unlock()
		for range count {
			if err := session.New(ns[0]).Write(ctx, chipID(1), wire.NewNocAddr(1, 1, 0), make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		s.mu.Lock()
		packet := header + size
		frames := (packet + 1471) / 1472
		share, guide := float64(count*packet)/float64(s.bytes), bench.GuideShare(packet)
		t.Logf("%4d B: %d frames, at most %d B, packets %.1f %% of all bytes, guide %.1f %%", size, s.frames, s.longest, 100*share, 100*guide)
		if s.frames != count*frames || s.longest > 1472 || s.longest < packet/frames {
			t.Errorf("%d B: %d frames with at most %d B, want %d with at most 1472", size, s.frames, s.longest, count*frames)
		}
		if share < guide-.01 {
			t.Errorf("%d B: the packets take %.3f of all bytes, the guide's link %.3f", size, share, guide)
		}
		s.mu.Unlock()
	}
}
