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
	"ttfabric/node/process"
	"ttfabric/wire"
)

// nodeLong is the help of 'node'.
const nodeLong = `node runs one chip until it is told to stop: one of the fabric whose run folder
is given, as 'ttfabric up' starts them, or one that knows nothing but its
topology and where some of the others are, on a machine or in a container of
its own. The chips of a fabric have their --name, topology and gossip key in
common.

The ports of one that stands alone are fixed by --gossip-port, TCP and UDP,
with the next one for chips that have a cable to another mesh, and by
--port-base: channel k of the chip is at the k-th UDP port from there. A seed is
a host where another chip gossips; a name is looked up at each attempt, and
may have many addresses. A chip of another mesh is a seed for exit nodes only,
and is best named with its chip, as M1D0/HOST.

Containers share no file: without --topology, the environment variable
TTFABRIC_TOPOLOGY_TEXT may hold the text of a topology file. What such a file says
of transport and auth is what the flags say, where these are left out; its auth: none, too, is refused beyond loopback.

Prometheus finds counters and gauges of the chip, its links, router and sockets at
GET /metrics of the API. As all calls but /livez and /readyz it wants the
bearer token, which is in the file "token" of the run folder:

  scrape_configs:
  - job_name: ttfabric
    authorization: {credentials_file: /run/user/1000/ttfabric/default/token}
    static_configs: [{targets: ["10.0.1.1:8474"]}]

A chip's work is done by one thread at a time; the environment variable
GOMAXPROCS gives it more. Its threads wait for their turn instead of interrupting
others (SCHED_BATCH), unless the process was given another policy with chrt(1).`

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
			if chip == "" {
				return spec.Usagef("name the chip with --chip, such as --chip M0D3")
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
			cfg.Version = version()
			cfg.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: l})).With("chip", chip)
			return process.Run(cmd.Context(), cfg)
		},
	}
	fl := c.Flags()
	fl.StringVar(&chip, "chip", "", "the chip, as M<mesh>D<chip>")
	fl.StringVar(&dir, "dir", "", "run folder of the fabric; all other flags but --log-level and --record are in it")
	fl.StringVar(&level, "log-level", "info", "debug, info, warn or error")
	addAlone(c, &o)
	return c
}

// nodeConfig is the configuration of a chip of a run folder, or of a chip that has none.
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

// addAlone adds the flags of a chip that has no run folder.
func addAlone(c *cobra.Command, o *process.Options) {
	fl := c.Flags()
	fl.StringVar(&o.Topology, "topology", "", "what the fabric is, as for 'up'")
	fl.StringVar(&o.Listen, "listen", "", "address, interface or network (10.0.0.0/16) of data ports and gossip (default: from where the first seed is reached; without seeds 127.0.0.1)")
	fl.StringVar(&o.Advertise, "advertise", "", "address that the other chips are told, if it is another")
	fl.Uint16Var(&o.GossipPort, "gossip-port", process.DefaultGossipPort, "port of gossip, TCP and UDP; 0: any free one")
	fl.IntVar(&o.MTU, "mtu", 0, "longest IP packet of the links, in bytes; 0: what each path takes, as the routers tell, or, where they don't, as the links find out")
	fl.StringSliceVar(&o.Seeds, "seeds", nil, "where other chips gossip, as [CHIP/]HOST[:PORT],...")
	fl.StringVar(&o.API, "api", "127.0.0.1:0", "address of the chip's API; it is asked with the token")
	fl.StringVar(&o.TokenFile, "token-file", "", "file with the token of the API; made, with a random one, where it is not there (default: the environment variable TTFABRIC_TOKEN)")
	fl.StringVar(&o.GossipKey, "gossip-key", "", "encrypt gossip: a file with a key, as 'gossip keygen' writes it, or with several in a JSON list, the one in use first")
	fl.StringVar(&o.TileMemory, "tile-memory", "", "memory of this machine that the chip's memory may take, such as 128m (default 2g)")
	fl.StringVar(&o.Once, "once", "", "folder in which CHIP.json may have settings of this start alone, and is removed as it is read: what 'chip restart --record' tells a container")
	addOptions(c, &o.Spec, "port-base")
	fl.Lookup("port-base").Usage = "UDP port of channel 0; 0: any free ports"
	addOptions(c, &o.Spec)
	fl.StringSliceVar(&o.Trust, "trust-network", nil, "private networks, or interfaces for theirs, in which --auth none is taken, such as a container network")
	fl.BoolVar(&o.Insecure, "insecure", false, "take --auth none anywhere: whoever reaches the ports can forge frames")
}

// nodeFlags refuses what a run folder says already, and a chip of which nothing says what it is part of.
func nodeFlags(fl *pflag.FlagSet) (err error) {
	if !fl.Changed("dir") {
		if !fl.Changed("topology") && os.Getenv(spec.TopologyEnv) == "" {
			return spec.Usagef("name the fabric that the chip is part of: its run folder with --dir, or --topology and --seeds; see 'ttfabric node --help'")
		}
		return nil
	}
	inFolder := []string{"dir", "chip", "log-level", "record", "record-limit", "name", "output"}
	fl.Visit(func(x *pflag.Flag) {
		if !slices.Contains(inFolder, x.Name) {
			err = spec.Usagef("--%s: the run folder that --dir names has it; leave it out", x.Name)
		}
	})
	return err
}
