package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"ttfabric/node/admin/api"
	"ttfabric/node/traffic"
)

// trial is one impairment of the first cable in both directions, and the effect that this
// impairment must have.
type trial struct {
	flags   string
	planes  int // number of planes that the traffic uses; 0: both cables
	packets int
	check   func(l *lab, e *effect, k kernelState) error
}

// kernelState holds the output of 'netem show' about the first cable, summed over both ends.
type kernelState struct {
	Options        string
	Passed, Lost   uint64
	ChecksumErrors uint64 // number of UDP checksum errors in both namespaces
}

// netem degrades cables with the kernel's netem, by the command 'ttfabric netem', and checks the
// effects. If the environment variable ONLY is set, netem runs only the trials whose names contain
// its value.
func (l *lab) netem() error {
	l.window = 8 // an emulated machine is slow, and with more packets under way links would mostly send frames again
	if err := l.start(); err != nil {
		return err
	}
	say("two chips are up, with super-packets; nothing is impaired yet")
	err := l.again(func() error {
		e, err := l.measure(func() (traffic.Result, error) { return l.traffic(400, 4096, 0) })
		if err == nil {
			say("   round trip %.1f ms, %d sent again", e.rtt[0]/1e3, e.grown[0]["retransmitted"])
		}
		return err
	})
	if err != nil {
		return err
	}
	only := os.Getenv("ONLY")
	wanted := func(name string) bool { return strings.Contains(name, only) }
	for _, t := range trials {
		if !wanted(t.flags) {
			continue
		}
		if err := l.try(t); err != nil {
			return fmt.Errorf("%s: %w", t.flags, err)
		}
		say("ok: %s", t.flags)
	}
	l.stop()
	if err := l.start("--offload", "off"); err != nil {
		return err
	}
	for _, t := range bare {
		if !wanted("bare " + t.flags) {
			continue
		}
		if err := l.try(t); err != nil {
			return fmt.Errorf("without super-packets: %s: %w", t.flags, err)
		}
		say("ok: without super-packets: %s", t.flags)
	}
	if wanted("cuts") {
		if err := l.idleCuts(netemCuts); err != nil {
			return err
		}
	}
	if !wanted("rounds") {
		return nil
	}
	if err := l.rounds(); err != nil {
		return err
	}
	say("ok: changes, two cables at once, one direction, a duration, and a reset after the chips have ended")
	return nil
}

// tries is the largest number of times that a trial runs, if a link goes down each time. On an
// emulated machine that other work keeps busy, a chip may not run for a quarter of a second. The
// link then counts this time as silence, and the other cable carries the frames of both links.
const tries = 8

func (l *lab) again(f func() error) error {
	for n := 1; ; n++ {
		err := f()
		if n == tries || !errors.Is(err, errDown) {
			return err
		}
		say("   again, as %v", err)
		if out, err := l.run("router", "retrain", "all"); err != nil { // ends the holds of cables that failed or were unreliable
			return fmt.Errorf("router retrain: %w\n%s", err, out)
		}
		if err := l.settled(); err != nil {
			return err
		}
	}
}

func (l *lab) try(t trial) error {
	return l.again(func() error {
		err := l.tryOnce(t)
		if errors.Is(err, errDown) {
			if _, err := l.run("netem", "reset", "--backend", "kernel"); err != nil {
				return err
			}
		}
		return err
	})
}

// tryOnce sets the impairment, sends traffic, checks the effect, and resets the impairment. If the
// effect is wrong, tryOnce returns an error and leaves the impairment.
func (l *lab) tryOnce(t trial) error {
	args := append([]string{"netem", "set", "M0D0:8", "--backend", "kernel"}, strings.Fields(t.flags)...)
	if _, err := l.run(args...); err != nil {
		return err
	}
	wrong, err := l.checksumErrors()
	if err != nil {
		return err
	}
	e, err := l.measure(func() (traffic.Result, error) { return l.traffic(t.packets, 4096, t.planes) })
	if err != nil {
		return err
	}
	k, err := l.kernel()
	if err != nil {
		return err
	}
	after, err := l.checksumErrors()
	if err != nil {
		return err
	}
	k.ChecksumErrors = after - wrong
	g := e.grown[0]
	say("   %s: passed %d, lost %d; the link found %d damaged, UDP found %d; round trip %.1f ms; frames: %d behind gaps, %d sent again, %d twice; %.2f s", k.Options, k.Passed, k.Lost, g["bad"], k.ChecksumErrors,
		e.rtt[0]/1e3, g["gaps"], g["retransmitted"], g["duplicates"], e.run.Seconds)
	for _, f := range strings.Split(strings.TrimPrefix(t.flags, "--"), " --") {
		if want := strings.Replace(f, " ", "=", 1); !strings.Contains(k.Options, want) {
			return fmt.Errorf("the kernel reports %q, want %s", k.Options, want)
		}
	}
	before, err := l.links()
	if err != nil {
		return err
	}
	if err := t.check(l, &e, k); err != nil { // the check also sends pings
		if after, err2 := l.links(); err2 == nil {
			err = errors.Join(stayed(before, after), err)
		}
		return err
	}
	if t.planes == 0 {
		if err := e.untouched(); err != nil {
			return err
		}
	}
	if _, err := l.run("netem", "reset", "--backend", "kernel"); err != nil {
		return err
	}
	if k, err = l.kernel(); err != nil || k.Options != "" {
		return fmt.Errorf("after the reset, the impairment %q is still in force (%v)", k.Options, err)
	}
	return l.settled()
}

