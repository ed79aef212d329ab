package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

// attachFirst is how long a chip's first answer may take, unless --wait is longer.
const attachFirst = 5 * time.Second

type attachFlags struct {
	apis  []string
	token string
	wait  time.Duration
	stay  bool
}

func newAttach() *cobra.Command {
	var f attachFlags
	c := &cobra.Command{
		Use: "attach", Short: "Steer a fabric whose chips run on other machines", Args: cobra.NoArgs,
		Long: `attach makes a run folder for a fabric whose chips were started elsewhere, with
'ttfabric node --api ADDRESS', so that every other command finds it by --name as
if it ran here. The API of one chip is enough: it says what the fabric is, and
gossip knows where the others' are. A chip whose API is not at the address where
it gossips, as behind a forwarded port, has to be named itself. Without --name
the fabric keeps the name that its chips have.

Commands look for the chips anew each time: one that was started again at
another address is found through the others. The token goes to every address
that the chips name, unencrypted, so the network between has to be trusted.

What needs a chip's process, 'up' and chip start, kill, pause, resume, restart
and remove, is to be done where it runs. 'down' forgets the fabric; its chips
run on.`,
		Example: `  ttfabric attach --api 10.0.1.1:8474 --token-file token --name lab
  ttfabric attach --api tasks.m0d0,tasks.m0d1 --wait 60s
  ttfabric inspect --name lab`,
		RunE: func(c *cobra.Command, _ []string) error { return runAttach(c, f) },
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.apis, "api", nil, "where APIs of chips are, as HOST[:PORT],...; one is enough, more are safer")
	fl.StringVar(&f.token, "token-file", "", "file with the token of the APIs (default: the environment variable TTFABRIC_TOKEN)")
	fl.DurationVar(&f.wait, "wait", 0, "wait until all links are up, so long at most; 0: do not")
	fl.BoolVar(&f.stay, "stay", false, "stay until Ctrl-C, and forget the fabric then; a chip's first answer is waited for, too")
	c.MarkFlagRequired("api")
	return c
}

func runAttach(c *cobra.Command, f attachFlags) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	token, err := folder.ReadToken(f.token)
	if err != nil {
		return err
	}
	apis, err := apiAddresses(f.apis)
	if err != nil {
		return err
	}
	begin := time.Now()
	ctx, cancel := c.Context(), context.CancelFunc(func() {})
	if !f.stay || f.wait > 0 { // a command that stays may as well have come first
		ctx, cancel = context.WithTimeout(ctx, max(f.wait, attachFirst))
	}
	defer cancel()
	name := ""
	if fl := c.Flag("name"); fl.Changed {
		name = fl.Value.String()
	}
	fab, err := fabric.Attach(ctx, name, apis, token)
	if err != nil {
		return err
	}
	if f.wait > 0 {
		err = waitAttached(c, ctx, fab, begin)
	} else {
		err = showAttached(c, fab, out)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "Attached to %s as %q; 'ttfabric down --name %s' forgets it.\n", fab.Topology, fab.Name(), fab.Name())
	if !f.stay {
		return nil
	}
	<-c.Context().Done()
	return fab.Remove()
}

// waitAttached waits until all links of an attached fabric are up, and shows its chips.
func waitAttached(c *cobra.Command, ctx context.Context, fab *fabric.Fabric, begin time.Time) error {
	bar := newProgress(c.ErrOrStderr(), "links up", fab.Topology.Routed())
	views, err := fab.WaitUp(ctx, func(done, _ int) { bar.set(done) })
	bar.stop()
	if err != nil {
		return err
	}
	return printUp(c, fab.Topology, views, time.Since(begin))
}

// showAttached shows the chips of an attached fabric as they are.
func showAttached(c *cobra.Command, fab *fabric.Fabric, out string) error {
	cs, missing, err := fab.Clients()
	if err != nil {
		return err
	}
	views, silent := fabric.Ask(c.Context(), cs)
	if out == "json" {
		return printJSON(c, map[string]any{"topology": fab.Topology.Name, "chips": views, "not_running": append([]wire.FabricNodeID{}, missing...), "no_answer": append([]wire.FabricNodeID{}, silent...)})
	}
	printChips(c, views, missing, silent)
	return nil
}

// apiAddresses completes HOST[:PORT] with the usual port.
func apiAddresses(args []string) (out []string, err error) {
	for _, a := range args {
		if host, port, err := net.SplitHostPort(a); err == nil && host != "" && port != "" {
			out = append(out, a)
		} else if _, err := netip.ParseAddr(strings.Trim(a, "[]")); a != "" && (err == nil || !strings.Contains(a, ":")) {
			out = append(out, net.JoinHostPort(strings.Trim(a, "[]"), spec.APIPort))
		} else {
			return nil, spec.Usagef("--api %q: want HOST or HOST:PORT", a)
		}
	}
	if len(out) > spec.MaxSeeds {
		return nil, spec.Usagef("--api: %d addresses; at most %d, one is enough", len(out), spec.MaxSeeds)
	}
	return out, nil
}
