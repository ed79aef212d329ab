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
		Use: "doctor [TOPOLOGY]", Short: "Look whether this machine can run a fabric, and say what to do where not", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		Long: `doctor looks at what a fabric of the given size needs of this machine: loopback,
UDP offload, buffers, free ports, limits, memory, disk, clock, the Docker engine and
its networks, kernel netem, Wireshark. It changes nothing. Each check is ok, a
warning or a failure, and says what to do. A warning is about something that works
worse or is missing, and that a fabric can do without. TOPOLOGY is what 'up' takes
(default: t3000); --port-base, --runtime and --image are those of 'up'. With
'--runtime docker', a check of what containers need fails rather than warns.

Exit code 1 where a check fails, 0 otherwise.`,
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
	fl.IntVar(&r.PortBase, "port-base", 0, "UDP port of the first chip's channel 0, as for 'up': are they free?")
	fl.StringVar(&r.Runtime, "runtime", spec.Process, "what the chips are to be: process or docker")
	fl.StringVar(&r.Image, "image", container.DefaultOptions().Image, "container image, as for 'up'")
	return c
}

// showFindings prints findings. Its error, which makes the exit code 1, says how many checks failed.
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
		fmt.Fprintf(c.ErrOrStderr(), "%s; nothing that keeps this fabric from running\n", topo.Count(n, "warning"))
	}
	return nil
}