// kernel returns the kernel's impairment of the first cable. If the other cable is impaired, kernel
// returns an error.
func (l *lab) kernel() (k kernelState, err error) {
	var rows []api.ImpairmentView
	if err := l.runJSON(&rows, "netem", "show", "all", "--backend", "kernel"); err != nil {
		return k, err
	}
	for _, r := range rows {
		if r.Plane != 0 && r.Active {
			return k, fmt.Errorf("the other cable has the impairment %s", r.Options)
		}
		if r.Plane == 0 {
			k.Options = r.Options
			k.Passed += r.Counters["passed"]
			k.Lost += r.Counters["lost"]
		}
	}
	return k, nil
}

// checksumErrors returns the number of UDP datagrams that both namespaces dropped for a wrong
// checksum (/proc/net/snmp).
func (l *lab) checksumErrors() (sum uint64, err error) {
	for i := range l.spaces {
		b, err := l.in(i, "/init snmp")
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q: %w", b, err)
		}
		sum += n
	}
	return sum, nil
}

// pings holds figures of round trips over one cable, in milliseconds.
type pings struct{ p50, max float64 }

func (l *lab) ping(plane int) (p pings, err error) {
	var v []struct {
		Lost int     `json:"lost"`
		P50  float64 `json:"p50_microseconds"`
		Max  float64 `json:"max_microseconds"`
	}
	if err := l.runJSON(&v, "ping", "M0D0", "M0D1", "-c", "20", "--plane", strconv.Itoa(plane)); err != nil {
		return p, err
	}
	if len(v) != 1 || v[0].Lost != 0 {
		return p, fmt.Errorf("pings: %+v", v)
	}
	return pings{v[0].P50 / 1e3, v[0].Max / 1e3}, nil
}

// trips measures round trips over each cable. The median of the first cable must be from low to
// high, in milliseconds. The median of the other cable must be at most half of low. If not, trips
// returns an error. If the other cable is too slow, trips measures again, at most "tries" times,
// because other work may keep the machine busy.
func (l *lab) trips(low, high float64) (slow pings, err error) {
	var quick pings
	for range tries {
		if slow, err = l.ping(0); err != nil {
			return slow, err
		}
		if quick, err = l.ping(1); err != nil {
			return slow, err
		}
		say("   round trips of %.1f ms, at most %.1f; over the other cable %.1f ms", slow.p50, slow.max, quick.p50)
		if quick.p50 <= low/2 {
			break
		}
	}
	if slow.p50 < low || slow.p50 > high || quick.p50 > low/2 {
		return slow, fmt.Errorf("round trips take %.1f ms, want %.0f to %.0f, and over the other cable %.1f ms, want at most %.0f", slow.p50, low, high, quick.p50, low/2)
	}
	return slow, nil
}

// data returns the number of data frames sent over the degraded cable, including frames that were
// sent again.
func (e *effect) data() uint64 {
	g := e.grown[0]
	return g["frames_sent"] - g["updates_sent"] - g["hellos_sent"]
}

// slack is the largest time that a busy, emulated machine adds to a round trip, in milliseconds.
const slack = 80

