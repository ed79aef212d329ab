package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ttfabric/node/collective"
	"ttfabric/node/fabric/bench"
	"ttfabric/node/output/screen"
)

func newBenchCollective() *cobra.Command {
	var run bench.CollectiveRun
	var o bench.CollectiveOptions
	var f benchFlags
	c := &cobra.Command{Use: "collective OPERATION", Short: "Time collective operations between all chips", Args: cobra.ExactArgs(1), ValidArgs: collective.Kinds(),
		Long: `The command performs a collective operation between all chips, and prints the table
of nccl-tests. Operations: ` + strings.Join(collective.Kinds(), ", ") + `.

  size    bytes of each rank's data; for all-gather, gather, scatter, reduce-scatter
          and all-to-all, bytes of the data of all ranks together
  time    mean time of a call, of the rank that needed longest
  algbw   size divided by time
  busbw   algbw times the factor of the operation (nccl-tests, PERFORMANCE.md)
  #wrong  number of wrong elements, of all ranks
  eff     busbw divided by the topology's bound: the rate of a link on a line, or
          twice this rate on a ring. The command first measures the rate of a link.

The last lines name the start and the time of each chip for the largest size. The
chip that began last did not wait for others. The ranks run in this process, attached
to their chips by Unix sockets. --plot FILE.svg draws busbw by size into FILE.svg, and
busbw by the number of ranks into FILE-ranks.svg.`,
		Example: "  ttfabric bench collective all-reduce -b 8 -e 64M -f 2 --plot sums.svg\n  ttfabric bench collective all-gather -b 1M -e 1M --iters 5 --ranks 2,4,8 -o json",
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := o.Apply(args[0], &run); err != nil {
				return err
			}
			format, b, err := benchOn(c, &f)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if format == "json" {
				out = nil
			}
			bar := screen.NewProgress(c.ErrOrStderr(), "sizes", run.Measurements())
			rows, err := b.CollectiveTable(c.Context(), run, out, bar.Set)
			bar.Stop()
			if err != nil && !cutShort(c, len(rows), run.Measurements(), "size") {
				return err
			}
			if err := errors.Join(writeChart(f.plot, bench.CollectiveBySize(rows)), writeChart(bench.Besides(f.plot, "ranks"), bench.CollectiveByRanks(rows))); err != nil {
				return err
			}
			text, wrong := bench.CollectiveFoot(rows)
			if err = nil; format != "json" {
				fmt.Fprint(c.OutOrStdout(), text)
			} else {
				err = printJSON(c, rows)
			}
			if wrong > 0 {
				err = &assertionError{fmt.Errorf("%d elements are wrong", wrong)}
			}
			return errors.Join(err, c.Context().Err())
		}}
	collectiveFlags(c.Flags(), &run, &o)
	c.Flags().StringVar(&f.plot, "plot", "", "also draw the results into this SVG `file`")
	return c
}

// collectiveFlags adds the flags that say what the command measures.
func collectiveFlags(fs *pflag.FlagSet, run *bench.CollectiveRun, o *bench.CollectiveOptions) {
	fs.StringVarP(&o.Least, "minbytes", "b", "8", "smallest size in bytes, with K, M or G")
	fs.StringVarP(&o.Most, "maxbytes", "e", "16M", "largest size in bytes, with K, M or G")
	fs.IntVarP(&o.Times, "stepfactor", "f", 2, "factor between two sizes")
	fs.IntVar(&run.Rounds, "iters", 20, "calls that are timed, for each size")
	fs.IntVarP(&run.Warm, "warmup", "w", 5, "calls before the timed calls, for each size")
	fs.StringVarP(&o.Type, "datatype", "d", "float", "type of the elements: float, bfloat16, int32 or uint8")
	fs.StringVar(&o.Redop, "redop", "sum", "reduction: sum, prod, min or max")
	fs.StringVar(&o.Scheme, "scheme", "auto", "how the data travel: auto, halves, both, direct or doubling")
	fs.IntVarP(&o.Root, "root", "r", 0, "rank that is the root")
	fs.IntVar(&run.Links, "links", 1, "number of planes that carry the data")
	fs.IntSliceVar(&run.Ranks, "ranks", nil, "numbers of ranks, on the first chips of the fabric; without --ranks: all chips")
	fs.StringVar(&o.Means, "means", "fabric", "what moves the data: fabric, or edm for kernels and ERISC data movers")
}
