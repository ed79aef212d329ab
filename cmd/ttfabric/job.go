package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// jobRow describes one chip's part of a running job.
type jobRow struct {
	Chip    wire.FabricNodeID `json:"chip"`           // chip on which the kernels run
	Job     kernel.JobID      `json:"job"`            // number of the job
	Name    string            `json:"name,omitempty"` // name of the job
	Chips   int               `json:"chips"`          // number of chips of the job
	Strict  bool              `json:"strict"`         // strict job: the base firmware of a kernel's ethernet tile works only inside RunRouting
	Kernels []string          `json:"kernels"`        // kernels that run on the chip, as name@tile
}

func newJob() *cobra.Command {
	c := &cobra.Command{Use: "job", Short: "List and stop jobs of kernels",
		Long: `A job has programs on one or more chips. The chips start their first programs at about
the same time. The programs of one chip run one after another. If the job fails on one
chip, or somebody stops the job, the job ends on all chips. A program is a set of
kernels, which run on the tiles of a chip. 'bench ring --kernels' starts a job.
A Go program that runs as a chip ('up --program', 'run --as-chip') can also start a job.
While a kernel runs on an ethernet tile, the tile's base firmware still serves hosts. If
the job is strict, the firmware works only while the tile's kernel calls RunRouting.`,
		Example: "  ttfabric job ls\n  ttfabric job stop 4711"}
	c.AddCommand(newJobList(), newJobStop())
	return c
}

func newJobList() *cobra.Command {
	return &cobra.Command{Use: "ls", Short: "List the jobs that run", Args: cobra.NoArgs, Example: "  ttfabric job ls -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			fab, err := openFabric(c)
			if err != nil {
				return err
			}
			cs, _, err := fab.Clients()
			if err != nil {
				return err
			}
			rows := []jobRow{}
			for _, a := range fabric.JobsOf(c.Context(), cs) {
				if a.Err != nil {
					return a.Err
				}
				for _, j := range a.Value.Jobs {
					rows = append(rows, jobRow{a.Chip, j.Job, j.Name, max(1, len(j.Chips)), j.Strict, j.Kernels})
				}
			}
			if f == "json" {
				return printJSON(c, rows)
			}
			tw := newTable(c, "Job", "Name", "Chip", "Firmware", "Kernels")
			slices.SortStableFunc(rows, func(a, b jobRow) int { return int(a.Job - b.Job) })
			for _, r := range rows {
				firmware := "always"
				if r.Strict {
					firmware = "in RunRouting"
				}
				tw.AppendRow(table.Row{r.Job, r.Name, r.Chip, firmware, strings.Join(r.Kernels, " ")})
			}
			tw.Render()
			return nil
		}}
}

func newJobStop() *cobra.Command {
	return &cobra.Command{Use: "stop JOB", Short: "Stop a job on all its chips", Args: cobra.ExactArgs(1), Example: "  ttfabric job stop 4711",
		RunE: func(c *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return spec.Usagef("job %q is not the number of a job; 'ttfabric job ls' lists the numbers of the jobs", args[0])
			}
			fab, err := openFabric(c)
			if err != nil {
				return err
			}
			cs, _, err := fab.Clients()
			if err != nil {
				return err
			}
			n := fabric.StopJob(cs, kernel.JobID(id), "ttfabric job stop")
			if n == 0 {
				return fmt.Errorf("job %d does not run on any chip; 'ttfabric job ls' lists the jobs", id)
			}
			fmt.Fprintf(c.OutOrStdout(), "Job %d is stopped on %s.\n", id, topo.Count(n, "chip"))
			return nil
		}}
}
