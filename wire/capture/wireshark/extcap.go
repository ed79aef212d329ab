package wireshark

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// This file has ttfabric's side of the protocol between Wireshark and capture plugins. Wireshark's
// extcap(4) and doc/extcap.adoc describe the protocol.

// InterfacePrefix is the prefix of the names of all interfaces that the plugin offers.
const InterfacePrefix = "ttfabric-"

// maxInterfaceChips is the largest number of chips in a fabric for which the plugin offers an
// interface for each chip.
const maxInterfaceChips = 64

// Request is one call of the plugin by Wireshark, tshark or dumpcap, with its arguments.
type Request struct {
	List    bool // --extcap-interfaces: list the interfaces
	DLTs    bool // --extcap-dlts: list the link types of an interface
	Config  bool // --extcap-config: list the options of an interface
	Capture bool // --capture: capture, and write the packets into FIFO

	Interface string
	FIFO      string  // path of the named pipe that Wireshark reads
	Check     *string // --extcap-capture-filter: filter from Wireshark's field for capture filters; nil: not given

	// The options of an interface that [PrintOptions] offers.
	Ports   []string // where to capture: chips (M0D3) and ports (M0D3:8); empty: all ports
	Filter  string   // filter in the language of [capture.ParseFilter]
	SnapLen int      // number of bytes of each frame that the capture keeps; 0: all
	Buffer  int      // size of each chip's buffer for captured datagrams, in MiB; 0: the chip's default
	Keys    bool     // write the TLS keys of QUIC ports into the capture
}

// ParseRequest parses the arguments of a call. ParseRequest ignores unknown arguments, because
// later versions of Wireshark may add arguments. If the value of --snaplen or --buffer is not a
// whole number of at least 0, the error names the option.
func ParseRequest(args []string) (x Request, err error) {
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
			if (e != nil || n < 0) && err == nil {
				err = fmt.Errorf("%s %q: want a whole number", name, s)
			}
			return n
		}
		switch name {
		case "--extcap-interfaces":
			x.List = true
		case "--extcap-dlts":
			x.DLTs = true
		case "--extcap-config":
			x.Config = true
		case "--capture":
			x.Capture = true
		case "--extcap-interface":
			x.Interface = value()
		case "--fifo":
			x.FIFO = value()
		case "--extcap-capture-filter":
			s := value()
			x.Check = &s
		case "--ports":
			x.Ports = append(x.Ports, strings.FieldsFunc(value(), func(r rune) bool { return r == ',' || r == ' ' })...)
		case "--filter":
			x.Filter = value()
		case "--snaplen":
			x.SnapLen = number()
		case "--buffer":
			x.Buffer = number()
		case "--keys":
			// For an option of type boolean, Wireshark passes no value. For an option of type
			// boolflag, Wireshark passes true or false.
			if x.Keys = true; whole || len(args) > 0 && (args[0] == "true" || args[0] == "false") {
				x.Keys = value() != "false"
			}
		}
	}
	return x, err
}

// WholeFilter returns the filter of a capture. A frame passes this filter if the frame passes the
// option --filter and the filter from Wireshark's field for capture filters.
func (x *Request) WholeFilter() string {
	switch {
	case x.Check == nil || *x.Check == "":
		return x.Filter
	case x.Filter == "":
		return *x.Check
	}
	return fmt.Sprintf("(%s) and (%s)", x.Filter, *x.Check)
}

// Fabric is a running fabric at which Wireshark can capture.
type Fabric struct {
	Name     string
	Topology *topo.Topology
}

// Find returns the fabric that an interface stands for, as an index into the list "all". If the
// interface stands for one chip, Find also returns the chip's name. If the fabric or the chip does
// not exist, ok is false.
func Find(all []Fabric, iface string) (fabric int, chip string, ok bool) {
	rest, ours := strings.CutPrefix(iface, InterfacePrefix)
	if !ours {
		return 0, "", false
	}
	if i := slices.IndexFunc(all, func(f Fabric) bool { return rest == f.Name }); i >= 0 {
		return i, "", true
	}
	for i, f := range all {
		if chip, ok := strings.CutPrefix(rest, f.Name+"-"); ok {
			if n, err := wire.ParseFabricNodeID(chip); err == nil {
				if _, ok := f.Topology.Chip(n); ok {
					return i, chip, true
				}
			}
		}
	}
	return 0, "", false
}

