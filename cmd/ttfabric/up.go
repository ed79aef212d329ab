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
	"ttfabric/node/doctor"
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
		Long: `The command starts one process per chip. Each ethernet port of a chip has a socket of
its own. The command waits until every declared link is up, and prints a table of
the chips. With -d, the command then returns. Without -d, the command stays in the
foreground until Ctrl-C, and then stops the fabric. If the fabric runs already, the
command starts the missing chips.

TOPOLOGY is a built-in topology (t3000, galaxy, 2xt3000), a generated topology
(mesh:4x8, ring:6, torus:4x4), or a file (default: t3000). A file is a cluster
descriptor of tt-umd, a mesh graph descriptor of tt-metal, or a file that 'ttfabric
generate' wrote. 'ttfabric validate' describes the content of a file.

With --runtime docker each chip is a container. The command then writes a compose
file to the run folder, as 'ttfabric compose' does. --image, --memory and --mtu are
options of the containers. Containers mount keys and certificates from the run
folder. 'record stop' and 'down' copy recordings to the folder of --record. 'up',
'capture' and 'down' copy logged secrets to the folder of --keylog.

A topology file may say what carries the links and how chips authenticate each
other, such as "transport: quic" or "auth: psk". The flags --transport and --auth
overrule the topology file.

The command proves the routes free of deadlock before any chip starts. 'ttfabric
routes' shows the routes. --stuck says what chips do when a packet has been blocked
for the time of --stuck-after: report an event, or also give up packets.`,
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
	fl.BoolVarP(&f.detach, "detach", "d", false, "return when the fabric is up, and leave the fabric running")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "give up if not all links are up after this time")
	addOptions(c, &f.spec, "port-base")
	addOptions(c, &f.spec)
	fl.StringVar(&f.gossipKey, "gossip-key", "", "file with the key that encrypts gossip, as 'gossip keygen' writes; the value generate makes a new key")
	fl.StringVar(&f.spec.Runtime, "runtime", spec.Process, "how chips run: process (each chip is a process of this machine) or docker (each chip is a container of a compose file)")
	fl.StringVar(&f.spec.Program, "program", "", "executable for each chip's process, instead of ttfabric; for example a Go program that calls process.Main")
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
	if text := doctor.Unsealed(doctor.OtherUsers()); text != "" && fab.Spec.Auth == spec.None && fab.Spec.Runtime != spec.Docker {
		fmt.Fprintf(c.ErrOrStderr(), "Note: %s. --auth psk prevents this.\n", text)
	}
	if fab.Spec.Program != "" {
		fmt.Fprintf(c.ErrOrStderr(), "The chips' programs print to %s.\n", fab.Dir.Path("chip-CHIP.log"))
	}
	if f.detach {
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "Fabric %q is up. Ctrl-C stops it.\n", fab.Name())
	return hold(c, fab, exits)
}

// bringUp starts the chips of a fabric that do not run, and waits until all links are
// up. Meanwhile, a progress bar shows the number of links that are up.
func bringUp(c *cobra.Command, ctx context.Context, fab *fabric.Fabric, exits fabric.Exits) ([]api.ChipView, error) {
	bar := newProgress(c.ErrOrStderr(), "links up", fab.Topology.Routed())
	defer bar.stop()
	return fab.Up(ctx, func(done, _ int) { bar.set(done) }, exits)
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
		return fab, false, f.fits(c, fab, arg)
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

// hold waits for Ctrl-C and then removes the fabric. Meanwhile, hold reports chips that end.
// If another command takes the fabric down, hold returns.
func hold(c *cobra.Command, fab *fabric.Fabric, exits fabric.Exits) error {
	out := c.ErrOrStderr()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	tell := func(e folder.Exit) {
		fmt.Fprintf(out, "chip %s has ended (%s): %s\n'ttfabric up -d' or 'ttfabric chip start %s' starts the chip again.\n", e.Chip, endOf(e.Err), fab.LastWords(e.Chip), e.Chip)
	}
	var stopped []folder.Exit // chips that ended by themselves, perhaps because of 'down'
	var since time.Time       // the time of the first end in stopped
	for {
		select {
		case e := <-exits:
			if e.Err != nil {
				tell(e)
				continue
			}
			if len(stopped) == 0 {
				since = time.Now()
			}
			stopped = append(stopped, e)
		case <-tick.C:
			if fab.Gone() {
				fmt.Fprintln(out, "Another command has taken the fabric down.")
				return nil
			}
			if time.Since(since) > folder.StopTime { // 'down' would have removed the run folder by now
				for _, e := range stopped {
					tell(e)
				}
				stopped = nil
			}
		case <-c.Context().Done():
			fmt.Fprintln(out, "Stopping.")
			return fab.Remove()
		}
	}
}

// endOf returns how a chip's process ended, in words.
func endOf(err error) string {
	if err == nil {
		return "with exit code 0"
	}
	return err.Error()
}
