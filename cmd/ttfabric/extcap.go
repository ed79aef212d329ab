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

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/capture"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/wire/capture/wireshark"
)

// extcapName reports whether argv0, the name by which the program was called, is the
// name of the Wireshark plugin.
func extcapName(argv0 string) bool { return strings.Contains(filepath.Base(argv0), "extcap") }

// extcapCall returns the arguments of the command line argv. If Wireshark called the
// program, extcapCall adds "extcap" before the arguments. The plugin that Wireshark calls
// may be a symbolic link to this program, or a script that calls this program.
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
	return &cobra.Command{Use: "extcap", Short: "Serve Wireshark as its capture plugin", DisableFlagParsing: true, ValidArgsFunction: cobra.NoFileCompletions,
		Long: `The command answers Wireshark, tshark and dumpcap, which call the command as a
plugin. Each running fabric is an interface with the name ttfabric-NAME. If a fabric
has at most 64 chips, each chip is also an interface, such as ttfabric-NAME-M0D3.
Wireshark offers the flags of 'ttfabric capture' as options of an interface.
'ttfabric wireshark install' puts the plugin where Wireshark looks for plugins.`,
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

// extcapFabrics returns all fabrics that this user can open and that have a running chip.
// The results out and shown hold the same fabrics in the same order, shown in the form of the
// plugin's answers to Wireshark.
func extcapFabrics(ctx context.Context) (out []*fabric.Fabric, shown []wireshark.Fabric) {
	var names []string
	dirs, _ := folder.All() // the error is ignored: Wireshark shows no interface for folders that other users can write
	for _, dir := range dirs {
		if f, err := fabric.Peek(dir); err == nil && len(f.Running()) > 0 {
			names = append(names, dir.Name())
		}
	}
	for _, s := range container.Strays(ctx, func(name string) bool { return slices.Contains(names, name) }) {
		if s.Running > 0 {
			names = append(names, s.Name)
		}
	}
	for _, name := range names {
		if f, err := fabric.Open(ctx, name); err == nil {
			out, shown = append(out, f), append(shown, wireshark.Fabric{Name: name, Topology: f.Topology})
		}
	}
	return out, shown
}

// findExtcap returns the fabric of an interface. If the interface stands for one
// chip, findExtcap also returns the name of this chip.
func findExtcap(ctx context.Context, iface string) (f *fabric.Fabric, chip string, err error) {
	if !strings.HasPrefix(iface, wireshark.InterfacePrefix) {
		return nil, "", spec.Usagef("interface %q: want an interface that 'ttfabric extcap --extcap-interfaces' lists", iface)
	}
	all, shown := extcapFabrics(ctx)
	i, chip, ok := wireshark.Find(shown, iface)
	if !ok {
		return nil, "", fmt.Errorf("interface %q: no running fabric has this name, or the fabric has no such chip; 'ttfabric ls' lists the fabrics", iface)
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
			wireshark.PrintOptions(w, f.Topology, chip)
		}
		return err
	case x.Capture:
		return captureExtcap(ctx, x)
	case x.Check != nil:
		wireshark.PrintFilterFault(w, *x.Check)
		return nil
	}
	return spec.Usagef("extcap: Wireshark calls this command with --extcap-interfaces and similar flags; to capture yourself, use 'ttfabric capture'")
}

// captureExtcap captures to the pipe that Wireshark has made. The capture ends when Wireshark
// closes the pipe or ends this process, or when the fabric is taken down.
func captureExtcap(ctx context.Context, x *wireshark.Request) error {
	if x.FIFO == "" {
		return spec.Usagef("--capture: the name of a pipe is missing; add --fifo PIPE")
	}
	f, chip, err := findExtcap(ctx, x.Interface)
	if err != nil {
		return err
	}
	o := capture.Options{Write: "-", Filter: x.WholeFilter(), SnapLen: x.SnapLen, BufferMiB: x.Buffer, Keys: x.Keys}
	if err := o.Check(); err != nil {
		return err
	}
	ports := x.Ports
	if chip != "" && len(ports) == 0 {
		ports = []string{chip}
	}
	where, err := capture.Ports(f.Topology, ports)
	if err != nil {
		return err
	}
	j, err := capture.New(f, where, o)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(x.FIFO, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the pipe: %w", err)
	}
	defer out.Close()
	_, err = j.Run(ctx, capture.Stream(out, capture.Section(f, version())))
	return err
}
