package main

import (
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ttfabric/node"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/kernel/shipped"
	"ttfabric/node/model/serve"
	"ttfabric/node/process"
	"ttfabric/wire"
)

// nodeLong is the help of 'node'.
const nodeLong = `The command runs one chip in this process until a signal stops the process.

With --dir, the chip belongs to the fabric of a run folder. 'ttfabric up' starts
chips in this way. A chip with --dir also ends when the run folder is removed.
Without --dir, the chip stands alone, on a machine or in a container of its own. A
chip that stands alone knows only the fabric's topology and the addresses of some
other chips. All chips of a fabric need the same --name, topology and gossip key.

If the chip stands alone, its gossip uses --gossip-port, TCP and UDP. A chip with a
cable to another mesh (an exit node) also uses the next port number for gossip.
Channel k of the chip uses UDP port --port-base + k.

A seed is a host where another chip gossips. If the seed is a host name, the chip
looks the name up at each attempt to join. A host name may have many addresses. Only
an exit node can use a chip of another mesh as a seed. Name the chip of such a seed
before the host, as in M1D0/HOST.

Containers share no file. Therefore the environment variable TTFABRIC_TOPOLOGY_TEXT
may hold the text of a topology file, if --topology is missing. If the command line
does not name --transport or --auth, the keys transport and auth of this text give
the values. Beyond loopback, a chip refuses 'auth: none' in this text,
and refuses --auth none on the command line, unless --trust-network or --insecure
allows the value.

Prometheus finds counters and gauges of the chip, its links, router and sockets at
GET /metrics of the API. Every API call except /livez and /readyz needs the bearer
token. The file "token" of the run folder holds the token:

  scrape_configs:
  - job_name: ttfabric
    authorization: {credentials_file: /run/user/1000/ttfabric/default/token}
    static_configs: [{targets: ["10.0.1.1:8474"]}]

By default, one thread at a time does the chip's work. The environment variable
GOMAXPROCS allows more threads. The threads have the scheduling policy SCHED_BATCH,
with which they do not interrupt other threads of the machine. If chrt(1) gave the
process another scheduling policy, the threads keep that policy.`

func newNode() *cobra.Command {
	var chip, dir, level string
	o := process.Options{Spec: spec.Default()}
	c := &cobra.Command{
		Use: "node", Short: "Run one chip in this process (what 'up' starts)", Args: cobra.NoArgs,
		Long: nodeLong,
		Example: `  ttfabric node --dir $XDG_RUNTIME_DIR/ttfabric/default --chip M0D3
  ttfabric node --chip M0D3 --topology t3000 --listen eth0 --seeds chip0,chip1 --api 0.0.0.0:8474
  ttfabric node --chip M0D1 --topology ring:4 --gossip-port 7950 --port-base 17016 --seeds 10.0.0.1:7946,10.0.1.1`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if chip == "" && dir != "" { // a model
				return serve.Run(cmd.Context(), folder.Dir(dir), shipped.Kernels, cmd.ErrOrStderr())
			}
			if chip == "" {
				return spec.Usagef("--chip is missing; want a chip, such as --chip M0D3")
			}
			if o.Chip, err = wire.ParseFabricNodeID(chip); err != nil {
				return spec.AsUsage(err)
			}
			var l slog.Level
			if err := l.UnmarshalText([]byte(level)); err != nil {
				return spec.Usagef("--log-level %q: want debug, info, warn or error", level)
			}
			node.ConfigureProcess()
			if err := nodeFlags(cmd.Flags()); err != nil {
				return err
			}
			cfg, err := nodeConfig(cmd, dir, &o)
			if err != nil {
				return fmt.Errorf("chip %s: %w", o.Chip, err)
			}
			cfg.Version, cfg.Kernels = version(), shipped.Kernels
			cfg.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: l})).With("chip", chip)
			return process.Run(cmd.Context(), cfg)
		},
	}
	fl := c.Flags()
	fl.StringVar(&chip, "chip", "", "chip to run, as M<mesh>D<chip>")
	fl.StringVar(&dir, "dir", "", "run folder of the fabric; the folder holds the values of all other flags except --log-level, --record and --record-limit")
	fl.StringVar(&level, "log-level", "info", "lowest level of messages to log: debug, info, warn or error")
	addAlone(c, &o)
	return c
}