// PrintInterfaces prints the answer to --extcap-interfaces. The answer has the program's version
// and an interface for each fabric. If a fabric has at most 64 chips, the answer also has an
// interface for each chip.
func PrintInterfaces(w io.Writer, version string, all []Fabric) {
	fmt.Fprintf(w, "extcap {version=%s}{help=https://www.wireshark.org/docs/man-pages/extcap.html}{display=TT-Fabric}\n", braceless(version))
	for _, f := range all {
		chips := f.Topology.Chips
		fmt.Fprintf(w, "interface {value=%s%s}{display=ttfabric: %s, all %d chips (%s)}\n", InterfacePrefix, f.Name, f.Name, len(chips), braceless(f.Topology.Name))
		if len(chips) > maxInterfaceChips {
			continue
		}
		for _, c := range chips {
			fmt.Fprintf(w, "interface {value=%s%s-%s}{display=ttfabric: %s, chip %s}\n", InterfacePrefix, f.Name, c.Node, f.Name, c.Node)
		}
	}
}

// PrintDLTs prints the answer to --extcap-dlts: Ethernet, the link type of all interfaces.
func PrintDLTs(w io.Writer) {
	fmt.Fprintln(w, "dlt {number=1}{name=EN10MB}{display=Ethernet}")
}

// PrintOptions prints the answer to --extcap-config: the options of an interface. The options are
// the ports of the fabric t, and some flags of 'ttfabric capture'. If chip is not empty,
// PrintOptions prints only the ports of this chip.
func PrintOptions(w io.Writer, t *topo.Topology, chip string) {
	fmt.Fprintln(w, "arg {number=0}{call=--ports}{display=Chips and ports}{tooltip=Where to capture; nothing chosen: at all ports}{type=multicheck}")
	fmt.Fprintln(w, "arg {number=1}{call=--filter}{display=Filter}{tooltip=Such as: data and dst M0D3, or: retransmission or nack. 'ttfabric capture --help' describes all filters}{type=string}")
	fmt.Fprintf(w, "arg {number=2}{call=--snaplen}{display=Bytes to keep of each frame}{tooltip=0: all}{type=unsigned}{default=%d}{range=0,262144}\n", capture.DefaultSnapLen)
	fmt.Fprintf(w, "arg {number=3}{call=--buffer}{display=Buffer in each chip, in MiB}{tooltip=0: %d}{type=unsigned}{default=0}{range=0,%d}\n", capture.DefaultBuffer>>20, capture.MaxBuffer>>20)
	fmt.Fprintln(w, "arg {number=4}{call=--keys}{display=Keys of QUIC ports}{tooltip=Puts the TLS keys into the capture. Everybody who has the capture can then decrypt the QUIC packets}{type=boolflag}{default=false}")
	for _, c := range t.Chips {
		name := c.Node.String()
		if chip != "" && name != chip {
			continue
		}
		fmt.Fprintf(w, "value {arg=0}{value=%s}{display=%s, all ports}{default=false}{enabled=true}\n", name, name)
		for _, p := range t.Ports(c.Node) {
			fmt.Fprintf(w, "value {arg=0}{value=%s:%d}{display=%s to %s, plane %d}{default=false}{enabled=true}{parent=%s}\n",
				name, p.Local.Channel, capture.PortName(p.Local), capture.PortName(p.Peer), p.Plane, name)
		}
	}
}

// PrintFilterFault prints the answer to --extcap-capture-filter: the error in the filter. For a
// valid filter, PrintFilterFault prints nothing.
func PrintFilterFault(w io.Writer, filter string) {
	if _, err := capture.ParseFilter(filter); err != nil {
		fmt.Fprintln(w, err)
	}
}

// braceless replaces braces by parentheses, because extcap answers use braces as delimiters.
func braceless(s string) string { return strings.NewReplacer("{", "(", "}", ")").Replace(s) }
