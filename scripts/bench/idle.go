package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/session"
	"ttfabric/node/traffic"
)

// ticksPerSecond is USER_HZ on every Linux that Go runs on.
const ticksPerSecond = 100

// idleTime is the time for which the idle fabric is watched.
const idleTime = 20 * time.Second

// fabricOf brings a machine up, with a process for each chip, and runs f on the fabric.
func fabricOf(ttfabric, machine string, f func(fab *fabric.Fabric, up time.Duration) error) error {
	return fabricWith(ttfabric, []string{machine}, f)
}

// fabricWith runs 'up' with the arguments "machine", and then runs f on the fabric. The function f
// gets the time that bringing up the fabric took. At the end, fabricWith takes the fabric down.
func fabricWith(ttfabric string, machine []string, f func(fab *fabric.Fabric, up time.Duration) error) error {
	name := fmt.Sprintf("bench-%d", os.Getpid())
	up := exec.Command(ttfabric, append([]string{"up", "-d", "--name", name, "-o", "json"}, machine...)...)
	up.Stderr = os.Stderr
	defer exec.Command(ttfabric, "down", "--name", name).Run()
	out, err := up.Output()
	if err != nil {
		return fmt.Errorf("up %s: %w", strings.Join(machine, " "), err)
	}
	var r struct {
		Seconds float64 `json:"seconds"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("up %s: %w", strings.Join(machine, " "), err)
	}
	fab, err := fabric.Open(context.Background(), name)
	if err != nil {
		return err
	}
	return f(fab, time.Duration(r.Seconds*float64(time.Second)))
}

// idleCost returns the cost of a fabric that does nothing. The cost is the processor time of all
// chips in percent of a core, and the memory (PSS) per chip in MiB.
func idleCost(f *fabric.Fabric, watch time.Duration) (cpu, mem float64, err error) {
	chips := len(f.Topology.Chips)
	a, n, err := cpuTicks(f)
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(watch)
	b, m, err := cpuTicks(f)
	if err != nil {
		return 0, 0, err
	}
	if n != chips || m != chips {
		return 0, 0, fmt.Errorf("%d and %d of %d chips were running", n, m, chips)
	}
	pss, err := pssKiB(f)
	return float64(b-a) / ticksPerSecond / watch.Seconds() * 100, float64(pss) / 1024 / float64(chips), err
}

// idle measures the cost of 32 chips that do nothing, before any traffic and after traffic.
func idle(ttfabric string, round int) (rs []result, err error) {
	return rs, fabricOf(ttfabric, "mesh:4x8", func(f *fabric.Fabric, _ time.Duration) error {
		time.Sleep(10 * time.Second)
		cpu, mem, err := idleCost(f, idleTime)
		if err != nil {
			return err
		}
		if _, err := gbpsOf(ttfabric, f, 50000); err != nil {
			return err
		}
		time.Sleep(20 * time.Second) // time in which the chips give back idle memory
		later, after, err := idleCost(f, idleTime)
		rs = append(rs,
			figure("idle CPU of 32 chips in sum", "before traffic", "% of a core", round, cpu),
			figure("idle CPU of 32 chips in sum", "after traffic", "% of a core", round, later),
			figure("idle memory (PSS) per chip", "before traffic", "MiB", round, mem),
			figure("idle memory (PSS) per chip", "after traffic", "MiB", round, after))
		return err
	})
}

// trafficOf runs verified traffic of a pattern. A run that lost packets also has a result, see
// [traffic.Result.OK].
func trafficOf(ttfabric string, f *fabric.Fabric, pattern string, packets int, flags ...string) (r traffic.Result, err error) {
	args := []string{"traffic", pattern, "--packets", fmt.Sprint(packets), "--name", f.Name(), "-o", "json"}
	out, err := exec.Command(ttfabric, append(args, flags...)...).Output()
	if bad := json.Unmarshal(out, &r); bad != nil { // with exit code 5, the command still prints figures
		return r, fmt.Errorf("traffic: %w", cmp.Or(err, bad))
	}
	return r, nil
}

// gbpsOf returns the goodput of verified all-to-all traffic, in Gb/s over all chips. If any packet
// did not arrive exactly once, whole and in order, gbpsOf returns an error.
func gbpsOf(ttfabric string, f *fabric.Fabric, packets int, flags ...string) (float64, error) {
	r, err := trafficOf(ttfabric, f, "all-to-all", packets, flags...)
	if err == nil && !r.OK() {
		err = fmt.Errorf("traffic: not every packet arrived exactly once: %+v", r.Total)
	}
	return r.Total.Gbps, err
}

// growths lists the machines that the measurement "growth" compares, from 4 processes to 64.
var growths = []struct {
	machine string
	chips   int
}{{"mesh:2x2", 4}, {"mesh:2x4", 8}, {"mesh:4x4", 16}, {"mesh:4x8", 32}, {"mesh:8x8", 64}}

// Constants of the measurement "growth": the beginning of the names of its figures, and the numbers
// of packets and pings for each machine.
const (
	growthPrefix  = "growth, "
	growthPackets = 50000
	growthPings   = 200
)

// growth measures fabrics of more and more processes on the same cores.
func (b *bench) growth(round int, r *rand.Rand) error {
	if b.ttfabric == "" {
		return errors.New("-only growth needs the program ttfabric; scripts/bench/run builds the program")
	}
	for _, i := range r.Perm(len(growths)) {
		g := growths[i]
		add := func(what, unit string, v float64) {
			f := figure(growthPrefix+what, g.machine, unit, round, v)
			f.Size = g.chips
			b.add(f)
		}
		err := fabricOf(b.ttfabric, g.machine, func(fab *fabric.Fabric, up time.Duration) error {
			add("up to all links up", "s", up.Seconds())
			time.Sleep(12 * time.Second) // for ten of these seconds, gossip still tells which chips have joined
			cpu, mem, err := idleCost(fab, 10*time.Second)
			if err != nil {
				return err
			}
			add("idle CPU in sum", "% of a core", cpu)
			add("memory (PSS) per chip", "MiB", mem)
			p50, err := pingOf(fab)
			if err != nil {
				return err
			}
			add("ping corner to corner, p50", "µs", p50)
			gbps, err := gbpsOf(b.ttfabric, fab, growthPackets)
			if err != nil {
				return err
			}
			add("all-to-all", "Gb/s", gbps)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pingOf returns the median round trip from the first chip to the last, on the first plane, in
// microseconds.
func pingOf(f *fabric.Fabric) (float64, error) {
	nodes := f.Topology.Nodes()
	s, err := f.Session(nodes[0])
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d, err := medianPing(ctx, s, nodes[len(nodes)-1], growthPings, session.OnPlane(0))
	return us(d), err
}

// cpuTicks returns the processor time of a fabric's chips in ticks of USER_HZ, and the number of
// running chips.
func cpuTicks(f *fabric.Fabric) (sum uint64, n int, err error) {
	chips := f.Running()
	for _, c := range chips {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID))
		if err != nil {
			return 0, 0, err
		}
		f := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:])
		if len(f) < 13 {
			return 0, 0, errors.New("/proc/PID/stat is short")
		}
		u, _ := strconv.ParseUint(f[11], 10, 64)
		s, _ := strconv.ParseUint(f[12], 10, 64)
		sum += u + s
	}
	return sum, len(chips), nil
}

// pssKiB returns the memory (PSS) of a fabric's chips, in KiB.
func pssKiB(f *fabric.Fabric) (sum uint64, err error) {
	for _, c := range f.Running() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", c.PID))
		if err != nil {
			return 0, err
		}
		for _, l := range strings.Split(string(b), "\n") {
			var k uint64
			if _, err := fmt.Sscanf(l, "Pss: %d kB", &k); err == nil {
				sum += k
			}
		}
	}
	return sum, nil
}
