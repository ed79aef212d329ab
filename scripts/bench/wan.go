package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/ttlink"
	"ttfabric/wire"
)

// wanDelays lists the delays of the wire, one way.
var wanDelays = []time.Duration{0, 100 * time.Microsecond, 5 * time.Millisecond}

const (
	wanSize  = 4096        // size of a message of the goodput measurements, in bytes
	wanPings = time.Second // approximate time that all pings of one transport take together
	theory   = "go-back-N (theory)"
	worst    = "go-back-N (theory, full window)"
	udpBytes = 28 // IPv4 and UDP headers (RFC 791, RFC 768)
)

// wanKinds lists the transports that cross the wire. The benchmark measures the goodput of all
// these transports, and the round trips of all except tcp-cubic. Plain UDP also crosses the wire,
// for its round trips and for the ceiling. The benchmark measures kcp only if -kinds names kcp.
var wanKinds = []string{"ttlink-fast", "tcp", "tcp-cubic", "quic", "kcp"}

// wirePrefix begins the name of every measurement over the wire.
const wirePrefix = "wire of "

func wireName(delay time.Duration) string { return wirePrefix + delayName(delay) }

func delayName(d time.Duration) string { return fmt.Sprintf("%g ms", d.Seconds()*1e3) }

// wanJob is one measurement over the wire: pings, or goodput.
type wanJob struct {
	kind  string
	delay time.Duration
	loss  int // loss in percent
	ping  bool
}

func (b *bench) wanJobs() []wanJob {
	var jobs []wanJob
	for _, delay := range wanDelays {
		for _, kind := range append([]string{"udp"}, wanKinds...) {
			if !b.chosen(kind) || kind == "kcp" && !b.named(kind) {
				continue
			}
			if kind != "tcp-cubic" { // a single ping meets no congestion
				jobs = append(jobs, wanJob{kind, delay, 0, true})
			}
			for _, loss := range lossPercents {
				if kind != "udp" || loss == 0 { // without loss, the goodput of udp is the ceiling of the relay
					jobs = append(jobs, wanJob{kind, delay, loss, false})
				}
			}
		}
	}
	return jobs
}

// wan measures over a wire that consists of the devices of two namespaces and our relay between
// them. Every transport thus crosses the same delay and loss.
func (b *bench) wan(round int, r *rand.Rand) error {
	if b.wire == "" || where.netns == "" {
		return errors.New("-only wan needs two namespaces and a wire between them; use scripts/bench/wan")
	}
	if b.mtu < 576 || b.mtu > maxMTU {
		return fmt.Errorf("-mtu %d: want 576 to %d bytes", b.mtu, maxMTU)
	}
	o, err := spawn("relay", b.wire)
	if err != nil {
		return err
	}
	defer o.end()
	if _, err := o.ask(""); err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	jobs := b.wanJobs()
	first := len(b.report.Results)
	for _, i := range r.Perm(len(jobs)) {
		j := jobs[i]
		if _, err := o.ask(fmt.Sprintf("%v %v", j.delay, float64(j.loss)/100)); err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		if err := b.wanOne(round, j, o); err != nil {
			return fmt.Errorf("over the wire with %v and %d %% loss: %w", j.delay, j.loss, err)
		}
	}
	b.add(goBackN(b.report.Results[first:], round, b.mtu)...)
	return nil
}

func (b *bench) wanOne(round int, j wanJob, relay *other) error {
	at := result{Kind: j.kind, Round: round, Delay: us(j.delay), Loss: float64(j.loss)}
	if j.ping {
		n := min(max(int(wanPings/(2*j.delay+100*time.Microsecond)), 50), pings)
		p50, p99, err := latency(j.kind, n)
		for _, p := range []struct {
			name string
			v    float64
		}{{"p50", p50}, {"p99", p99}} {
			at.Bench, at.Unit, at.Value, at.Size = wireName(j.delay)+fmt.Sprintf(", round trip 64 B %s", p.name), "µs", p.v, 64
			b.add(at)
		}
		return err
	}
	if j.kind == "udp" {
		return b.ceiling(at, j, relay)
	}
	g, err := goodput(j.kind, wanSize, b.span)
	at.Bench, at.Unit, at.Value, at.Size = wireName(j.delay)+fmt.Sprintf(", %d B, %d %% loss", wanSize, j.loss), "Gb/s", g, wanSize
	b.add(at)
	return err
}

