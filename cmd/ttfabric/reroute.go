package main

import (
	"errors"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo/pick"
)

const rerouteHelp = `If a link's cable is out of service, the link's frames move to a parallel cable, as if the cable
had failed. No route changes. 'ttfabric link fallback' shows which cable would carry a
link's frames.

If no parallel cable works, the chips report this to each other, and all compute the same
tables without the cable. 'ttfabric routes' shows the routes, and 'ttfabric events' shows
when chips install tables.

Within a mesh, a packet whose route does not cross the cable keeps this route. Most other
packets take a detour, in virtual channels that only detours use. If two routes round a
ring are equally long, a packet may take the other route instead. Routes between meshes
are planned anew. These routes may cross to another mesh by another cable, in the usual
virtual channels. A multicast keeps its tree within a mesh, and its result names the
members behind the cable.

No packet is lost, because packets under way may still use the cable.

If some chips would lose their last route to the others, 'ttfabric reroute' and
'ttfabric remove' change nothing, and name these chips. With --force, these two commands
take the cables out of service nevertheless. 'ttfabric heal' puts all cables back in
service.`

func newReroute() *cobra.Command {
	var back, force bool
	c := &cobra.Command{Use: "reroute LINK...", Short: "Take cables out of service, so that packets take other cables", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeLinks,
		Long:    "The command takes working cables out of service. --back puts the cables back in service.\n\n" + rerouteHelp + "\n\n" + linkHelp,
		Example: "  ttfabric reroute M0D0-M0D1/p0     # the frames move to the parallel cable\n  ttfabric reroute M0D0-M0D1        # packets take a detour\n  ttfabric reroute --back all",
		RunE: func(c *cobra.Command, args []string) error {
			return changeService(c, !back, force, func(f *fabric.Fabric) (fabric.Line, error) {
				links, err := pick.Links(f.Topology, args)
				return fabric.Line{Links: links}, spec.AsUsage(err)
			})
		}}
	c.Flags().BoolVar(&back, "back", false, "put the cables back in service")
	c.Flags().BoolVar(&force, "force", false, "take the cables out of service even if that cuts chips off")
	c.MarkFlagsMutuallyExclusive("back", "force")
	return c
}

func newRemove() *cobra.Command {
	return lineCommand("remove", true, "Take a row or column of chips out of service",
		"The command takes all cables of the chips of a row or column out of service. No packet\ngoes to or through these chips until 'ttfabric restore'. The chips keep running.",
		"  ttfabric remove row 3\n  ttfabric remove column 0 --mesh 1")
}

func newRestore() *cobra.Command {
	return lineCommand("restore", false, "Put a row or column of chips back in service", "The command undoes 'ttfabric remove'.", "  ttfabric restore row 3")
}

func lineCommand(name string, out bool, short, long, example string) *cobra.Command {
	mesh, force := 0, false
	c := &cobra.Command{Use: name + " row|column N", Short: short, Args: cobra.ExactArgs(2), ValidArgs: []string{"row", "column"},
		Long: long + "\n\n" + rerouteHelp, Example: example,
		RunE: func(c *cobra.Command, args []string) error {
			return changeService(c, out, force, func(f *fabric.Fabric) (fabric.Line, error) { return fabric.LineOf(f.Topology, mesh, args[0], args[1]) })
		}}
	c.Flags().IntVar(&mesh, "mesh", 0, "mesh that has the row or column")
	if out {
		c.Flags().BoolVar(&force, "force", false, "take the cables out of service even if that cuts other chips off")
	}
	return c
}

// changeService takes cables out of service. The function "choose" names the cables. If
// out is false, changeService puts the cables back in service.
func changeService(c *cobra.Command, out, force bool, choose func(*fabric.Fabric) (fabric.Line, error)) error {
	f, err := openFabric(c)
	if err != nil {
		return err
	}
	line, err := choose(f)
	if err != nil {
		return err
	}
	var r fabric.Service
	done := "out of service"
	if out {
		r, err = f.TakeOut(c.Context(), line.Links, line.Chips, force)
	} else {
		done = "put back in service"
		r, err = f.PutBack(c.Context(), line.Links)
	}
	tellAbsent(c, r.Absent)
	if err != nil && len(r.Changed) == 0 {
		return err
	}
	return errors.Join(toldLinks(c, done, r.Changed), err)
}
