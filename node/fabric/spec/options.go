package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/router/route"
	"ttfabric/router/topo"
)

// Option is one value that people choose for a fabric. A user sets the value with a flag of a
// command, or with an environment variable. A chip's process reads the value from the run folder,
// or gets the value as an argument.
type Option struct {
	Name  string   // name of the flag, without dashes
	Usage string   // one line for --help
	Words []string // all words that the option accepts (stuck also accepts several words with commas); nil: the option has no such list
	// Value returns a pointer to the option's field: *string, *int, *bool, *time.Duration or *[]string.
	Value func(*Spec) any
	// Container says that the option is passed unchanged to a chip's process in a container.
	Container bool
	// Running is advice for a user who names the option in a command for a running fabric. A
	// command refuses every value of an option that has such advice. If Running is "", a command
	// accepts the value that the fabric has, and refuses every other value, except as Unknown says.
	Running string
	// Unknown says that a command accepts any value of the option if the chips of the running
	// fabric are containers, or run on other machines.
	Unknown bool
}

// Options are all options of a fabric.
var Options = []Option{
	{Name: "profile", Words: []string{"lan", "crowded", "paced"}, Value: func(s *Spec) any { return &s.Profile }, Container: true,
		Usage: "profile of link timers: lan, crowded or paced (default: paced over QUIC; crowded if 'up' starts more chips than the machine has cores; else lan)"},
	{Name: "slots", Words: slotNames(), Value: func(s *Spec) any { return &s.Slots }, Container: true,
		Usage: "sizes of the router's channels: " + strings.Join(slotNames(), ", ") + "; spec has the sizes of the specification, fast has larger sizes for long windows"},
	{Name: "order", Words: []string{"xy", "yx", "none"}, Value: func(s *Spec) any { return &s.Order }, Container: true,
		Usage: "order in which routes cross the dimensions: xy (specification), yx (tt-metal), none (a route turns only to the right, which can deadlock)"},
	{Name: "ring", Words: []string{"dateline", "bubble", "none"}, Value: func(s *Spec) any { return &s.Ring }, Container: true,
		Usage: "method that keeps rings and tori free of deadlock: dateline (specification), bubble (tt-metal), none"},
	{Name: "engine", Words: engineNames(), Value: func(s *Spec) any { return &s.Engine }, Container: true,
		Usage: "routing engine: " + engineHelp()},
	{Name: "fabric", Words: []string{"1d", "2d"}, Value: func(s *Spec) any { return &s.Fabric }, Container: true,
		Usage: "dimensions of the fabric: 2d (packets turn between rows and columns), 1d (each row and column is a line or ring of its own)"},
	{Name: "exits", Words: []string{"shortest", "printed"}, Value: func(s *Spec) any { return &s.Exits }, Container: true,
		Usage: "exit nodes between meshes: shortest (fewest crossings), printed (as the specification's L1 table, which goes from Mesh 3 to Mesh 2 through Mesh 1)"},
	{Name: "stuck", Words: []string{"notify", "drop", "drain", "none"}, Value: func(s *Spec) any { return &s.Stuck }, Container: true,
		Usage: "what a chip does about a packet that cannot move: notify (report an event), drop (drop the first packet of the channel), drain (drop the packets behind the first), none (only count); several values stand with commas between them"},
	{Name: "stuck-after", Value: func(s *Spec) any { return (*time.Duration)(&s.StuckAfter) }, Container: true, Unknown: true,
		Usage: "time without movement after which a packet counts as stuck (see --stuck); 0: never"},
	{Name: "ttl", Value: func(s *Spec) any { return &s.TTL }, Container: true, Unknown: true,
		Usage: "number of hops after which a router drops a packet; 0: the number of hops of the longest route"},
	{Name: "strict-ttl", Value: func(s *Spec) any { return &s.StrictTTL }, Container: true, Unknown: true,
		Usage: "drop a packet whose TTL is 0 also at its destination, as the specification says; the default of --ttl is then one more hop"},
	{Name: "frame", Value: func(s *Spec) any { return &s.Frame }, Container: true, Unknown: true,
		Usage: "largest payload of a link's frame, in bytes, such as 1500 as in Tenstorrent's CCL guide; links cut longer packets into several frames, and round down to a multiple of 32; 0: frames are as long as the path allows"},
	{Name: "archive-limit", Value: func(s *Spec) any { return &s.ArchiveMiB }, Container: true, Running: "'ttfabric down' stops the fabric",
		Usage: "disk space for the archived events of one chip, in MiB; a chip removes its oldest events first (default 2)"},
	{Name: "offload", Words: []string{"on", "off", "plain"}, Value: func(s *Spec) any { return &s.Offload }, Container: true,
		Usage: "how ports hand datagrams to the kernel: on (up to 64 datagrams as one super-packet, by UDP GSO and GRO), off (single datagrams, which is slower), plain (as off, with one system call per datagram)"},
	{Name: "host-memory", Value: func(s *Spec) any { return &s.HostMemory }, Container: true, Unknown: true,
		Usage: "size of the host memory that a chip provides, such as 512m, at most 4g; 0: none; programs on the chip's machine use host memory with the queues of the base firmware; only written pages take room"},
	{Name: "local-first", Value: func(s *Spec) any { return &s.LocalFirst }, Container: true, Unknown: true,
		Usage: "let a chip send its own packets before packets that pass through; without this flag, both kinds take turns"},
	{Name: "keep-unreliable", Value: func(s *Spec) any { return &s.KeepUnreliable }, Container: true, Unknown: true,
		Usage: "keep a link's frames on its cable even if the cable loses or damages many frames; without this flag, the frames move to a parallel cable"},
	{Name: "allow-deadlock", Value: func(s *Spec) any { return &s.AllowDeadlock }, Container: true, Unknown: true,
		Usage: "accept routes that can deadlock, for example to watch a deadlock"},
	{Name: "netem", Value: func(s *Spec) any { return &s.Netem }, Container: true, Running: "'ttfabric netem set' impairs its cables",
		Usage: "impair cables from the start of the fabric, for example LINK,delay=1ms,loss=1%; the keys are the flags of 'netem set'; the flag may be repeated"},
	{Name: "port-base", Value: func(s *Spec) any { return &s.PortBase }, Unknown: true,
		Usage: "UDP port of the first chip's channel 0; each chip takes 16 consecutive ports; 0: any free ports"},
	{Name: "transport", Words: topo.Transports, Value: func(s *Spec) any { return &s.Transport }, Running: keepsLinks,
		Usage: "transport of the links' frames: udp, or quic (QUIC datagrams) (default: the value in the topology file, else udp)"},
	{Name: "auth", Words: topo.Auths, Value: func(s *Spec) any { return &s.Auth }, Running: keepsLinks,
		Usage: "how chips authenticate each other: none, psk (UDP, encrypted with a shared key), mtls (certificates, with quic) (default: the value in the topology file, else none with udp, mtls with quic)"},
	{Name: "psk-file", Value: func(s *Spec) any { return &s.PSKFile }, Running: keepsLinks,
		Usage: "file with the pre-shared key of --auth psk, which 'gossip keygen' writes (default: 'up' makes a new key)"},
	{Name: "pki", Value: func(s *Spec) any { return &s.PKI }, Running: keepsLinks,
		Usage: "folder with the chips' certificates, which 'pki make' writes (default: 'up' makes new certificates)"},
	{Name: "keylog", Value: func(s *Spec) any { return &s.KeyLog }, Running: keepsLinks,
		Usage: "folder in which each chip logs the secrets of its QUIC connections, for Wireshark; whoever has the secrets can decrypt the packets"},
	{Name: "archive", Value: func(s *Spec) any { return &s.Archive }, Running: "'ttfabric down' stops the fabric",
		Usage: "folder for the archive of events, in a subfolder with the fabric's name, which 'down' keeps (default: a folder in the run folder, which 'down' removes)"},
	{Name: "record", Value: func(s *Spec) any { return &s.Record }, Running: "a recording begins when a chip starts; 'ttfabric chip restart CHIP --record DIR' restarts a chip",
		Usage: "record every call into each chip to this folder, one file per start of a chip, for 'ttfabric replay'"},
	{Name: "record-limit", Value: func(s *Spec) any { return &s.RecordMiB }, Running: "a recording begins when a chip starts; 'ttfabric chip restart CHIP --record DIR --record-limit MiB' restarts a chip",
		Usage: "size of a recording's file at which the recording ends, in MiB"},
}

