package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
)

type upFlags struct {
	spec      spec.Spec
	detach    bool
	timeout   time.Duration
	gossipKey string
	container container.Options
	dryRun    bool
	plan      *spec.DryRun // with dryRun: what prepare found out
}

// bringUp starts the chips of a fabric that do not run, and waits until all links are
// up. Meanwhile, a progress bar shows the number of links that are up.
func bringUp(c *cobra.Command, ctx context.Context, fab *fabric.Fabric, exits fabric.Exits) ([]api.ChipView, error) {
	bar := screen.NewProgress(c.ErrOrStderr(), "links up", fab.Topology.Routed())
	defer bar.Stop()
	return fab.Up(ctx, func(done, _ int) { bar.Set(done) }, exits)
}

// prepare opens the fabric if the fabric runs already, and returns an error if the
// command line does not fit this fabric. If the fabric does not run, prepare makes a new
// fabric with a run folder, and the result "fresh" is true.
func prepare(c *cobra.Command, ctx context.Context, args []string, f *upFlags) (fab *fabric.Fabric, fresh bool, err error) {
	name, _ := c.Flags().GetString("name")
	if err := spec.CheckName(name); err != nil {
		return nil, false, err
	}
	if err := folder.MakeRoot(); err != nil {
		return nil, false, err
	}
	if err := fabric.Settled(ctx, name); err != nil {
		return nil, false, err
	}
	unlock, err := folder.Lock(ctx, folder.Root())
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	known := folder.Dir(filepath.Join(folder.Root(), name)).Has()
	if fab, err := fabric.Open(ctx, name); err == nil {
		if !known && f.spec.Runtime != spec.Docker {
			fmt.Fprintf(c.ErrOrStderr(), "Fabric %q runs already, in containers of the compose project %s, and 'up' starts no processes. Choose another --name for a new fabric.\n", name, fab.Spec.Project)
		}
		if err := f.fits(c, fab, arg); err != nil || !f.dryRun {
			return fab, false, err
		}
		d, err := fab.DryRun()
		f.plan = &d
		return fab, false, err
	}
	w := fabric.Wanted{Name: name, Named: cmp.Or(arg, folder.DefaultTopology), Spec: f.spec, Container: f.container}
	if w.Topology, err = folder.LoadTopology(c.Context(), arg); err != nil {
		return nil, false, err
	}
	if f.spec.Runtime != spec.Docker {
		for _, name := range []string{"image", "memory", "mtu"} {
			if c.Flags().Changed(name) {
				return nil, false, spec.Usagef("--%s is an option of containers; add --runtime docker, or leave out --%s", name, name)
			}
		}
	}
	if f.spec.Program != "" {
		if w.Spec.Program, err = programFile(f.spec.Program, f.spec.Runtime); err != nil {
			return nil, false, err
		}
	}
	if f.gossipKey != "" {
		if w.GossipKeys, err = folder.ReadKeys(c.Context(), c.InOrStdin(), "--gossip-key", f.gossipKey); err != nil {
			return nil, false, err
		}
	}
	settled := f.spec
	if settled.Settle(w.Topology); settled.Auth == spec.PSK {
		if w.PSK, err = folder.NewPSK(c.Context(), c.InOrStdin(), &settled); err != nil {
			return nil, false, err
		}
	}
	if f.dryRun {
		d, err := fabric.DryRunOf(ctx, w)
		f.plan = &d
		return nil, false, err
	}
	fab, err = fabric.Create(ctx, w)
	return fab, true, err
}

// programFile returns the absolute path of the executable that --program names. This
// executable runs in each chip's process. With --runtime docker, programFile returns an
// error.
func programFile(path, runtime string) (string, error) {
	if runtime == spec.Docker {
		return "", spec.Usagef("--program %s: containers run the program in their image; name another image with --image", path)
	}
	found, err := exec.LookPath(path)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return "", spec.Usagef("--program %s: want an executable file: %w", path, err)
	}
	return found, nil
}

// fits returns an error if the topology arg, or an option on the command line, differs
// from the running fabric. --gossip-key is always an error.
func (f *upFlags) fits(c *cobra.Command, fab *fabric.Fabric, arg string) error {
	name, running := fab.Name(), fab.Topology
	if arg != "" {
		want, err := folder.LoadTopology(c.Context(), arg)
		switch {
		case err != nil:
			return err
		case want.Hash() != running.Hash():
			return spec.Usagef("topology %s: fabric %q runs %s already; 'ttfabric down --name %s' stops that fabric, or choose another --name", arg, name, fab.Spec.Source, name)
		case !want.SameNotes(running):
			return spec.Usagef("fabric %q runs %s already, but the topology file has other labels, impairments, transport or auth now; 'ttfabric netem set' changes impairments, or 'ttfabric down --name %s' stops the fabric", name, fab.Spec.Source, name)
		}
	}
	if f.gossipKey != "" {
		return spec.Usagef("--gossip-key: fabric %q runs already; if its gossip is encrypted, 'ttfabric gossip keys' changes the keys", name)
	}
	if has := cmp.Or(fab.Spec.Runtime, spec.Process); c.Flags().Changed("runtime") && has != f.spec.Runtime {
		return spec.Usagef("--runtime %s: fabric %q runs already, with --runtime %s; 'ttfabric down --name %s' stops that fabric, or choose another --name", f.spec.Runtime, name, has, name)
	}
	return refuseRunning(c, &fab.Spec, &f.spec)
}
