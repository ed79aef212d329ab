package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// The plugin of Wireshark: extcap(4), and doc/extcap.adoc of Wireshark.

// extcapPrefix begins the names of our interfaces.
const extcapPrefix = "ttfabric-"

// maxExtcapChips is the size of a fabric, in chips, up to which each chip is an interface of its own.
const maxExtcapChips = 64

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
			x, err := parseExtcap(args)
			if err != nil {
				return err
			}
			return x.run(c.Context(), c.OutOrStdout())
		}}
}

// extcapRequest is one call.
type extcapRequest struct {
	list, dlts, config, capture bool
	iface, fifo                 string
	ports                       []string
	check                       *string // a capture filter that is to be checked, or used
	flags                       captureFlags
}

// parseExtcap reads the arguments of a call. Those that it doesn't know, of Wireshark's later versions, it ignores.
func parseExtcap(args []string) (x extcapRequest, err error) {
	bad := func(name, v string, want string) {
		if err == nil {
			err = spec.Usagef("%s %q: want %s", name, v, want)
		}
	}
	for len(args) > 0 {
		name, v, whole := strings.Cut(args[0], "=")
		args = args[1:]
		value := func() string {
			if !whole && len(args) > 0 {
				v, args = args[0], args[1:]
			}
			return v
		}
		number := func() int {
			s := value()
			n, e := strconv.Atoi(s)
			if e != nil || n < 0 {
				bad(name, s, "a whole number")
			}
			return n
		}
		switch name {
		case "--extcap-interfaces":
			x.list = true
		case "--extcap-dlts":
			x.dlts = true
		case "--extcap-config":
			x.config = true
		case "--capture":
			x.capture = true
		case "--extcap-interface":
			x.iface = value()
		case "--fifo":
			x.fifo = value()
		case "--extcap-capture-filter":
			s := value()
			x.check = &s
		case "--ports":
			x.ports = append(x.ports, strings.FieldsFunc(value(), func(r rune) bool { return r == ',' || r == ' ' })...)
		case "--filter":
			x.flags.filter = value()
		case "--snaplen":
			x.flags.snapLen = number()
		case "--buffer":
			x.flags.buffer = number()
		case "--keys":
			// A flag of Wireshark's boolean type has no value, one of its type boolflag has.
			if x.flags.keys = true; whole || len(args) > 0 && (args[0] == "true" || args[0] == "false") {
				x.flags.keys = value() != "false"
			}
		}
	}
	x.flags.write = "-" // for the checks of flags: it goes into a file
	return x, err
}

// extcapFabric is a running fabric that can be captured.
type extcapFabric struct {
	name string
	dir  runDir
	t    *topo.Topology
}