// ceiling measures the wire itself, with plain datagrams of the longest size that the wire takes.
// One figure is the goodput with all processes on the same cores. The other figure is the goodput
// of a relay with a core to itself. The function computes this second figure from the CPU time that
// the relay spent on the datagrams.
func (b *bench) ceiling(at result, j wanJob, relay *other) error {
	size := b.mtu - udpBytes
	used := func() (packets, ns float64, err error) {
		s, err := relay.ask("used")
		if err == nil {
			_, err = fmt.Sscan(s, &packets, &ns)
		}
		return packets, ns, err
	}
	packets, ns, err := used()
	if err != nil {
		return err
	}
	g, err := goodput(j.kind, size, b.span)
	if err != nil {
		return err
	}
	packets2, ns2, err := used()
	if err != nil {
		return err
	}
	at.Bench, at.Unit, at.Value, at.Size = wireName(j.delay)+fmt.Sprintf(", plain datagrams of %d B", size), "Gb/s", g, size
	alone := at
	alone.Kind, alone.Value = "relay with a core to itself", (packets2-packets)*float64(size)*8/(ns2-ns)
	b.add(at, alone)
	return nil
}

// goBackN computes the goodput that textbook go-back-N would reach, from the link's own goodput
// without loss in the same round. A frame is lost with probability p. Until the sender learns of the
// loss, it sends W frames, and then sends them all again. The share of new frames in all frames sent
// is therefore (1-p)/(1-p+p·W) (W. Stallings, Data and Computer Communications, appendix on the
// performance of ARQ: N = (1-P+KP)/(1-P)). goBackN computes two curves. In the first curve, W is the
// number of frames in the round trip of a single ping, at most the window. In the second curve, W is
// the whole window, because a busy sender fills the queues before the wire.
func goBackN(rs []result, round, mtu int) []result {
	find := func(delay float64, unit string, ping bool) (float64, bool) {
		for _, r := range rs {
			if r.Kind == "ttlink-fast" && r.Delay == delay && r.Loss == 0 && r.Unit == unit && (r.Size == 64) == ping {
				return r.Value, true // of the two figures of the pings, the first is the median
			}
		}
		return 0, false
	}
	payload, onWire, window := wanFrame(mtu)
	var out []result
	for _, delay := range wanDelays {
		rate, ok1 := find(us(delay), "Gb/s", false)
		trip, ok2 := find(us(delay), "µs", true)
		if !ok1 || !ok2 {
			continue
		}
		w := min(max(rate*1e3*trip/8/payload, 1), window)
		for _, t := range []struct {
			kind   string
			frames float64
		}{{theory, w}, {worst, window}} {
			out = append(out, result{Bench: wireName(delay) + fmt.Sprintf(", frames of %.0f B under way", onWire), Kind: t.kind, Unit: "frames", Round: round, Value: t.frames, Delay: us(delay)})
			for _, loss := range lossPercents {
				out = append(out, result{Bench: wireName(delay) + fmt.Sprintf(", %d B, %d %% loss", wanSize, loss), Kind: t.kind, Unit: "Gb/s", Round: round,
					Value: rate * efficiency(float64(loss)/100, t.frames), Size: wanSize, Delay: us(delay), Loss: float64(loss)})
			}
		}
	}
	return out
}

// efficiency returns the share of new frames in all frames that go-back-N sends. A frame is lost
// with probability p, and the sender sends w frames until it learns of the loss.
func efficiency(p, w float64) float64 { return (1 - p) / (1 - p + p*w) }

// wanFrame describes a frame of a 4 KiB packet over a wire with the given MTU. The result "payload"
// is the frame's share of the packet's data. The result onWire is the length of the whole frame
// with headers and padding. Both results are in bytes. The result "window" is the number of these
// frames that fit into the link's window, at most [ttlink.MaxFrames].
func wanFrame(mtu int) (payload, onWire, window float64) {
	most := framePayload(mtu - udpBytes)
	n := (wanSize + most - 1) / most
	size := wire.PadTo((wanSize+n-1)/n) + wire.FrameOverhead
	return float64(wanSize) / float64(n), float64(size), float64(min(ttlink.DefaultWindow/size, ttlink.MaxFrames))
}