// nodeConfig returns the configuration of a chip. The run folder dir gives the
// configuration, except --record and --record-limit. If dir is empty, the options o give
// the whole configuration.
func nodeConfig(cmd *cobra.Command, dir string, o *process.Options) (*process.Config, error) {
	if dir == "" {
		o.Name, _ = cmd.Flags().GetString("name")
		o.In = cmd.InOrStdin()
		return process.Alone(cmd.Context(), *o)
	}
	if err := o.Spec.CheckRecording(); err != nil {
		return nil, err
	}
	cfg, err := process.FromFolder(folder.Dir(dir), o.Chip)
	if err == nil && o.Spec.Record != "" {
		cfg.Spec.Record, cfg.Spec.RecordMiB = o.Spec.Record, o.Spec.RecordMiB
	}
	return cfg, err
}

// addAlone adds the flags of a chip that has no run folder. A chip with a run folder
// takes only --record and --record-limit of these flags.
func addAlone(c *cobra.Command, o *process.Options) {
	fl := c.Flags()
	fl.StringVar(&o.Topology, "topology", "", "topology of the fabric, as for 'up'")
	fl.StringVar(&o.Listen, "listen", "", "address, interface or network (10.0.0.0/16) of data ports and gossip (default: the address from which this machine reaches the first seed; without seeds 127.0.0.1)")
	fl.StringVar(&o.Advertise, "advertise", "", "address by which the other chips reach this chip (default: the address of --listen)")
	fl.Uint16Var(&o.GossipPort, "gossip-port", process.DefaultGossipPort, "port of gossip, TCP and UDP; 0: any free port")
	fl.IntVar(&o.MTU, "mtu", 0, "longest IP packet of the links, in bytes; 0: the links find out the longest packet of each path, by ICMP messages or by trying")
	fl.StringSliceVar(&o.Seeds, "seeds", nil, "hosts where other chips gossip, as [CHIP/]HOST[:PORT],...")
	fl.StringVar(&o.API, "api", "127.0.0.1:0", "address of the chip's API; callers of the API need the token")
	fl.StringVar(&o.TokenFile, "token-file", "", "file with the token of the API; if the file is missing, the chip makes the file, with a random token; without this flag, the environment variable TTFABRIC_TOKEN holds the token itself")
	fl.StringVar(&o.GossipKey, "gossip-key", "", "file with the key that encrypts gossip, as 'gossip keygen' writes; the file may also hold a JSON list of keys, with the key in use first")
	fl.StringVar(&o.TileMemory, "tile-memory", "", "largest amount of this machine's memory that the chip uses to hold the memory of its tiles, such as 128m (default 2g)")
	fl.StringVar(&o.SocketDir, "socket-dir", "", "folder in which the chip opens its Unix socket for local programs, such as the ranks of 'run'; other users must not be able to enter the folder (default: no socket)")
	fl.IntVar(&o.SocketUser, "socket-user", 0, "number of a user who may use the socket, besides the chip's user and root")
	fl.StringVar(&o.Once, "once", "", "folder with a file CHIP.json of settings for this start only; the chip reads and removes the file; 'chip restart --record' writes such a file for a container")
	addOptions(c, &o.Spec, "port-base")
	fl.Lookup("port-base").Usage = "UDP port of channel 0; 0: any free ports"
	addOptions(c, &o.Spec)
	fl.StringSliceVar(&o.Trust, "trust-network", nil, "private networks, such as a container network, in which --auth none is allowed; the name of an interface stands for the interface's networks")
	fl.BoolVar(&o.Insecure, "insecure", false, "allow --auth none in any network, although whoever reaches the ports can forge frames")
}

// nodeFlags returns an error if neither the command line nor the variable
// [spec.TopologyEnv] names a fabric. With --dir, nodeFlags also returns an error if the
// command line has a flag whose value the run folder holds.
func nodeFlags(fl *pflag.FlagSet) (err error) {
	if !fl.Changed("dir") {
		if !fl.Changed("topology") && os.Getenv(spec.TopologyEnv) == "" {
			return spec.Usagef("no fabric is named; want the fabric's run folder with --dir, or the fabric's --topology and --seeds; see 'ttfabric node --help'")
		}
		return nil
	}
	inFolder := []string{"dir", "chip", "log-level", "record", "record-limit", "name", "output"}
	fl.Visit(func(x *pflag.Flag) {
		if !slices.Contains(inFolder, x.Name) {
			err = spec.Usagef("--%s: the run folder of --dir holds this value already; leave out --%s", x.Name, x.Name)
		}
	})
	return err
}
