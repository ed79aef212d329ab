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
)

type upFlags struct {
	spec      spec.Spec
	detach    bool
	timeout   time.Duration
	gossipKey string
	container container.Options
}

func newUp() *cobra.Command {
	f := upFlags{spec: spec.Default(), container: container.DefaultOptions()}
	c := &cobra.Command{
		Use:   "up [TOPOLOGY]",
		Short: "Bring up a fabric: one process per chip",
		Long: `up starts one process per chip, each ethernet channel on a UDP socket of its
own, waits until every declared link is up, and prints what runs where. It
stays in the foreground until Ctrl-C; with -d it returns. On a fabric that
runs already it starts the chips that are missing.

TOPOLOGY is a built-in (t3000, galaxy, 2xt3000), a generator (mesh:4x8,
ring:6, torus:4x4), or a file: a cluster descriptor of tt-umd or a mesh graph
descriptor of tt-metal; 'ttfabric validate' says what a file holds.

With --runtime docker each chip is a container; the compose file, as 'ttfabric
compose' writes it, is in the run folder. --image, --memory and --mtu go with it.
Keys and certificates are mounted from the run folder; recordings are copied to
their folder by 'record stop' and 'down', secrets of --keylog to theirs by 'up',
'capture' and 'down'.

A file in the form of ttfabric may say what carries the links and how chips know
each other (transport: quic, auth: psk); --transport and --auth go before it.

Routes are proved free of deadlock before any chip starts; 'ttfabric routes'
shows them. A packet whose way on is blocked for --stuck-after is told of as an
event; --stuck says whether it is, and whether it and those behind it are given up.`,
		Example: `  ttfabric up
  ttfabric up mesh:4x8 -d
  ttfabric up torus:4x4 --ring bubble
  ttfabric up --netem 'M0D0-M0D1,delay=1ms,loss=1%'
  ttfabric up --record /tmp/calls
  ttfabric up --gossip-key generate --auth psk
  ttfabric up --transport quic
  ttfabric up galaxy --runtime docker
  ttfabric up --runtime docker --auth psk --gossip-key generate
  ttfabric up cluster_desc.yaml --name lab`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		RunE:              func(c *cobra.Command, args []string) error { return runUp(c, args, f) },
	}
	fl := c.Flags()
	fl.BoolVarP(&f.detach, "detach", "d", false, "return when the fabric is up")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "give up when not all links are up by then")
	addOptions(c, &f.spec, "port-base")
	addOptions(c, &f.spec)
	fl.StringVar(&f.gossipKey, "gossip-key", "", "encrypt gossip: a file with a key, as 'gossip keygen' writes it, or generate")
	fl.StringVar(&f.spec.Runtime, "runtime", spec.Process, "what chips are: process, or docker: containers, by compose")
	fl.StringVar(&f.spec.Program, "program", "", "executable that runs in each chip's process in place of ttfabric, such as a Go program that calls process.Main")
	addContainerOptions(c, &f.container)
	return c
}

func runUp(c *cobra.Command, args []string, f upFlags) error {
	if _, err := format(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	fab, fresh, err := prepare(c, ctx, args, &f)
	if err != nil {
		return err
	}
	exits := make(fabric.Exits, len(fab.Topology.Chips))
	begin := time.Now()
	views, err := bringUp(c, ctx, fab, exits)
	if err != nil {
		if fresh {
			fab.Remove()
		}
		if c.Context().Err() != nil {
			return context.Canceled
		}
		return err
	}
	took := time.Since(begin)
	if err := fab.KeyLog(ctx); err != nil {
		return err
	}
	if err := printUp(c, fab.Topology, views, took); err != nil {
		return err
	}
	if f.detach {
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "Fabric %q is up. Ctrl-C stops it.\n", fab.Name())
	return hold(c, fab, exits)
}

// bringUp starts the chips of a fabric that do not run and waits for all links, with a bar that shows how many are up.
func bringUp(c *cobra.Command, ctx context.Context, fab *fabric.Fabric, exits fabric.Exits) ([]api.ChipView, error) {
	bar := newProgress(c.ErrOrStderr(), "links up", fab.Topology.Routed())
	defer bar.stop()
	return fab.Up(ctx, func(done, _ int) { bar.set(done) }, exits)
}

// prepare opens the fabric that runs already, or makes the folder of a new one.
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
	if fab, err := fabric.Open(ctx, name); err == nil {
		return fab, false, f.fits(c, fab, arg)
	}
	w := fabric.Wanted{Name: name, Named: cmp.Or(arg, folder.DefaultTopology), Spec: f.spec, Container: f.container}
	if w.Topology, err = folder.LoadTopology(c.Context(), arg); err != nil {
		return nil, false, err
	}
	if f.spec.Runtime != spec.Docker {
		for _, name := range []string{"image", "memory", "mtu"} {
			if c.Flags().Changed(name) {
				return nil, false, spec.Usagef("--%s goes with --runtime docker", name)
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
	fab, err = fabric.Create(ctx, w)
	return fab, true, err
}

// programFile is the absolute path of an executable that is to run in each chip's process.
func programFile(path, runtime string) (string, error) {
	if runtime == spec.Docker {
		return "", spec.Usagef("--program: containers run what is in their image; name another one with --image")
	}
	found, err := exec.LookPath(path)
	if err == nil {
		found, err = filepath.Abs(found)
	}
	if err != nil {
		return "", spec.Usagef("--program: %w", err)
	}
	return found, nil
}

// fits refuses what the command line names and a fabric that runs already does not have.
func (f *upFlags) fits(c *cobra.Command, fab *fabric.Fabric, arg string) error {
	name, running := fab.Name(), fab.Topology
	if arg != "" {
		want, err := folder.LoadTopology(c.Context(), arg)
		switch {
		case err != nil:
			return err
		case want.Hash() != running.Hash():
			return spec.Usagef("fabric %q runs %s already; 'ttfabric down --name %s' stops it, or choose another --name", name, fab.Spec.Source, name)
		case !want.SameNotes(running):
			return spec.Usagef("fabric %q runs %s already, with other labels or impairments of its cables, or another transport or auth; 'ttfabric netem set' changes impairments, or 'ttfabric down --name %s' stops it", name, fab.Spec.Source, name)
		}
	}
	if f.gossipKey != "" {
		return spec.Usagef("--gossip-key: fabric %q runs already; 'ttfabric gossip keys' changes the keys of one that is encrypted", name)
	}
	if has := cmp.Or(fab.Spec.Runtime, spec.Process); c.Flags().Changed("runtime") && has != f.spec.Runtime {
		return spec.Usagef("--runtime %s: fabric %q runs already, with %s; 'ttfabric down --name %s' stops it, or choose another --name", f.spec.Runtime, name, has, name)
	}
	return refuseRunning(c, &fab.Spec, &f.spec)
}

// hold stays until Ctrl-C, telling of chips that die, and removes the fabric then.
func hold(c *cobra.Command, fab *fabric.Fabric, exits fabric.Exits) error {
	out := c.ErrOrStderr()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case e := <-exits:
			if fab.Gone() {
				return nil
			}
			fmt.Fprintf(out, "chip %s has ended (%v): %s\n'ttfabric up -d' or 'ttfabric chip start %s' starts it again.\n", e.Chip, e.Err, fab.LastWords(e.Chip), e.Chip)
		case <-tick.C:
			if fab.Gone() {
				fmt.Fprintln(out, "The fabric has been taken down.")
				return nil
			}
		case <-c.Context().Done():
			fmt.Fprintln(out, "Stopping.")
			return fab.Remove()
		}
	}
}
