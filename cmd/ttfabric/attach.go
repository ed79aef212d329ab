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
	"ttfabric/node/output"
	"ttfabric/node/output/screen"
)

// attachFirst is the time within which the command must show the chips. If --wait is longer, --wait is
// the limit instead. With --stay and without --wait there is no limit.
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
		Use: "attach", Short: "Steer a fabric that runs on other machines", Args: cobra.NoArgs,
		Long: `The command makes a run folder for a fabric with chips on other machines. The
command 'ttfabric node --api ADDRESS' must have started these chips. Every other
command then finds the fabric by --name, as if the fabric ran on this machine.

The address of one chip's API is enough. That chip describes the fabric, and knows
from its gossip the addresses of the other chips' APIs. The API of a chip may have
another host address than the chip's gossip, for example behind a forwarded port.
Name the API of such a chip in --api too. Without --name, the fabric keeps the name
that the chips report.

Every later command asks the chips again for the addresses. If a chip was restarted
at another address, the other chips report the new address. Commands send the token
unencrypted to every address that the chips report. So you must trust all networks
between this machine and the chips.

Some commands act on a chip's process: 'up', and 'chip' with start, kill, pause,
resume, restart or remove. Run these commands on the chip's own machine. 'down'
removes only the run folder on this machine. The chips continue to run.`,
		Example: `  ttfabric attach --api 10.0.1.1:8474 --token-file token --name lab
  ttfabric attach --api tasks.m0d0,tasks.m0d1 --wait 60s
  ttfabric inspect --name lab`,
		RunE: func(c *cobra.Command, _ []string) error { return runAttach(c, f) },
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.apis, "api", nil, "addresses of the APIs of one or more chips, as HOST[:PORT],...; one chip must be reachable")
	fl.StringVar(&f.token, "token-file", "", "file with the token of the chips' APIs (without this flag, the environment variable TTFABRIC_TOKEN holds the token itself)")
	fl.DurationVar(&f.wait, "wait", 0, "wait at most this long until all links are up; 0: do not wait")
	fl.BoolVar(&f.stay, "stay", false, "wait until one chip answers, run until Ctrl-C, and then remove the fabric's run folder")
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
	if !f.stay || f.wait > 0 { // with --stay and without --wait, the command waits for the chips' start without a limit
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
	fmt.Fprintf(c.ErrOrStderr(), "Attached to %s as %q; 'ttfabric down --name %s' removes only the run folder on this machine.\n", fab.Topology, fab.Name(), fab.Name())
	if !f.stay {
		return nil
	}
	<-c.Context().Done()
	return fab.Remove()
}

// waitAttached waits until all links of an attached fabric are up, and shows its chips.
func waitAttached(c *cobra.Command, ctx context.Context, fab *fabric.Fabric, begin time.Time) error {
	bar := screen.NewProgress(c.ErrOrStderr(), "links up", fab.Topology.Routed())
	views, err := fab.WaitUp(ctx, func(done, _ int) { bar.Set(done) })
	bar.Stop()
	if err != nil {
		return err
	}
	return printUp(c, fab.Topology, views, time.Since(begin))
}

// showAttached shows the present state of the chips of an attached fabric.
func showAttached(c *cobra.Command, fab *fabric.Fabric, out string) error {
	cs, missing, err := fab.Clients()
	if err != nil {
		return err
	}
	views, silent := fabric.Ask(c.Context(), cs)
	if out == "json" {
		return printJSON(c, output.ChipsOf(fab.Topology.Name, views, missing, silent))
	}
	printChips(c, views, missing, silent)
	return nil
}

// apiAddresses reads the values of --api, HOST[:PORT]. If a value has no port,
// apiAddresses adds the port [spec.APIPort]. A value of another form, or more than
// [spec.MaxSeeds] values, is an error.
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
		return nil, spec.Usagef("--api: %d addresses are too many; want 1 to %d", len(out), spec.MaxSeeds)
	}
	return out, nil
}
