// Command allreduce is a rank that adds numbers with all other ranks, checks the sums, and times the
// operation. With -op, the ranks perform another operation instead. If 'ttfabric run' has the flag
// --keep-ranks, the ranks that are left go on when a chip dies.
//
//	ttfabric run --up mesh:2x2 ./allreduce -bytes 8,1048576            # the ranks run beside their chips
//	ttfabric run --up mesh:2x2 --as-chip ./allreduce -bytes 8,1048576  # each rank is its chip
//	ttfabric run --up mesh:2x2 ./allreduce -means edm                  # by kernels and ERISC data movers
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
	"ttfabric/wire"
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

// profiled writes the CPU profile of this process into a file, until the caller calls the result.
func profiled(file string) (end func(), err error) {
	f, err := os.Create(file)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		return nil, fmt.Errorf("-cpuprofile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}, nil
}

// sizesOf returns the sizes that the flag -bytes lists.
func sizesOf(list string) (sizes []int, err error) {
	for _, text := range strings.Split(list, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < 4 || size%4 != 0 {
			return nil, fmt.Errorf("-bytes %s: want multiples of 4, such as 8,65536", list)
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

// run measures. If the rank is its chip, s is the session of the chip, and else nil.
func run(ctx context.Context, s *session.Session) error {
	name := flag.String("op", "all-reduce", "operation: all-reduce, all-gather, all-to-all, or write: single writes from rank 0 to rank 1")
	sizes := flag.String("bytes", "8,65536", "sizes in bytes, multiples of 4, with commas: of the data of each rank, or for all-to-all of the data from each rank to each rank")
	means := flag.String("means", "fabric", "what moves the data: fabric, or edm for kernels and ERISC data movers")
	rounds := flag.Int("rounds", 20, "timed operations for each size")
	links := flag.Int("links", 1, "number of planes that carry the data")
	profile := flag.String("cpuprofile", "", "file for the CPU profile of rank 0")
	flag.Parse()
	if _, ok := operations[*name]; !ok && *name != "write" {
		return fmt.Errorf("-op %s: want all-reduce, all-gather, all-to-all or write", *name)
	}
	todo, err := sizesOf(*sizes)
	if err != nil {
		return err
	}
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
	c, err := collective.New(ctx, s, collective.Options{Chips: me.Chips, Links: *links, Means: by, Meet: me.Barrier})
	if err != nil {
		return err
	}
	if *profile != "" && me.Rank == 0 {
		end, err := profiled(*profile)
		if err != nil {
			return err
		}
		defer end()
	}
	for i := 0; i < len(todo); {
		var took time.Duration
		if *name == "write" {
			took, err = writes(ctx, s, c, todo[i], *rounds)
		} else {
			took, err = measure(ctx, c, *name, todo[i], *rounds)
		}
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

// operation is a measured operation.
type operation struct {
	perform func(ctx context.Context, c *collective.Comm, in, out []byte) error
	in, out int // lengths of input and output of a rank of r ranks: in + inEach·r and out + outEach·r times the size
	inEach  int
	outEach int
	want    func(from, rank, ranks int) float32 // value of all elements of the output part that belongs to rank "from"
}

// The input of a rank holds the rank's number plus 1 in all elements.
var operations = map[string]operation{
	"all-reduce": {perform: func(ctx context.Context, c *collective.Comm, in, out []byte) error {
		return c.AllReduce(ctx, collective.Sum, collective.Float32, in, out)
	}, in: 1, out: 1, want: func(_, _, ranks int) float32 { return float32(ranks * (ranks + 1) / 2) }},
	"all-gather": {perform: func(ctx context.Context, c *collective.Comm, in, out []byte) error { return c.AllGather(ctx, in, out) },
		in: 1, outEach: 1, want: func(from, _, _ int) float32 { return float32(from + 1) }},
	"all-to-all": {perform: func(ctx context.Context, c *collective.Comm, in, out []byte) error { return c.AllToAll(ctx, in, out) },
		inEach: 1, outEach: 1, want: func(from, _, _ int) float32 { return float32(from + 1) }},
}

// measure returns the mean time of an operation of a size. All results must be right.
func measure(ctx context.Context, c *collective.Comm, name string, size, rounds int) (time.Duration, error) {
	o := operations[name]
	in, out := make([]byte, size*(o.in+o.inEach*c.Size())), make([]byte, size*(o.out+o.outEach*c.Size()))
	for i := 0; i < len(in); i += 4 {
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
		if err := o.perform(ctx, c, in, out); err != nil {
			return 0, err
		}
	}
	took := time.Since(begin) / time.Duration(rounds)
	for i := 0; i < len(out); i += 4 {
		want := o.want(i/size, c.Rank(), c.Size())
		if got := math.Float32frombits(binary.LittleEndian.Uint32(out[i:])); got != want {
			return 0, fmt.Errorf("rank %d: element %d is %v, want %v", c.Rank(), i/4, got, want)
		}
	}
	return took, nil
}

// writes returns the mean time of a write of a size from rank 0 to rank 1, until rank 1's chip has
// performed the write. The other ranks wait.
func writes(ctx context.Context, s *session.Session, c *collective.Comm, size, rounds int) (took time.Duration, err error) {
	begin := time.Now()
	for range rounds {
		if c.Rank() == 0 && err == nil {
			err = s.Write(ctx, c.Chips()[1], wire.NewNocAddr(1, 1, 0x20000), make([]byte, size))
		}
	}
	return time.Since(begin) / time.Duration(rounds), errors.Join(err, c.Barrier(ctx))
}