// bare lists trials without super-packets. In these trials nothing is split, and the wrong bits of
// netem can lie anywhere in a frame.
var bare = []trial{
	{"--corruption 3%", 0, 800, func(_ *lab, e *effect, k kernelState) error {
		// The UDP checksum finds a wrong bit in the UDP header and in the payload. For the headers
		// before UDP, the IP checksum finds the wrong bit, or the wrong bit does no harm.
		bad := e.grown[0]["bad"] + k.ChecksumErrors
		if n := float64(k.Passed) * .03; float64(bad) < .5*n {
			return fmt.Errorf("%d of %d frames were found to be damaged, want about %.0f", bad, k.Passed, n)
		} else if err := within("damaged frames", bad, k.Passed, .03, 1); err != nil && float64(bad) > n {
			return err
		}
		return e.balance(k.Passed/20, .2)
	}},
	{"--loss 3%", 0, 600, func(_ *lab, e *effect, k kernelState) error {
		if err := within("lost", k.Lost, k.Lost+k.Passed, .03, 1); err != nil {
			return err
		}
		return e.balance(k.Lost, .5)
	}},
}

var trials = []trial{
	{"--delay 20ms", 0, 400, func(l *lab, e *effect, k kernelState) error {
		if g := e.grown[0]; k.Lost > 0 || g["gaps"] > e.data()/4 {
			return fmt.Errorf("a delay that never varies lost %d frames and made %d of %d arrive out of order", k.Lost, g["gaps"], e.data())
		}
		if _, err := l.trips(40, 40+slack); err != nil {
			return err
		}
		return e.balance(0, 1)
	}},
	{"--delay 20ms --jitter 5ms", 0, 200, func(l *lab, e *effect, k kernelState) error {
		p, err := l.trips(30, 50+slack)
		if err != nil {
			return err
		}
		if p.max-p.p50 < 2 {
			return fmt.Errorf("with 5 ms of jitter in each direction, the median of 20 round trips is %.1f ms, and none took 2 ms more", p.p50)
		}
		if g := e.grown[0]; g["gaps"] < e.data()/20 {
			return fmt.Errorf("5 ms of jitter made only %d of %d frames overtake another frame", g["gaps"], e.data())
		}
		return e.balance(k.Lost, 1)
	}},
	{"--loss 3%", 0, 1000, func(_ *lab, e *effect, k kernelState) error {
		if err := within("lost", k.Lost, k.Lost+k.Passed, .03, 1); err != nil {
			return err
		}
		return e.balance(k.Lost, .5)
	}},
	{"--loss-gemodel 1%,20%", 0, 1000, func(_ *lab, e *effect, k kernelState) error {
		// The model is in the bad state for the share 0.01/(0.01+0.2) of the time. The states of
		// two successive datagrams have the correlation 1-0.01-0.2.
		const share, memory = .01 / .21, .79
		if err := within("lost", k.Lost, k.Lost+k.Passed, share, (1+memory)/(1-memory)); err != nil {
			return err
		}
		return e.balance(k.Lost, .5)
	}},
	{"--duplicate 10%", 0, 1000, func(_ *lab, e *effect, k kernelState) error {
		g := e.grown[0]
		if k.Lost > 0 {
			return fmt.Errorf("%d lost", k.Lost)
		}
		return within("doubled", g["gaps"]+g["duplicates"]-g["retransmitted"], e.data(), .1, 1.5)
	}},
	{"--reorder 10%", 0, 500, func(_ *lab, e *effect, k kernelState) error {
		if g := e.grown[0]; g["gaps"] < e.data()/20 {
			return fmt.Errorf("only %d of %d frames overtook a delayed frame", g["gaps"], e.data())
		}
		return e.balance(k.Lost, 1)
	}},
	{"--corruption 3%", 0, 1000, func(_ *lab, e *effect, k kernelState) error {
		// The kernel's netem inverts one bit in the linear part of a packet (net/sched/sch_netem.c:
		// skb_headlen). For a super-packet that was split, the linear part is the headers. Kernels
		// therefore drop the packet, unless the bit lies in the source address of the MAC header,
		// which is six bytes of 42.
		g := e.grown[0]
		lost, n := g["retransmitted"]-g["gaps"]-g["duplicates"], e.data()
		if float64(lost) < .6*.03*float64(n) {
			return fmt.Errorf("%d of %d frames were lost, want about %.0f", lost, n, .03*float64(n)*36/42)
		}
		return within("lost", lost, n, .03*36/42, 2)
	}},
	{"--rate 10Mbit", 1, 400, func(_ *lab, e *effect, k kernelState) error {
		mbit := float64(400/2*4096) * 8 / e.run.Seconds / 1e6
		say("   %.1f Mbit/s of payload each way", mbit)
		if mbit > 10 || mbit < 1 { // an emulated machine that other work keeps busy sends less than the limit allows
			return fmt.Errorf("%.1f Mbit/s came through, want 1 to 10", mbit)
		}
		return e.balance(k.Lost, .5)
	}},
	{"--delay 15ms --reorder 20% --loss 1%", 0, 400, func(l *lab, e *effect, k kernelState) error {
		if _, err := l.trips(30, 30+slack); err != nil {
			return err
		}
		if e.grown[0]["gaps"] == 0 {
			return fmt.Errorf("nothing overtook anything")
		}
		if err := within("lost", k.Lost, k.Lost+k.Passed, .01, 1); err != nil {
			return err
		}
		return e.balance(k.Lost, .5)
	}},
}

