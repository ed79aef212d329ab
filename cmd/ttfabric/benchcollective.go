package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/collective"
	"ttfabric/node/fabric/bench"
	"ttfabric/node/output/screen"
)

func newBenchCollective() *cobra.Command {
	var run bench.CollectiveRun
	var least, most, typ, redop, scheme string
	times, root := 0, 0
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

The ranks run in this process, attached to their chips by Unix sockets.`,
		Example: "  ttfabric bench collective all-reduce -b 8 -e 64M -f 2\n  ttfabric bench collective all-gather -b 1M -e 1M --iters 5 -o json",
		RunE: func(c *cobra.Command, args []string) (err error) {
			format, err := format(c)
			if err != nil {
				return err
			}
			if run.Call, run.Sizes, err = bench.ParseCollective(args[0], typ, redop, scheme, least, most, times); err != nil {
				return err
			}
			run.Call.Root = root
			b, err := benchOn(c, &benchFlags{})
			if err != nil {
				return err
			}
			var rows []bench.CollectiveRow
			if format != "json" {
				fmt.Fprint(c.OutOrStdout(), bench.CollectiveHead(&run))
			}
			bar := screen.NewProgress(c.ErrOrStderr(), "sizes", len(run.Sizes))
			err = b.Collective(c.Context(), run, func(r bench.CollectiveRow) {
				if rows = append(rows, r); format != "json" {
					fmt.Fprint(c.OutOrStdout(), r.Line())
				}
				bar.Set(len(rows))
			})
			bar.Stop()
			if err != nil && !cutShort(c, len(rows), len(run.Sizes), "size") {
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
	c.Flags().StringVarP(&least, "minbytes", "b", "8", "smallest size in bytes, with K, M or G")
	c.Flags().StringVarP(&most, "maxbytes", "e", "16M", "largest size in bytes, with K, M or G")
	c.Flags().IntVarP(&times, "stepfactor", "f", 2, "factor between two sizes")
	c.Flags().IntVar(&run.Rounds, "iters", 20, "calls that are timed, for each size")
	c.Flags().IntVarP(&run.Warm, "warmup", "w", 5, "calls before the timed calls, for each size")
	c.Flags().StringVarP(&typ, "datatype", "d", "float", "type of the elements: float, bfloat16, int32 or uint8")
	c.Flags().StringVar(&redop, "redop", "sum", "reduction: sum, prod, min or max")
	c.Flags().StringVar(&scheme, "scheme", "auto", "how the data travel: auto, halves, both, direct or doubling")
	c.Flags().IntVarP(&root, "root", "r", 0, "rank that is the root")
	c.Flags().IntVar(&run.Links, "links", 1, "number of planes that carry the data")
	return c
}
