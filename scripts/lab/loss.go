package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"strings"

	"ttfabric/node/traffic"
)

// Figures of the trials with nftables and token buckets.
const (
	lossShare = .02
	limitMbit = 40
	// sigmas is the largest allowed difference between a counted number, such as the dropped
	// datagrams, and the expected number, in standard deviations. By chance alone, a larger
	// difference happens once in two million cases.
	sigmas = 5
)

// loss degrades the cable with nftables and with token buckets, which every kernel has, and checks
// the effects. Then loss cuts cables of the idle fabric.
func (l *lab) loss() error {
	if err := l.start("--offload", "off"); err != nil { // without offload, a rule sees single datagrams
		return err
	}
	for _, x := range []struct {
		name string
		f    func() error
	}{{"nftables drops 2 % of one cable's datagrams", l.nftLoss}, {"a token bucket limits one cable (htb)", l.bucket}, {"a token bucket limits the interface (tbf)", l.tbf}, {"nftables limits the rate and drops the rest", l.nftLimit}} {
		if err := x.f(); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		say("ok: %s", x.name)
	}
	return l.cuts()
}

// The method "in" runs a command in the namespace of chip i.
func (l *lab) in(i int, command string) (out []byte, err error) {
	return out, inside(l.spaces[i], func() error {
		f := strings.Fields(command)
		out, err = exec.Command(f[0], f[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, out)
		}
		return nil
	})
}

// script runs commands in the namespace of chip i, until a command fails.
func (l *lab) script(i int, commands ...string) error {
	for _, c := range commands {
		if _, err := l.in(i, c); err != nil {
			return err
		}
	}
	return nil
}

// cablePort returns the UDP port of the degraded cable at chip i.
func cablePort(i int) int { return portBase + 8 - 8*i }

// The function "within" checks a count of random events, such as drops. The event has the
// probability "share" in each of n trials, and happened "got" times. If got differs from n × share
// by more than sigmas standard deviations plus 1, within returns an error. The argument "spread"
// multiplies the variance: 1 if the trials are independent, more if events come in bursts.
func within(what string, got, n uint64, share, spread float64) error {
	mean, dev := float64(n)*share, sigmas*math.Sqrt(float64(n)*share*(1-share)*spread)
	if math.Abs(float64(got)-mean) > dev+1 {
		return fmt.Errorf("%s: %d of %d, want %.0f ± %.0f", what, got, n, mean, dev)
	}
	return nil
}

// balance compares the number of dropped datagrams with the link's counters. The counters give the
// number of lost data frames: the frames sent again, less the frames that arrived behind a gap or
// twice. The other dropped datagrams were sequence updates, which a link does not send again.
// balance returns an error if the number of lost data frames is below least × dropped or above
// dropped. Both limits have a tolerance, because frames may be under way when the counters are
// read.
func (e *effect) balance(dropped uint64, least float64) error {
	g := e.grown[0]
	lost := float64(g["retransmitted"]) - float64(g["gaps"]+g["duplicates"])
	const underWay = 10 // largest number of frames under way when the counters were read
	if lost < least*float64(dropped)-underWay || lost > float64(dropped)+underWay {
		return fmt.Errorf("%d frames sent again, %d received behind gaps, %d received twice: %.0f data frames lost, want %.0f to %d", g["retransmitted"], g["gaps"], g["duplicates"], lost, least*float64(dropped), dropped)
	}
	return nil
}

// untouched returns an error if a frame was lost on the other cable, or if that cable carried fewer
// than 100 frames.
func (e *effect) untouched() error {
	g := e.grown[1]
	if g["frames_received"] < 100 {
		return fmt.Errorf("the other cable carried only %d frames; want at least 100", g["frames_received"])
	}
	if g["gaps"] > 0 || g["retransmitted"] != g["duplicates"] { // on a busy machine, a link may send a frame again that was not lost
		return fmt.Errorf("the other cable has %d retransmissions, %d gaps, %d duplicates", g["retransmitted"], g["gaps"], g["duplicates"])
	}
	return nil
}

// nftLoss drops datagrams at random, and repeats the run if a link went down.
func (l *lab) nftLoss() error {
	return l.again(func() error {
		for i := range l.spaces {
			err := l.script(i, "nft add table inet lab",
				"nft add chain inet lab in { type filter hook input priority 0 ; }",
				fmt.Sprintf("nft add rule inet lab in udp dport %d counter", cablePort(i)),
				fmt.Sprintf("nft add rule inet lab in udp dport %d numgen random mod 1000 < %d counter drop", cablePort(i), int(lossShare*1000)))
			if err != nil {
				return err
			}
		}
		return errors.Join(l.nftLossOnce(), l.tableless())
	})
}

