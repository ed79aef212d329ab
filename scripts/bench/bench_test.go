package main

import (
	"cmp"
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ttfabric/ttlink/fault"
)

// pair returns two joined sockets. Each read returns one whole packet, as with a TUN device.
func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// TestRelayDirection sends packets through a direction of the relay. The direction must delay each
// packet by the delay, must drop the packets that the fault model drops, and must keep the order.
func TestRelayDirection(t *testing.T) {
	for _, c := range []struct {
		delay time.Duration
		loss  float64
	}{{0, 0}, {20 * time.Millisecond, 0}, {0, 0.5}, {20 * time.Millisecond, 0.5}} {
		near, in := pair(t)
		out, far := pair(t)
		m, err := fault.New(1, fault.Options{Delay: c.delay, Loss: c.loss})
		if err != nil {
			t.Fatal(err)
		}
		d := &direction{start: time.Now(), in: in, out: out, model: m}
		const sent = 100
		begin := time.Now()
		for i := range sent {
			if _, err := unix.Write(near, []byte{byte(i), 1, 2, 3}); err != nil {
				t.Fatal(err)
			}
		}
		var got []byte
		buf := make([]byte, 16)
		for time.Since(begin) < c.delay+100*time.Millisecond {
			if _, _, err := d.pass(); err != nil {
				t.Fatal(err)
			}
			for {
				n, err := unix.Read(far, buf)
				if errors.Is(err, unix.EAGAIN) {
					break
				}
				if err != nil || n != 4 {
					t.Fatalf("read %d bytes, %v; want 4", n, err)
				}
				if early := time.Since(begin); early < c.delay {
					t.Fatalf("a packet came after %v; want at least %v", early, c.delay)
				}
				got = append(got, buf[0])
			}
		}
		want := sent - int(m.Counts().Lost)
		if len(got) != want || c.loss == 0 && want != sent || c.loss > 0 && want == sent {
			t.Errorf("delay %v, loss %v: %d of %d packets came, the model lost %d", c.delay, c.loss, len(got), sent, m.Counts().Lost)
		}
		for i := 1; i < len(got); i++ {
			if got[i] <= got[i-1] {
				t.Fatalf("packet %d came after %d", got[i], got[i-1])
			}
		}
		if d.bytes != 0 || int(d.packets()) != len(got) {
			t.Errorf("%d bytes are under way and %d packets counted; want 0 and %d", d.bytes, d.packets(), len(got))
		}
	}
}

