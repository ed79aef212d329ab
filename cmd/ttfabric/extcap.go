package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire/capture/wireshark"
)

// extcapName reports whether a program's name, as it was called, is that of the plugin.
func extcapName(argv0 string) bool { return strings.Contains(filepath.Base(argv0), "extcap") }

// extcapCall is the command line of a call by Wireshark as one of ours: the
// plugin may be a link to this program, or a script that calls it.
func extcapCall(argv []string) []string {
	args := argv[1:]
	if len(args) > 0 && args[0] == "extcap" {
		return args
	}
	if extcapName(argv[0]) || slices.Contains(args, "--extcap-interfaces") || slices.Contains(args, "--extcap-interface") {
		return append([]string{"extcap"}, args...)
	}
	return args
}

func newExtcap() *cobra.Command {
	return &cobra.Command{Use: "extcap", Short: "Be the capture plugin of Wireshark", DisableFlagParsing: true, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `extcap speaks to Wireshark, tshark and dumpcap, which call it as a plugin: each
running fabric is an interface, ttfabric-NAME, and so is each chip of those of at most 64, ttfabric-NAME-M0D3. What 'ttfabric capture' takes as
flags they offer as options. 'ttfabric wireshark install' puts the plugin in
its place.`,
		Example: "  tshark -D\n  tshark -i ttfabric-default -c 20\n  ttfabric extcap --extcap-interfaces",
		RunE: func(c *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return c.Help()
			}
			x, err := wireshark.ParseRequest(args)
			if err != nil {
				return spec.Usagef("%w", err)
			}
			return runExtcap(c.Context(), c.OutOrStdout(), &x)
		}}
}

// extcapFabric is a running fabric that can be captured.
type extcapFabric struct {
	name string
	dir  runDir
	t    *topo.Topology
}

// extcapFabrics are all that run, for this program and for the plugin's answers, in the same order.
func extcapFabrics(ctx context.Context) (out []extcapFabric, shown []wireshark.Fabric) {
	for _, name := range runningFabrics(ctx) {
		dir, err := dirFor(name)
		if err != nil {
			continue
		}
		if _, t, _, err := dir.mesh(); err == nil {
			out, shown = append(out, extcapFabric{name, dir, t}), append(shown, wireshark.Fabric{Name: name, Topology: t})
		}
	}
	return out, shown
}

// runningFabrics are the names of the fabrics that have a chip running, as a process or a container.
func runningFabrics(ctx context.Context) (names []string) {
	ents, _ := os.ReadDir(runRoot())
	for _, e := range ents {
		if d := runDir(filepath.Join(runRoot(), e.Name())); len(d.chips()) > 0 {
			names = append(names, e.Name())
		}
	}
	for _, s := range strays(ctx, func(name string) bool { return slices.Contains(names, name) }) {
		if s.running > 0 {
			names = append(names, s.name)
		}
	}
	return names
}

// findExtcap is the fabric, and the chip if it is one, that an interface stands for.
func findExtcap(ctx context.Context, iface string) (f extcapFabric, chip string, err error) {
	if !strings.HasPrefix(iface, wireshark.InterfacePrefix) {
		return f, "", spec.Usagef("interface %q: want one that 'ttfabric extcap --extcap-interfaces' lists", iface)
	}
	all, shown := extcapFabrics(ctx)
	i, chip, ok := wireshark.Find(shown, iface)
	if !ok {
		return f, "", fmt.Errorf("interface %q: no such fabric is running, or no such chip is in it; 'ttfabric ls' lists the fabrics", iface)
	}
	return all[i], chip, nil
}

func runExtcap(ctx context.Context, w io.Writer, x *wireshark.Request) error {
	switch {
	case x.List:
		_, shown := extcapFabrics(ctx)
		wireshark.PrintInterfaces(w, version(), shown)
		return nil
	case x.DLTs:
		wireshark.PrintDLTs(w)
		return nil
	case x.Config:
		f, chip, err := findExtcap(ctx, x.Interface)
		if err == nil {
			wireshark.PrintOptions(w, f.t, chip)
		}
		return err
	case x.Capture:
		return captureExtcap(ctx, x)
	case x.Check != nil:
		wireshark.PrintFilterFault(w, *x.Check)
		return nil
	}
	return spec.Usagef("extcap is called by Wireshark; for people there is 'ttfabric capture'")
}

// captureExtcap captures to the pipe that Wireshark has made, until Wireshark closes the pipe or ends this process.
func captureExtcap(ctx context.Context, x *wireshark.Request) error {
	if x.FIFO == "" {
		return spec.Usagef("--capture: name the pipe with --fifo")
	}
	f, chip, err := findExtcap(ctx, x.Interface)
	if err != nil {
		return err
	}
	flags := &captureFlags{write: "-", filter: x.WholeFilter(), snapLen: x.SnapLen, buffer: x.Buffer, keys: x.Keys} // "-": for the check, the capture is a file
	if err := flags.check(); err != nil {
		return err
	}
	ports := x.Ports
	if chip != "" && len(ports) == 0 {
		ports = []string{chip}
	}
	where, err := capturedPorts(f.t, ports)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(x.FIFO, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the pipe: %w", err)
	}
	defer out.Close()
	j := &captureJob{dir: f.dir, t: f.t, where: where, flags: flags}
	j.sink = newPcapSink(out, flags, j.section())
	return j.run(ctx)
}
