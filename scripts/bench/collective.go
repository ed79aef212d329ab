package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
)

// Constants of the measurement "collective".
const (
	sumRanks  = 4 // chips of the machine mesh:2x2, and processes of Open MPI
	sumRounds = 20
)

// sumSizes are the sizes of the data of each rank, in bytes.
var sumSizes = []int{8, 1 << 20}

// collectives times all-reduces of four ranks that are their chips, and the same all-reduces over Open MPI
// with TCP. Both programs check the sums.
func (b *bench) collectives(round int, r *rand.Rand) error {
	if b.ttfabric == "" || b.sums == "" {
		return errors.New("-only collective needs the programs ttfabric and allreduce; scripts/bench/run builds both")
	}
	var jobs []func() error
	for _, size := range sumSizes {
		add := func(kind string, micros float64) {
			b.add(figure(fmt.Sprintf("all-reduce, %d ranks, %d bytes", sumRanks, size), kind, "µs", round, micros))
		}
		jobs = append(jobs, func() error {
			micros, err := b.sum(size)
			if err == nil {
				add("node/session/collective", micros)
			}
			return err
		})
		if b.mpiSums != "" {
			jobs = append(jobs, func() error {
				cmd := exec.Command("mpirun", "--oversubscribe", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo", "-np", fmt.Sprint(sumRanks),
					b.mpiSums, fmt.Sprint(size), fmt.Sprint(sumRounds))
				cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					return fmt.Errorf("%s: %w", cmd, err)
				}
				var micros float64
				if _, err := fmt.Sscan(string(out), &micros); err != nil {
					return fmt.Errorf("%s printed %q: %w", cmd, out, err)
				}
				add("Open MPI", micros)
				return nil
			})
		}
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

// sum returns the mean time of an all-reduce on a fabric of its own, in µs.
func (b *bench) sum(size int) (float64, error) {
	cmd := exec.Command(b.ttfabric, "run", "--name", fmt.Sprintf("bench-sum-%d", os.Getpid()), "--up", "mesh:2x2", "--as-chip", b.sums, "-bytes", fmt.Sprint(size), "-rounds", fmt.Sprint(sumRounds))
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	for line := range strings.Lines(string(out)) {
		var ranks, bytes int
		var micros float64
		if _, err := fmt.Sscanf(line, "[0] %d ranks, %d bytes: %f µs", &ranks, &bytes, &micros); err == nil && ranks == sumRanks && bytes == size {
			return micros, nil
		}
	}
	return 0, fmt.Errorf("%s printed %q, without a time of %d ranks", cmd, out, sumRanks)
}
