package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/traffic"
	"ttfabric/router"
	"ttfabric/wire"
)

// Constants of the measurement "alltoall".
const (
	alltoallRanks = 8    // chips of the machine t3000, and processes of Open MPI
	alltoallHops  = 2.0  // mean distance of two chips of the machine t3000, in hops
	alltoallTurns = 6000 // packets of each pair of chips
	linkPackets   = 400000
)

// alltoallOpen is the number of packets that each chip keeps outstanding, by slot profile. With
// more slots, a chip keeps more packets outstanding.
var alltoallOpen = map[string]string{"spec": "128", "fast": "256"}

// alltoalls measures verified all-to-all traffic of 4 KiB packets on a T3000 with the slots of the
// specification and with slots "fast", and the same bytes over Open MPI with TCP. A program in C
// moves the same packets over the same cables with little more than the system calls. Beside the
// goodput, alltoalls reports the goodput that two cores would have if nothing else used them.
// alltoalls computes this second goodput from the processor time of all processes. So a reader can
// compare this second goodput even on a busy machine. alltoalls also reports the processor time per
// packet and hop, and for comparison the same for two chips that saturate their links.
func (b *bench) alltoalls(round int, r *rand.Rand) error {
	if b.ttfabric == "" {
		return errors.New("-only alltoall needs the program ttfabric; scripts/bench/run builds the program")
	}
	add := func(kind string, packets int, gbps, cpu float64) {
		b.add(figure("all-to-all, 8 processes", kind, "Gb/s", round, gbps),
			figure("all-to-all, 8 processes, for two cores' time", kind, "Gb/s", round, 2*float64(packets)*traffic.MaxSize*8/cpu/1e9))
	}
	traffic := func(slots, suffix string) func() error {
		return func() error {
			packets := alltoallTurns * alltoallRanks * (alltoallRanks - 1)
			gbps, cpu, err := b.costOf(packets, "t3000", slots)
			if err == nil {
				add("traffic, verified"+suffix, packets, gbps, cpu)
				b.add(figure("processor time per packet and hop", "all-to-all"+suffix, "µs", round, cpu/float64(packets)/alltoallHops*1e6))
			}
			return err
		}
	}
	jobs := []func() error{
		traffic("spec", ""),
		traffic("fast", ", slots fast"),
		func() error {
			_, cpu, err := b.costOf(linkPackets, "n300", "fast")
			if err == nil {
				b.add(figure("processor time per packet and hop", "saturated links", "µs", round, cpu/linkPackets*1e6))
			}
			return err
		},
	}
	if b.mpi != "" {
		for _, how := range []string{"collective", "window"} {
			jobs = append(jobs, func() error {
				gbps, cpu, err := openMPI(b.mpi, how, alltoallTurns)
				if err == nil {
					add("Open MPI, "+how, alltoallTurns*alltoallRanks*(alltoallRanks-1), gbps, cpu)
				}
				return err
			})
		}
	}
	if b.cables != "" {
		for _, slots := range []router.SlotProfile{router.SlotSpec, router.SlotFast} {
			jobs = append(jobs, func() error {
				gbps, cpu, err := printed(exec.Command(b.cables, fmt.Sprint(slots.Receiver[wire.VCData]), fmt.Sprint(alltoallTurns)))
				if err == nil {
					add("system calls in C, slots "+slots.Name, alltoallTurns*alltoallRanks*(alltoallRanks-1), gbps, cpu)
				}
				return err
			})
		}
	}
	if b.mpi == "" && round == 0 {
		fmt.Fprintln(os.Stderr, "the peer Open MPI is left out: this machine has no mpicc or no mpirun")
	}
	for _, i := range r.Perm(len(jobs)) {
		if err := jobs[i](); err != nil {
			return err
		}
	}
	return nil
}

// costOf brings a machine with a slot profile up, and runs verified all-to-all traffic with full
// packets. costOf returns the goodput in Gb/s, and the processor time of all chips in seconds.
func (b *bench) costOf(packets int, machine, slots string) (gbps, cpu float64, err error) {
	err = fabricWith(b.ttfabric, []string{machine, "--slots", slots}, func(f *fabric.Fabric, _ time.Duration) error {
		if _, err := gbpsOf(b.ttfabric, f, packets/20, "--window", alltoallOpen[slots]); err != nil { // a warm-up
			return err
		}
		before, _, err := cpuTicks(f)
		if err != nil {
			return err
		}
		if gbps, err = gbpsOf(b.ttfabric, f, packets, "--window", alltoallOpen[slots]); err != nil {
			return err
		}
		after, _, err := cpuTicks(f)
		cpu = float64(after-before) / ticksPerSecond
		return err
	})
	return gbps, cpu, err
}

// openMPI runs the peer. The parameter "turns" is the number of blocks that each rank sends to each
// other rank. openMPI returns the goodput in Gb/s, and the processor time of all ranks in seconds.
func openMPI(program, how string, turns int) (gbps, cpu float64, err error) {
	cmd := exec.Command("mpirun", "--oversubscribe", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", "-np", fmt.Sprint(alltoallRanks), program, how, fmt.Sprint(turns))
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	return printed(cmd)
}

// printed runs a program that prints two numbers. printed returns the goodput in Gb/s, and the
// processor time of all processes in seconds.
func printed(cmd *exec.Cmd) (gbps, cpu float64, err error) {
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", cmd, err)
	}
	if _, err := fmt.Sscan(string(out), &gbps, &cpu); err != nil {
		return 0, 0, fmt.Errorf("%s printed %q: %w", cmd, out, err)
	}
	return gbps, cpu, nil
}
