package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"ttfabric/node/doctor"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

func newDoctor() *cobra.Command {
	var r doctor.Request
	c := &cobra.Command{
		Use: "doctor [TOPOLOGY]", Short: "Check whether this machine can run a fabric, and say how to solve problems", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		Long: `The command checks what a fabric of the given topology needs of this machine:
loopback, UDP offload, buffers, free ports, limits, memory, disk, clock, other users,
the Docker engine and its networks, kernel netem, Wireshark. The command changes nothing.

The verdict of each check is ok, warn or fail. With each warning and failure,
the command prints what you can do about the problem. A fabric runs in spite of a
warning, but slower or without some feature. TOPOLOGY is a topology as for 'up'
(default: t3000). --port-base, --runtime and --image mean the same as for 'up'. If
the machine lacks something that only containers need, the verdict is fail with
'--runtime docker', and warn otherwise.

Exit code 1 if a check fails, 0 otherwise.`,
		Example: "  ttfabric doctor\n  ttfabric doctor galaxy --runtime docker\n  ttfabric doctor mesh:4x8 --port-base 17000\n  ttfabric doctor -o json",
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			arg := ""
			if len(args) > 0 {
				arg = args[0]
			}
			if r.Topology, err = folder.LoadTopology(c.Context(), arg); err != nil {
				return err
			}
			if err := r.Check(); err != nil {
				return err
			}
			return showFindings(c, f, doctor.Examine(c.Context(), &r))
		}}
	fl := c.Flags()
	fl.IntVar(&r.PortBase, "port-base", 0, "check whether the UDP ports that 'up' would use with this --port-base are free")
	fl.StringVar(&r.Runtime, "runtime", spec.Process, "how the chips are to run: process (as processes of this machine) or docker (as containers)")
	fl.StringVar(&r.Image, "image", container.DefaultOptions().Image, "container image, as for 'up'")
	return c
}

// showFindings prints findings. If checks failed, showFindings returns an error with
// the number of failed checks, and the exit code is 1.
func showFindings(c *cobra.Command, f string, found []doctor.Finding) error {
	count := map[doctor.Verdict]int{}
	for _, x := range found {
		count[x.Verdict]++
	}
	if f == "json" {
		if err := printJSON(c, found); err != nil {
			return err
		}
	} else {
		tw := newTable(c, "Check", "Verdict", "Found", "Way out")
		tw.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}, {Number: 4, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}})
		for _, x := range found {
			tw.AppendRow(table.Row{x.Check, x.Verdict.String(), x.Found, x.WayOut})
		}
		tw.Render()
	}
	if n := count[doctor.Failure]; n > 0 {
		return fmt.Errorf("%s failed", topo.Count(n, "check"))
	}
	if n := count[doctor.Warning]; n > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%s; the fabric can run in spite of warnings\n", topo.Count(n, "warning"))
	}
	return nil
}
