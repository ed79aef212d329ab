package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ttfabric/router/route"
	"ttfabric/router/topo"
)

// Option is one thing that people choose of a fabric: a flag of commands, an
// environment variable, an argument of a chip's process.
type Option struct {
	Name  string   // of the flag
	Usage string   // one line for --help
	Words []string // the values, where there are few; nil: any
	// Value points to the option's field: *string, *int, *bool, *time.Duration or *[]string.
	Value func(*Spec) any
	// Container says that a chip's process in a container is told the option as it stands.
	Container bool
	// Running says what changes the option of a fabric that runs; "": nothing
	// does, and a command that names another value than the fabric has is refused.
	Running string
	// Unknown says that a fabric of containers, or on other machines, does not tell the option.
	Unknown bool
}

// Options are all options of a fabric, in the order of --help's groups.
var Options = []Option{
	{Name: "profile", Words: []string{"lan", "crowded", "paced"}, Value: func(s *Spec) any { return &s.Profile }, Container: true,
		Usage: "link times: lan, crowded, paced (default: paced over QUIC, crowded where 'up' starts more chips than there are cores)"},
	{Name: "slots", Words: slotNames(), Value: func(s *Spec) any { return &s.Slots }, Container: true,
		Usage: "channel sizes: " + strings.Join(slotNames(), ", ") + "; spec is the specification's, fast is for long windows"},
	{Name: "order", Words: []string{"xy", "yx", "none"}, Value: func(s *Spec) any { return &s.Order }, Container: true,
		Usage: "route order: xy (specification), yx (tt-metal), none (every turn to the right, which can deadlock)"},
	{Name: "ring", Words: []string{"dateline", "bubble", "none"}, Value: func(s *Spec) any { return &s.Ring }, Container: true,
		Usage: "what keeps rings and tori free of deadlock: dateline (specification), bubble (tt-metal), none"},
	{Name: "engine", Words: engineNames(), Value: func(s *Spec) any { return &s.Engine }, Container: true,
		Usage: "routing engine: " + engineHelp()},
	{Name: "fabric", Words: []string{"1d", "2d"}, Value: func(s *Spec) any { return &s.Fabric }, Container: true,
		Usage: "2d, or 1d: rows and columns are lines, or rings, of their own"},
	{Name: "stuck", Words: []string{"notify", "drop", "drain", "none"}, Value: func(s *Spec) any { return &s.Stuck }, Container: true,
		Usage: "what happens to packets that cannot move, one or more: notify (an event), drop (give up the first), drain (what waits behind it in its channel); or none (counted only)"},
	{Name: "stuck-after", Value: func(s *Spec) any { return (*time.Duration)(&s.StuckAfter) }, Container: true, Unknown: true,
		Usage: "when they count as such; 0: never"},
	{Name: "ttl", Value: func(s *Spec) any { return &s.TTL }, Container: true, Unknown: true,
		Usage: "hops after which a packet is dropped; 0: those of the longest route"},
	{Name: "archive-limit", Value: func(s *Spec) any { return &s.ArchiveMiB }, Container: true, Running: "'ttfabric down' stops the fabric",
		Usage: "MiB on disk that the events of one chip may take; the oldest go first (default 2)"},
	{Name: "offload", Words: []string{"on", "off", "plain"}, Value: func(s *Spec) any { return &s.Offload }, Container: true,
		Usage: "on: hand the kernel up to 64 datagrams as one super-packet (UDP GSO, GRO); off: each for itself, so that what the network does, it does to each; slower; plain: with a system call for each, too"},
	{Name: "local-first", Value: func(s *Spec) any { return &s.LocalFirst }, Container: true, Unknown: true,
		Usage: "serve a chip's own packets before those that pass through, instead of in turn"},
	{Name: "allow-deadlock", Value: func(s *Spec) any { return &s.AllowDeadlock }, Container: true, Unknown: true,
		Usage: "take routes that can deadlock, to see it happen"},
	{Name: "netem", Value: func(s *Spec) any { return &s.Netem }, Container: true, Running: "'ttfabric netem set' impairs its cables",
		Usage: "impair cables from the start, as LINK,delay=1ms,loss=1%; keys are the flags of 'netem set'; may be repeated"},
	{Name: "port-base", Value: func(s *Spec) any { return &s.PortBase }, Unknown: true,
		Usage: "UDP port of the first chip's channel 0; each chip takes 16 in a row; 0: any free ports"},
	{Name: "transport", Words: topo.Transports, Value: func(s *Spec) any { return &s.Transport }, Running: keepsLinks,
		Usage: "what carries the links: udp, quic (in QUIC datagrams) (default: as the topology's file says, else udp)"},
	{Name: "auth", Words: topo.Auths, Value: func(s *Spec) any { return &s.Auth }, Running: keepsLinks,
		Usage: "how chips know each other: none, psk (sealed UDP), mtls (certificates, with quic) (default: as the topology's file says, else none with udp, mtls with quic)"},
	{Name: "psk-file", Value: func(s *Spec) any { return &s.PSKFile }, Running: keepsLinks,
		Usage: "file with the pre-shared key, as 'gossip keygen' writes it ('up' makes one without)"},
	{Name: "pki", Value: func(s *Spec) any { return &s.PKI }, Running: keepsLinks,
		Usage: "folder with the certificates, as 'pki make' writes it ('up' makes them without)"},
	{Name: "keylog", Value: func(s *Spec) any { return &s.KeyLog }, Running: keepsLinks,
		Usage: "folder in which each chip writes the secrets of its QUIC connections, for Wireshark: who has them can read all"},
	{Name: "archive", Value: func(s *Spec) any { return &s.Archive }, Running: "'ttfabric down' stops the fabric",
		Usage: "folder to archive the events in, below the fabric's name; 'down' leaves it (default: in the run folder, which 'down' removes)"},
	{Name: "record", Value: func(s *Spec) any { return &s.Record }, Running: "a recording begins with the chip; 'ttfabric chip restart CHIP --record DIR' restarts one",
		Usage: "folder: record every call into each chip, one file per life of a chip, for 'ttfabric replay'"},
	{Name: "record-limit", Value: func(s *Spec) any { return &s.RecordMiB }, Running: "a recording begins with the chip",
		Usage: "MiB of one file at which recording stops"},
}

const keepsLinks = "it keeps what carries its links; 'ttfabric down' stops it"

// RoutingOptions, RecordOptions and LinkOptions are the names of options that some commands take alone.
var (
	RoutingOptions = []string{"order", "ring", "engine", "fabric", "allow-deadlock"}
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

// OptionByName returns the option of that name, and panics where there is none.
func OptionByName(name string) *Option {
	i := slices.IndexFunc(Options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		panic("spec: there is no option " + name)
	}
	return &Options[i]
}

// Text is the option's value as a command line has it.
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

// Arguments are the options that a chip's process in a container is told: the
// profile, and those that differ from the default.
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

// RefuseRunning refuses an option that a command names for a fabric that runs
// already, where the fabric cannot follow. s is the spec of the running fabric,
// want has the value that the command names.
func (o *Option) RefuseRunning(s, want *Spec) error {
	if o.Running != "" {
		return Usagef("--%s: fabric %q runs already; %s", o.Name, s.Name, o.Running)
	}
	has, asked := o.Text(s), o.Text(want)
	if has == "" || has == asked || o.Unknown && s.Runtime != "" {
		return nil
	}
	return Usagef("--%s %s: fabric %q runs already, with %s; 'ttfabric down --name %s' stops it, or choose another --name", o.Name, asked, s.Name, has, s.Name)
}
