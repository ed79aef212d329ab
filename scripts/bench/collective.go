package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"

	"ttfabric/node/fabric"
)

// sumCase is a measured collective operation.
type sumCase struct {
	op      string
	machine string // machine whose chips are the ranks
	ranks   int
	size    int // bytes of the data of each rank; of an all-to-all, of the data from each rank to each rank
	rounds  int
	hops    float64 // bytes of all hops of the operation, divided by the size; 0: not needed
}

// sumCases are the operations of the measurement "collective". A ring of r ranks carries the bytes
// 2·(r-1) times for an all-reduce, and r·(r-1) times for an all-gather.
var sumCases = []sumCase{
	{"all-reduce", "mesh:2x2", 4, 8, 500, 0},
	{"all-reduce", "mesh:2x2", 4, 1 << 20, 50, 2 * 3},
	{"all-reduce", "mesh:2x2", 4, edmSize, 10, 2 * 3},
	{"all-reduce", "mesh:2x2", 4, 64 << 20, 3, 2 * 3},
	{"all-reduce", "t3000", 8, 64 << 20, 3, 2 * 7},
	{"all-gather", "t3000", 8, 1 << 20, 10, 8 * 7},
	{"all-to-all", "t3000", 8, 1 << 20, 10, 8 * 7 * alltoallHops},
}

// edmCases are the operations that kernels and ERISC data movers perform too.
var edmCases = []sumCase{
	{"all-reduce", "mesh:2x2", 4, 8, 100, 0},
	{"all-reduce", "mesh:2x2", 4, edmSize, 10, 0},
}

// Constants of the measurement "collective".
const (
	ourRanks         = "node/session/collective"
	edmRanks         = "node/session/collective, edm"
	edmSize          = 16 << 20
	sumPackets       = 100000  // packets of the traffic between neighbours
	sumLong          = 1 << 20 // smallest size in bytes for which the time is compared with the bytes × hops; the latency decides the time of smaller sizes
	sumWrites        = 2000
	sumWriteSize     = 64
	neighbourTraffic = "neighbour-exchange"
)

// name returns the name of a case in the results.
func (x *sumCase) name() string {
	return fmt.Sprintf("%s, %d ranks, %d bytes", x.op, x.ranks, x.size)
}

// collectives times operations of ranks that are their chips, and the same operations over Open MPI
// with TCP. Both programs check the results. For comparison, collectives also measures single writes
// between two of the ranks, and the goodput of traffic between neighbours. From this goodput follows
// the time that the bytes of all hops of an operation would take.
func (b *bench) collectives(round int, r *rand.Rand) error {
	if b.ttfabric == "" || b.sums == "" {
		return errors.New("-only collective needs the programs ttfabric and allreduce; scripts/bench/run builds both")
	}
	add := func(name, kind string, micros float64) { b.add(figure(name, kind, "µs", round, micros)) }
	jobs := []func() error{func() error {
		x := sumCase{op: "write", machine: "mesh:2x2", ranks: 4, size: sumWriteSize, rounds: sumWrites}
		micros, err := b.sum(&x, "fabric")
		add(fmt.Sprintf("write of %d bytes to a neighbour, until performed", sumWriteSize), ourRanks, micros)
		return err
	}}
	for _, machine := range []string{"mesh:2x2", "t3000"} {
		jobs = append(jobs, func() error {
			gbps, err := b.neighbours(machine)
			if err != nil {
				return err
			}
			b.add(figure("traffic between neighbours, "+machine, "ttfabric traffic", "Gb/s", round, gbps))
			for _, x := range sumCases {
				if x.machine == machine && x.size >= sumLong {
					add(x.name(), "its bytes × hops at the rate of traffic between neighbours", x.hops*float64(x.size)*8/gbps/1e3)
				}
			}
			return nil
		})
	}
	for _, x := range sumCases {
		jobs = append(jobs, func() error {
			micros, err := b.sum(&x, "fabric")
			add(x.name(), ourRanks, micros)
			return err
		})
		if b.mpiSums != "" {
			jobs = append(jobs, func() error {
				micros, err := b.mpiSum(&x)
				add(x.name(), "Open MPI", micros)
				return err
			})
		}
	}
	for _, x := range edmCases {
		jobs = append(jobs, func() error {
			micros, err := b.sum(&x, "edm")
			add(x.name(), edmRanks, micros)
			return err
		})
	}
	if b.mpiSums == "" && round == 0 {
		fmt.Fprintln(os.Stderr, "the peer Open MPI is left out: this machine has no mpicc or no mpirun")
	}
	for _, i := range r.Perm(len(jobs)) {
		if err := jobs[i](); err != nil {
			return err
		}
	}
	return nil
}

// neighbours returns the goodput of verified traffic between all neighbours of a machine, in Gb/s.
func (b *bench) neighbours(machine string) (gbps float64, err error) {
	err = fabricWith(b.ttfabric, []string{machine}, func(f *fabric.Fabric, _ time.Duration) error {
		r, err := trafficOf(b.ttfabric, f, neighbourTraffic, sumPackets)
		if err == nil && !r.OK() {
			err = fmt.Errorf("traffic: not every packet arrived exactly once: %+v", r.Total)
		}
		gbps = r.Total.Gbps
		return err
	})
	return gbps, err
}

// mpiSum returns the mean time of an operation over Open MPI, in µs.
func (b *bench) mpiSum(x *sumCase) (micros float64, err error) {
	cmd := exec.Command("mpirun", "--oversubscribe", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", "-np", fmt.Sprint(x.ranks),
		b.mpiSums, x.op, fmt.Sprint(x.size), fmt.Sprint(x.rounds))
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	if _, err := fmt.Sscan(string(out), &micros); err != nil {
		return 0, fmt.Errorf("%s printed %q: %w", cmd, out, err)
	}
	return micros, nil
}

// sum returns the mean time of an operation on a fabric of its own, in µs. The text "means" says what moves the data.
func (b *bench) sum(x *sumCase, means string) (float64, error) {
	cmd := exec.Command(b.ttfabric, "run", "--name", fmt.Sprintf("bench-sum-%d", os.Getpid()), "--up", x.machine, "--as-chip",
		b.sums, "-op", x.op, "-means", means, "-bytes", fmt.Sprint(x.size), "-rounds", fmt.Sprint(x.rounds))
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	for line := range strings.Lines(string(out)) {
		var ranks, bytes int
		var micros float64
		if _, err := fmt.Sscanf(line, "[0] %d ranks, %d bytes: %f µs", &ranks, &bytes, &micros); err == nil && ranks == x.ranks && bytes == x.size {
			return micros, nil
		}
	}
	return 0, fmt.Errorf("%s printed %q, without a time of %d ranks", cmd, out, x.ranks)
}