const keepsLinks = "a running fabric keeps the transport and keys of its links; 'ttfabric down' stops the fabric"

// RoutingOptions and RecordOptions are names of options. Some commands have the flags of
// only one of these two groups.
var (
	RoutingOptions = []string{"order", "ring", "engine", "fabric", "exits", "allow-deadlock"}
	RecordOptions  = []string{"record", "record-limit"}
)

func engineNames() (names []string) {
	for _, e := range route.Engines {
		names = append(names, e.Name)
	}
	return names
}

func engineHelp() string {
	var engines []string
	for _, e := range route.Engines {
		engines = append(engines, e.Name+" ("+e.Help+")")
	}
	return strings.Join(engines, ", ")
}

// OptionByName returns the option with the given name. OptionByName panics if there is
// no such option.
func OptionByName(name string) *Option {
	i := slices.IndexFunc(Options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		panic("spec: there is no option " + name)
	}
	return &Options[i]
}

// Text returns the option's value in s, as a user would write the value on a command line.
// Text joins the values of a repeated flag with spaces.
func (o *Option) Text(s *Spec) string {
	switch v := o.Value(s).(type) {
	case *string:
		return *v
	case *int:
		return fmt.Sprint(*v)
	case *bool:
		return fmt.Sprint(*v)
	case *time.Duration:
		return v.String()
	case *[]string:
		return strings.Join(*v, " ")
	default:
		panic(fmt.Sprintf("spec: option %s has a value of type %T", o.Name, v))
	}
}

// Arguments returns the command-line arguments for a chip's process in a container. The arguments
// name every option with [Option.Container] that has another value than the default.
func (s *Spec) Arguments() (out []string) {
	usual := Default()
	for i := range Options {
		o := &Options[i]
		text := o.Text(s)
		switch v := o.Value(s).(type) {
		case *bool:
			if o.Container && *v {
				out = append(out, "--"+o.Name)
			}
		case *[]string:
			for _, x := range *v {
				if o.Container {
					out = append(out, "--"+o.Name, x)
				}
			}
		default:
			if o.Container && text != o.Text(&usual) {
				out = append(out, "--"+o.Name, text)
			}
		}
	}
	return out
}

// RefuseRunning returns an error of kind [Usage] if the option's value in a command is refused for
// a running fabric; see [Option.Running]. The parameter s is the spec of the running fabric. The
// parameter "want" has the value that the command names. If s has no value for the option,
// RefuseRunning accepts any value.
func (o *Option) RefuseRunning(s, want *Spec) error {
	if o.Running != "" {
		return Usagef("--%s: fabric %q runs already; %s", o.Name, s.Name, o.Running)
	}
	has, asked := o.Text(s), o.Text(want)
	if has == "" || has == asked || o.Unknown && s.Runtime != "" {
		return nil
	}
	return Usagef("--%s %s: fabric %q runs already, with --%s %s; 'ttfabric down --name %s' stops that fabric, or choose another --name", o.Name, asked, s.Name, o.Name, has, s.Name)
}