// TestRelaySetDropsWhatIsUnderWay changes the wire while a packet is under way. The packet must be
// lost.
func TestRelaySetDropsWhatIsUnderWay(t *testing.T) {
	near, in := pair(t)
	out, far := pair(t)
	m, _ := fault.New(1, fault.Options{Delay: time.Millisecond})
	d := &direction{start: time.Now(), in: in, out: out, model: m}
	unix.Write(near, []byte{1})
	d.pass()
	if err := d.set(fault.Options{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	d.pass()
	if n, err := unix.Read(far, make([]byte, 4)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("read %d bytes, %v; want nothing", n, err)
	}
}

// TestEfficiency compares efficiency with values of Stallings' formula, N = (1-P+KP)/(1-P). With a
// window of 1, go-back-N sends only the lost frame again.
func TestEfficiency(t *testing.T) {
	for _, c := range []struct{ p, w, want float64 }{{0, 700, 1}, {0.01, 1, 0.99}, {0.5, 1, 0.5}, {0.01, 100, 0.99 / 1.99}, {1, 5, 0}} {
		if got := efficiency(c.p, c.w); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("efficiency(%v, %v) = %v; want %v", c.p, c.w, got, c.want)
		}
	}
}

// TestWanFrame computes the frames of a 4 KiB packet: three with an MTU of 1500 bytes, and one with
// an MTU of 9000 bytes.
func TestWanFrame(t *testing.T) {
	for _, c := range []struct {
		mtu    int
		frames float64
	}{{1500, 3}, {9000, 1}} {
		payload, onWire, window := wanFrame(c.mtu)
		if payload*c.frames != wanSize || onWire > float64(c.mtu-udpBytes) || window < 200 {
			t.Errorf("mtu %d: %v bytes in frames of %v, window %v; want %v frames", c.mtu, payload, onWire, window, c.frames)
		}
	}
}

// TestGoBackN checks which figures the theory's curve uses: the link's goodput without loss, and the
// median of the link's pings, of the same round.
func TestGoBackN(t *testing.T) {
	rs := []result{
		{Kind: "tcp", Unit: "Gb/s", Value: 9, Size: wanSize, Delay: 100},
		{Kind: "ttlink-fast", Unit: "µs", Value: 200, Size: 64, Delay: 100},
		{Kind: "ttlink-fast", Unit: "µs", Value: 999, Size: 64, Delay: 100},
		{Kind: "ttlink-fast", Unit: "Gb/s", Value: 1, Size: wanSize, Delay: 100},
		{Kind: "ttlink-fast", Unit: "Gb/s", Value: 0.1, Size: wanSize, Delay: 100, Loss: 1},
	}
	payload, _, _ := wanFrame(1500)
	w := 1e9 * 200e-6 / 8 / payload
	for _, r := range goBackN(rs, 3, 1500) {
		if r.Kind != theory {
			continue
		}
		want := efficiency(r.Loss/100, w)
		if r.Unit == "frames" {
			want = w
		}
		if math.Abs(r.Value-want) > 1e-9 || r.Round != 3 {
			t.Errorf("%+v; want %v in round 3", r, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 2}, 2}} {
		if got := median(c.v); got != c.want {
			t.Errorf("median(%v) = %v; want %v", c.v, got, c.want)
		}
	}
}

func TestNatural(t *testing.T) {
	in := []string{"goodput 64 B", "goodput 256 B", "goodput 1024 B", "round trip", "wire of 0 ms, 1 %", "wire of 0.1 ms", "wire of 5 ms"}
	for i := range in {
		for j := range in {
			if got := natural(in[i], in[j]); got != cmp.Compare(i, j) {
				t.Errorf("natural(%q, %q) = %d", in[i], in[j], got)
			}
		}
	}
}

// ofEveryKind returns a report with at least one figure for every plot.
func ofEveryKind() *report {
	p := &report{Machine: facts()}
	for round, v := range []float64{1, 2} {
		for _, size := range []int{64, 4096} {
			p.Results = append(p.Results, result{Bench: "goodput", Kind: "udp", Unit: "Gb/s", Round: round, Value: v, Size: size})
			p.Results[len(p.Results)-1].Bench = "goodput " + map[int]string{64: "64 B", 4096: "4096 B"}[size]
		}
		var wire []result
		for _, loss := range []float64{0, 5} {
			wire = append(wire, result{Bench: "wire of 0 ms, 4096 B", Kind: "ttlink-fast", Unit: "Gb/s", Round: round, Value: v / (1 + loss), Size: wanSize, Loss: loss})
			p.Results = append(p.Results, result{Bench: "loopback, 4096 B", Kind: "tcp", Unit: "Gb/s", Round: round, Value: 0, Size: wanSize, Loss: loss})
		}
		wire = append(wire, result{Bench: "wire of 0 ms, round trip 64 B p50", Kind: "ttlink-fast", Unit: "µs", Round: round, Value: v, Size: 64})
		p.add(wire...)
		p.add(goBackN(wire, round, 1500)...)
		p.add(figure("round trip 64 B, one core p50", "udp-c", "µs", round, v), figure("round trip 64 B, one core p99", "udp-c", "µs", round, 2*v),
			figure("blocks of 1 MiB", "session, 1 hop", "Gb/s", round, v), figure("blocks of 1 MiB", "tcp, writes of 64 KiB", "Gb/s", round, v))
	}
	return p
}

// TestSaveLoad writes a report and reads the report again. The report must be unchanged.
func TestSaveLoad(t *testing.T) {
	p := ofEveryKind()
	name := filepath.Join(t.TempDir(), "x.json")
	if err := p.save(name); err != nil {
		t.Fatal(err)
	}
	q, err := load(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Results) != len(p.Results) || q.Results[0] != p.Results[0] || q.Machine != p.Machine {
		t.Errorf("read %+v; want what was saved", q)
	}
}

// TestShare compares the goodput of links with the goodput of raw datagrams. If the median of the
// rounds' ratios is below the wanted share, share must return an error.
func TestShare(t *testing.T) {
	rounds := func(ours, theirs []float64) *report {
		p := &report{}
		for i := range ours {
			p.add(figure("bridge", "ours", "Gb/s", i, ours[i]), figure("bridge", "theirs", "Gb/s", i, theirs[i]), figure("elsewhere", "ours", "Gb/s", i, 0))
		}
		return p
	}
	for _, c := range []struct {
		ours, theirs []float64
		good         bool
	}{
		{[]float64{5, 6, 7}, []float64{10, 10, 10}, true},
		{[]float64{4, 4, 9}, []float64{10, 10, 10}, false},
		{[]float64{5}, []float64{10}, true},
		{[]float64{0, 0, 0}, []float64{10, 10, 10}, false},
		{nil, nil, true}, // kinds that were left out
	} {
		if err := rounds(c.ours, c.theirs).share("bridge", "ours", "theirs", 0.5); (err == nil) != c.good {
			t.Errorf("%v of %v: %v; want good=%v", c.ours, c.theirs, err, c.good)
		}
	}
}