// rounds tries further uses of 'netem'. rounds changes one option of an impairment, and impairs two
// cables of one interface. Then rounds lets an impairment end after a duration, and resets the
// cables after the chips were killed.
func (l *lab) rounds() error {
	steps := []struct{ what, args, want string }{
		{"set", "set M0D0:8 --delay 10ms --loss 1%", "delay=10ms,loss=1%"},
		{"change one thing", "set M0D0:8 --loss 0 --seed 4", "delay=10ms"},
		{"the other cable", "set M0D0:9 --delay 30ms --direction a-to-b", "delay=10ms"},
		{"one direction only", "set M0D0:8 --delay 5ms --direction b-to-a", "delay=10ms delay=5ms"},
		{"for a time", "set M0D0:8 --rate 1Gbit --duration 1s", "delay=10ms delay=5ms"},
	}
	for _, s := range steps {
		if _, err := l.run(append([]string{"netem"}, strings.Fields(s.args+" --backend kernel")...)...); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		var rows []api.ImpairmentView
		if err := l.runJSON(&rows, "netem", "show", "M0D0:8", "--backend", "kernel"); err != nil {
			return err
		}
		got := rows[0].Options
		if rows[1].Options != got {
			got += " " + rows[1].Options
		}
		if got != s.want {
			return fmt.Errorf("%s: %q is in force, want %q", s.what, got, s.want)
		}
	}
	err := l.again(func() error {
		_, err := l.measure(func() (traffic.Result, error) { return l.traffic(200, 4096, 0) })
		return err
	})
	if err != nil {
		return err
	}
	if err := l.interrupted(); err != nil {
		return err
	}
	l.stop() // kill -9: no process that is left knows the impairment
	for i, space := range l.spaces {
		if _, err := l.run("netem", "reset", "--backend", "kernel", "--netns", space); err != nil {
			return fmt.Errorf("reset after a crash: %w", err)
		}
		left := ""
		err := inside(space, func() (err error) {
			left, err = rootQdisc()
			return err
		})
		if err != nil || left != "noqueue" {
			return fmt.Errorf("after a crash and a reset namespace %d has the qdisc %q (%v), want noqueue", i, left, err)
		}
	}
	return nil
}

// interrupted ends 'netem set --duration' with Ctrl-C while the command waits. The command must then
// restore the earlier impairments.
func (l *lab) interrupted() error {
	var cmd *exec.Cmd
	err := inside(l.spaces[0], func() error {
		cmd = exec.Command(l.bin, "-n", fabricName, "netem", "set", "M0D0:9", "--loss", "9%", "--duration", "1h", "--backend", "kernel")
		cmd.Env = l.env()
		return cmd.Start()
	})
	if err != nil {
		return err
	}
	var rows []api.ImpairmentView
	for n := 0; n < 50 && (len(rows) == 0 || !strings.Contains(rows[0].Options, "loss=9%")); n++ {
		if err := l.runJSON(&rows, "netem", "show", "M0D0:9", "--backend", "kernel"); err != nil {
			return err
		}
	}
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if err := l.runJSON(&rows, "netem", "show", "M0D0:9", "--backend", "kernel"); err != nil {
		return err
	}
	if got, code := rows[0].Options, cmd.ProcessState.ExitCode(); got != "delay=30ms" || rows[1].Options != "" || code != 130 {
		return fmt.Errorf("after Ctrl-C %q and %q are in force, exit code %d; want delay=30ms, nothing, 130", got, rows[1].Options, code)
	}
	return nil
}

// rootQdisc returns the kind of the root qdisc of eth0.
func rootQdisc() (string, error) {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return "", err
	}
	qs, err := netlink.QdiscList(link)
	if err != nil {
		return "", fmt.Errorf("cannot list the qdiscs: %w", err)
	}
	if len(qs) != 1 {
		return "", fmt.Errorf("%d qdiscs: want 1", len(qs))
	}
	return qs[0].Type(), nil
}