// extcapFabrics are all that run.
func extcapFabrics(ctx context.Context) (out []extcapFabric) {
	for _, name := range runningFabrics(ctx) {
		dir, err := dirFor(name)
		if err != nil {
			continue
		}
		if _, t, _, err := dir.mesh(); err == nil {
			out = append(out, extcapFabric{name, dir, t})
		}
	}
	return out
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

// find is the fabric, and the chip if it is one, that an interface stands for.
func (x *extcapRequest) find(ctx context.Context) (f extcapFabric, chip string, err error) {
	rest, ok := strings.CutPrefix(x.iface, extcapPrefix)
	if !ok {
		return f, "", spec.Usagef("interface %q: want one that 'ttfabric extcap --extcap-interfaces' lists", x.iface)
	}
	all := extcapFabrics(ctx)
	for _, f := range all {
		if rest == f.name {
			return f, "", nil
		}
	}
	for _, f := range all {
		if chip, ok := strings.CutPrefix(rest, f.name+"-"); ok {
			if n, err := wire.ParseFabricNodeID(chip); err == nil {
				if _, ok := f.t.Chip(n); ok {
					return f, chip, nil
				}
			}
		}
	}
	return f, "", fmt.Errorf("interface %q: no such fabric is running, or no such chip is in it; 'ttfabric ls' lists the fabrics", x.iface)
}

func (x *extcapRequest) run(ctx context.Context, w io.Writer) error {
	switch {
	case x.list:
		return listExtcap(ctx, w)
	case x.dlts:
		_, err := fmt.Fprintln(w, "dlt {number=1}{name=EN10MB}{display=Ethernet}")
		return err
	case x.config:
		f, chip, err := x.find(ctx)
		if err != nil {
			return err
		}
		return configExtcap(w, f, chip)
	case x.capture:
		return x.captureTo(ctx)
	case x.check != nil: // what is printed is why the filter is wrong
		if _, err := capture.ParseFilter(*x.check); err != nil {
			fmt.Fprintln(w, err)
		}
		return nil
	}
	return spec.Usagef("extcap is called by Wireshark; for people there is 'ttfabric capture'")
}

func listExtcap(ctx context.Context, w io.Writer) error {
	fmt.Fprintf(w, "extcap {version=%s}{help=https://www.wireshark.org/docs/man-pages/extcap.html}{display=TT-Fabric}\n", extcapText(version()))
	for _, f := range extcapFabrics(ctx) {
		fmt.Fprintf(w, "interface {value=%s%s}{display=ttfabric: %s, all %d chips (%s)}\n", extcapPrefix, f.name, f.name, len(f.t.Chips), extcapText(f.t.Name))
		if len(f.t.Chips) > maxExtcapChips {
			continue
		}
		for _, c := range f.t.Chips {
			fmt.Fprintf(w, "interface {value=%s%s-%s}{display=ttfabric: %s, chip %s}\n", extcapPrefix, f.name, c.Node, f.name, c.Node)
		}
	}
	return nil
}

// extcapText keeps braces out of a text between braces.
func extcapText(s string) string { return strings.NewReplacer("{", "(", "}", ")").Replace(s) }

// configExtcap lists the options of an interface: which ports, and the flags of 'capture'.
func configExtcap(w io.Writer, f extcapFabric, chip string) error {
	fmt.Fprintln(w, "arg {number=0}{call=--ports}{display=Chips and ports}{tooltip=Where to capture; none: everywhere}{type=multicheck}")
	fmt.Fprintln(w, "arg {number=1}{call=--filter}{display=Filter}{tooltip=Such as: data and dst M0D3, or: retransmission or nack. 'ttfabric capture --help' has all}{type=string}")
	fmt.Fprintln(w, "arg {number=2}{call=--snaplen}{display=Bytes of each frame}{tooltip=0: all}{type=unsigned}{default=0}{range=0,262144}")
	fmt.Fprintln(w, "arg {number=3}{call=--buffer}{display=MiB that may wait in each chip}{tooltip=0: 16}{type=unsigned}{default=0}{range=0,1024}")
	fmt.Fprintln(w, "arg {number=4}{call=--keys}{display=Keys of QUIC ports}{tooltip=Puts the TLS keys into the capture, so that whoever has it can decrypt them}{type=boolflag}{default=false}")
	for _, c := range f.t.Chips {
		if name := c.Node.String(); chip == "" || name == chip {
			fmt.Fprintf(w, "value {arg=0}{value=%s}{display=%s, all ports}{default=false}{enabled=true}\n", name, name)
			for _, p := range f.t.Ports(c.Node) {
				fmt.Fprintf(w, "value {arg=0}{value=%s:%d}{display=%s to %s, plane %d}{default=false}{enabled=true}{parent=%s}\n",
					name, p.Local.Channel, capture.PortName(p.Local), capture.PortName(p.Peer), p.Plane, name)
			}
		}
	}
	return nil
}

// captureTo captures to the pipe that Wireshark has made, until it closes it or ends this process.
func (x *extcapRequest) captureTo(ctx context.Context) error {
	if x.fifo == "" {
		return spec.Usagef("--capture: name the pipe with --fifo")
	}
	f, chip, err := x.find(ctx)
	if err != nil {
		return err
	}
	if x.check != nil && *x.check != "" { // the one that stands in Wireshark's own field
		if x.flags.filter != "" {
			x.flags.filter = fmt.Sprintf("(%s) and (%s)", x.flags.filter, *x.check)
		} else {
			x.flags.filter = *x.check
		}
	}
	if err := x.flags.check(); err != nil {
		return err
	}
	if chip != "" && len(x.ports) == 0 {
		x.ports = []string{chip}
	}
	where, err := capturedPorts(f.t, x.ports)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(x.fifo, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the pipe: %w", err)
	}
	defer out.Close()
	j := &captureJob{dir: f.dir, t: f.t, where: where, flags: &x.flags}
	j.sink = newPcapSink(out, &x.flags, j.section())
	return j.run(ctx)
}
