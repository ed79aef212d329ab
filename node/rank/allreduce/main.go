// Command allreduce is a rank that adds numbers with all other ranks, checks the sums, and times the
// operation. If 'ttfabric run' has the flag --keep-ranks, the ranks that are left go on when a chip dies.
//
//	ttfabric run --up mesh:2x2 ./allreduce -bytes 8,1048576            # the ranks run beside their chips
//	ttfabric run --up mesh:2x2 --as-chip ./allreduce -bytes 8,1048576  # each rank is its chip
//	ttfabric run --up mesh:2x2 ./allreduce -means edm                  # by the CCL guide's kernels
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/kernel/shipped"
	"ttfabric/node/process"
	"ttfabric/node/rank"
	"ttfabric/node/rank/launched"
	"ttfabric/node/session"
	"ttfabric/node/session/collective"
)

func main() {
	if os.Getenv(launched.Env) != "" {
		process.Main(run, shipped.Kernels)
	}
	if err := run(context.Background(), nil); err != nil {
		fmt.Fprintln(os.Stderr, "allreduce:", err)
		os.Exit(1)
	}
}

// run measures. If the rank is its chip, s is the session of the chip, and else nil.
func run(ctx context.Context, s *session.Session) error {
	sizes := flag.String("bytes", "8,65536", "sizes of the data of each rank in bytes, multiples of 4, with commas")
	means := flag.String("means", "fabric", "what moves the data: fabric, or edm for the CCL guide's workers and ERISC data movers")
	rounds := flag.Int("rounds", 20, "timed operations for each size")
	profile := flag.String("cpuprofile", "", "file for the CPU profile of rank 0")
	flag.Parse()
	me, err := rank.Attach(ctx)
	if err != nil {
		return err
	}
	defer me.Close()
	if s == nil {
		s = me.Session
	}
	by, err := collective.ParseMeans(*means)
	if err != nil {
		return err
	}
	c, err := collective.New(ctx, s, collective.Options{Chips: me.Chips, Means: by, Meet: me.Barrier})
	if err != nil {
		return err
	}
	if *profile != "" && me.Rank == 0 {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			return fmt.Errorf("-cpuprofile: %w", err)
		}
		defer f.Close()
		defer pprof.StopCPUProfile()
	}
	var todo []int
	for _, text := range strings.Split(*sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < 4 || size%4 != 0 {
			return fmt.Errorf("-bytes %s: want multiples of 4, such as 8,65536", *sizes)
		}
		todo = append(todo, size)
	}
	for i := 0; i < len(todo); {
		took, err := measure(ctx, c, todo[i], *rounds)
		if err == nil && i == len(todo)-1 {
			err = c.Barrier(ctx) // no rank ends while another rank may need it
		}
		var dead *collective.DeadError
		if errors.As(err, &dead) {
			if c, i, err = shrink(ctx, c, i); err != nil {
				return err
			}
			fmt.Printf("chip %s is dead; rank %d of %d continues\n", dead.Chip, c.Rank(), c.Size())
			continue
		}
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Printf("%d ranks, %d bytes: %.1f µs\n", c.Size(), todo[i], took.Seconds()*1e6)
		}
		i++
	}
	c.Close()
	return nil
}

// shrink returns a communicator of the ranks that are left, and the step at which all of them go on. If a
// chip dies at the end of a step, some ranks have ended this step, and others have not. All ranks then go
// on with the earliest step.
func shrink(ctx context.Context, c *collective.Comm, step int) (*collective.Comm, int, error) {
	for {
		var err error
		if c, err = c.Shrink(ctx); err != nil {
			return nil, 0, err
		}
		var b [4]byte
		binary.LittleEndian.PutUint32(b[:], uint32(step))
		err = c.AllReduce(ctx, collective.Min, collective.Int32, b[:], b[:])
		var dead *collective.DeadError
		if !errors.As(err, &dead) {
			return c, int(binary.LittleEndian.Uint32(b[:])), err
		}
	}
}

// measure returns the mean time of an all-reduce of a size. All sums must be right.
func measure(ctx context.Context, c *collective.Comm, size, rounds int) (time.Duration, error) {
	in, out := make([]byte, size), make([]byte, size)
	want := float32(c.Size() * (c.Size() + 1) / 2)
	for i := 0; i < size; i += 4 {
		binary.LittleEndian.PutUint32(in[i:], math.Float32bits(float32(c.Rank()+1)))
	}
	var begin time.Time
	warm := rounds/4 + 1
	for i := range rounds + warm {
		if i == warm {
			if err := c.Barrier(ctx); err != nil {
				return 0, err
			}
			begin = time.Now()
		}
		if err := c.AllReduce(ctx, collective.Sum, collective.Float32, in, out); err != nil {
			return 0, err
		}
	}
	took := time.Since(begin) / time.Duration(rounds)
	for i := 0; i < size; i += 4 {
		if got := math.Float32frombits(binary.LittleEndian.Uint32(out[i:])); got != want {
			return 0, fmt.Errorf("rank %d: sum %d is %v, want %v", c.Rank(), i/4, got, want)
		}
	}
	return took, nil
}