// tableless removes the table of the trials from the packet filters of both namespaces.
func (l *lab) tableless() error {
	for i := range l.spaces {
		if err := l.script(i, "nft delete table inet lab"); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) nftLossOnce() error {
	e, err := l.measure(func() (traffic.Result, error) { return l.traffic(6000, 4096, 0) })
	if err != nil {
		return err
	}
	var seen, dropped uint64
	for i := range l.spaces {
		n, err := l.nftCounters(i)
		if err != nil {
			return err
		}
		seen, dropped = seen+n[0], dropped+n[1]
	}
	g := e.grown[0]
	say("   %d datagrams, %d dropped; the link counted %d gaps, %d frames sent again, %d frames received twice", seen, dropped, g["gaps"], g["retransmitted"], g["duplicates"])
	if err := e.balance(dropped, .7); err != nil {
		return err
	}
	if err := within("dropped", dropped, seen, lossShare, 1); err != nil {
		return err
	}
	return e.untouched()
}

// nftCounters reads the two counters of chip i's nftables table. The first counts the datagrams that
// came for the degraded cable, and the second counts the dropped datagrams among them.
func (l *lab) nftCounters(i int) (out []uint64, err error) {
	b, err := l.in(i, "nft -j list table inet lab")
	if err != nil {
		return nil, err
	}
	var v struct {
		Nftables []struct {
			Rule *struct {
				Expr []struct {
					Counter *struct{ Packets uint64 }
				}
			}
		}
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	for _, x := range v.Nftables {
		if x.Rule == nil {
			continue
		}
		for _, e := range x.Rule.Expr {
			if e.Counter != nil {
				out = append(out, e.Counter.Packets)
			}
		}
	}
	if len(out) != 2 {
		return nil, fmt.Errorf("%d counters, want 2: %s", len(out), b)
	}
	return out, nil
}

// limited sends traffic both ways between the chips, on plane 0 only, which is the degraded cable.
// limited compares the payload rate of one direction with limitMbit. The rate must not exceed
// limitMbit. In at least one of several tries, the rate must reach least × limitMbit. On a busy
// machine, the rate of a single try may be lower.
func (l *lab) limited(least float64) error {
	for n := 1; ; n++ {
		mbit, err := l.limitedOnce()
		switch {
		case err != nil:
			return err
		case mbit > limitMbit || mbit < least*limitMbit && n == tries:
			return fmt.Errorf("%.1f Mbit/s came through, want %.0f to %d", mbit, least*limitMbit, limitMbit)
		case mbit >= least*limitMbit:
			return nil
		}
	}
}

func (l *lab) limitedOnce() (mbit float64, err error) {
	const packets, size = 1200, 4096
	err = l.again(func() error {
		e, err := l.measure(func() (traffic.Result, error) { return l.traffic(packets, size, 1) })
		if err == nil {
			mbit = float64(packets/2*size) * 8 / e.run.Seconds / 1e6
			say("   %.1f Mbit/s of payload each way (limit %d Mbit/s); round trip %.1f ms, %d frames sent again", mbit, limitMbit, e.rtt[0]/1e3, e.grown[0]["retransmitted"])
		}
		return err
	})
	return mbit, err
}

func (l *lab) bucket() error {
	for i := range l.spaces {
		err := l.script(i, "tc qdisc add dev eth0 root handle 1: htb default 2",
			fmt.Sprintf("tc class add dev eth0 parent 1: classid 1:1 htb rate %dmbit burst 20kb", limitMbit), "tc class add dev eth0 parent 1: classid 1:2 htb rate 10gbit",
			fmt.Sprintf("tc filter add dev eth0 parent 1: protocol ip u32 match ip sport %d 0xffff classid 1:1", cablePort(i)))
		if err != nil {
			return err
		}
	}
	if err := l.limited(.6); err != nil {
		return err
	}
	return l.bare()
}

// bare removes the root qdiscs of eth0 in both namespaces.
func (l *lab) bare() error {
	for i := range l.spaces {
		if err := l.script(i, "tc qdisc del dev eth0 root"); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) tbf() error {
	for i := range l.spaces {
		if err := l.script(i, fmt.Sprintf("tc qdisc add dev eth0 root tbf rate %dmbit burst 20kb latency 400ms", limitMbit)); err != nil {
			return err
		}
	}
	if err := l.limited(.6); err != nil {
		return err
	}
	return l.bare()
}

func (l *lab) nftLimit() error {
	// The rule limits the number of datagrams per second, computed for datagrams of 1500 bytes.
	// With a limit in bytes per second, nftables would first let a burst of a whole second's bytes
	// pass.
	for i := range l.spaces {
		err := l.script(i, "nft add table inet lab", "nft add chain inet lab in { type filter hook input priority 0 ; }",
			fmt.Sprintf("nft add rule inet lab in udp dport %d limit rate over %d/second burst 32 packets drop", cablePort(i), limitMbit*1000_000/8/1500))
		if err != nil {
			return err
		}
	}
	if err := l.limited(.1); err != nil {
		return err
	}
	return l.tableless()
}
