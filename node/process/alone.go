package process

import (
	"context"
	"io"
	"math"
	"net/netip"
	"os"
	"strings"

	"ttfabric/membership/gossip"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Options describes a chip that has no run folder. All fields except In are values of flags of
// 'ttfabric node'.
type Options struct {
	Name     string            // name of the fabric
	Chip     wire.FabricNodeID // mesh and number of the chip
	Spec     spec.Spec         // options of the fabric; see [spec.Default]
	Topology string            // file with the topology, or name of a built-in topology; "": the text in the environment variable TTFABRIC_TOPOLOGY_TEXT, else [folder.DefaultTopology]

	Listen     string   // address, interface or network for data ports and gossip; "": the address from which this machine sends to a seed, or loopback without seeds
	Advertise  string   // address that other chips use for this chip; "": the address of Listen
	GossipPort uint16   // TCP and UDP port of gossip; 0: any free port
	MTU        int      // length of the longest IP packet that links send, in bytes; 0: each link finds out the longest packet of its path
	Seeds      []string // hosts on which other chips run, as [CHIP/]HOST[:PORT]; the chip joins the gossip through these hosts

	API        string // address of the chip's API, as HOST:PORT
	TokenFile  string // file with the bearer token of the API; "": the environment variable TTFABRIC_TOKEN has the token
	GossipKey  string // file with the gossip keys; "": gossip is not encrypted
	TileMemory string // limit of this machine's memory that the tiles of the chip may take, such as 128m; "": the default
	SocketDir  string // folder for the chip's Unix socket for local programs; "": the chip has no such socket
	SocketUser int    // id of a user who may use this socket, besides the chip's user and root; 0: nobody else
	Once       string // folder with settings for one start of the chip, see [folder.Once]; "": none

	Trust    []string  // private networks, or interfaces to such networks, in which the chip accepts --auth none
	Insecure bool      // whether the chip accepts --auth none in any network
	In       io.Reader // the chip reads a key from In if the name of the key's file is "-"
}

// DefaultGossipPort is the default of --gossip-port. The memberlist library has the same default.
const DefaultGossipPort = 7946

// Alone returns the configuration of a chip that has no run folder. If a flag has a bad
// value, the error says which value is bad. Most of these errors have the kind
// [spec.Usage].
func Alone(ctx context.Context, o Options) (*Config, error) {
	if err := spec.CheckName(o.Name); err != nil {
		return nil, err
	}
	t, err := o.load(ctx)
	if err != nil {
		return nil, err
	}
	if _, ok := t.Chip(o.Chip); !ok {
		return nil, spec.Usagef("--chip %s: no such chip is in topology %s", o.Chip, t)
	}
	if o.SocketUser < 0 || int64(o.SocketUser) > math.MaxUint32 || o.SocketUser != 0 && o.SocketDir == "" {
		return nil, spec.Usagef("--socket-user %d: want the id of a user, and the folder of the socket with --socket-dir", o.SocketUser)
	}
	if o.MTU != 0 && (o.MTU < spec.MinMTU || o.MTU > spec.MaxMTU) {
		return nil, spec.Usagef("--mtu %d: want %d to %d bytes, or 0 to find out", o.MTU, spec.MinMTU, spec.MaxMTU)
	}
	if o.Spec.PortBase < 0 || o.Spec.PortBase+spec.ChannelStride > 1<<16 {
		return nil, spec.Usagef("--port-base %d: a chip needs %d consecutive ports; want at most %d, or 0 for any free ports", o.Spec.PortBase, spec.ChannelStride, 1<<16-spec.ChannelStride)
	}
	if err := o.volume(); err != nil {
		return nil, err
	}
	c := &Config{Chip: o.Chip, Topology: t, running: func(folder.Chip) error { return nil }, gone: func() bool { return false },
		Address: Address{API: o.API, Gossip: o.GossipPort, PortBase: uint16(o.Spec.PortBase)}}
	if c.Spec, err = spec.New(o.Name, t, o.Spec); err != nil {
		return nil, err
	}
	c.Spec.ID = o.Name // all chips of the fabric need one ID, and the fabric's name is known to all chips
	if c.Spec.Archive != "" {
		c.Archive = folder.Dir("").ArchiveConfig(&c.Spec, o.Chip)
	}
	if c.Tiles = int64(spec.Bytes(o.TileMemory)); o.TileMemory != "" && c.Tiles == 0 {
		return nil, spec.Usagef("--tile-memory %q: want an amount such as 128m or 1g", o.TileMemory)
	}
	if c.Token, err = o.token(); err != nil {
		return nil, err
	}
	if c.Keys, err = o.keyring(ctx); err != nil {
		return nil, err
	}
	c.Spec.Keyed = c.Keys != nil
	if o.SocketDir != "" {
		c.socket = folder.Dir(o.SocketDir).ChipPath(o.Chip, ".sock")
		if o.SocketUser != 0 {
			c.users = []uint32{uint32(o.SocketUser)}
		}
	}
	list, err := parseSeeds(o.Seeds)
	if err != nil {
		return nil, err
	}
	if err := o.address(ctx, &c.Address, list); err != nil {
		return nil, err
	}
	if c.Ports, err = o.ports(ctx, &c.Spec, c.Address.Listen); err != nil {
		return nil, err
	}
	self := c.Address.Advertise
	if !self.IsValid() {
		self = c.Address.Listen
	}
	c.seeds = func(p pool) []string {
		return list.addresses(ctx, p, o.Chip, netip.AddrPortFrom(self, o.GossipPort))
	}
	return c, nil
}

// address sets a.Listen, the address on which the chip listens, and a.Advertise, the
// address that other chips use for this chip. If Listen names an interface or a network,
// and Advertise is "", the chip follows changes of the address; see [Address.follow].
func (o *Options) address(ctx context.Context, a *Address, list seedList) (err error) {
	if a.Listen, err = listenAddr(ctx, o.Listen, list); err != nil {
		return err
	}
	if _, err := netip.ParseAddr(o.Listen); err != nil && o.Listen != "" && o.Advertise == "" {
		a.follow(o.Listen)
	}
	if o.Advertise != "" {
		if a.Advertise, err = netip.ParseAddr(o.Advertise); err != nil {
			return spec.Usagef("--advertise %q: want an IP address", o.Advertise)
		}
	} else if a.Listen.IsUnspecified() && !a.Advertise.IsValid() {
		return spec.Usagef("--listen %s: the chip would listen on all addresses; name the address that other chips use for this chip with --advertise", a.Listen)
	}
	return nil
}

// volume reads the settings in the folder of --once, and makes the folder of --keylog. A container
// has both folders in its volume. A new volume does not have the folder of --keylog.
func (o *Options) volume() error {
	once, err := folder.TakeOnce(o.Once, o.Chip)
	if err != nil {
		return err
	}
	if once.Record != "" {
		o.Spec.Record, o.Spec.RecordMiB = once.Record, once.RecordMiB
	}
	if o.Spec.KeyLog == "" {
		return nil
	}
	if err := os.MkdirAll(o.Spec.KeyLog, 0o700); err != nil {
		return spec.Usagef("--keylog: cannot make the folder: %w", err)
	}
	return nil
}

// keyring returns the gossip keys, or nil if the gossip is not encrypted.
func (o *Options) keyring(ctx context.Context) (*gossip.Keys, error) {
	switch o.GossipKey {
	case "":
		return nil, nil
	case "generate":
		return nil, spec.Usagef("--gossip-key generate: all chips need the same key; want a file with the key, which 'ttfabric gossip keygen -f FILE' makes")
	}
	keys, err := folder.ReadKeys(ctx, o.In, "--gossip-key", o.GossipKey)
	if err != nil {
		return nil, err
	}
	return gossip.NewKeys(keys)
}

// load returns the topology that the options name. If the options name no topology, load
// parses the text in the environment variable [spec.TopologyEnv]. If there is no text
// either, load returns the default topology.
func (o *Options) load(ctx context.Context) (*topo.Topology, error) {
	text := os.Getenv(spec.TopologyEnv)
	if o.Topology != "" || text == "" {
		return folder.LoadTopology(ctx, o.Topology)
	}
	t, err := topo.Load(spec.TopologyEnv, []byte(text))
	if err == nil {
		err = spec.CheckDeclared(spec.TopologyEnv, t)
	}
	return t, err
}

// token returns the bearer token of the API. The token is the content of the file that the options
// name. If the file does not exist, token makes the file. If the options name no file, the token
// comes from the environment variable TTFABRIC_TOKEN.
func (o *Options) token() (string, error) {
	token, from := os.Getenv("TTFABRIC_TOKEN"), "TTFABRIC_TOKEN"
	if o.TokenFile != "" {
		if err := folder.MakeToken(o.TokenFile); err != nil {
			return "", spec.Usagef("--token-file: %w", err)
		}
		b, err := os.ReadFile(o.TokenFile)
		if err != nil {
			return "", spec.Usagef("--token-file: %w", err)
		}
		token, from = strings.TrimSpace(string(b)), "--token-file "+o.TokenFile
	}
	switch {
	case token == "":
		return "", spec.Usagef("the chip's API needs a secret token, so that nobody else can send commands to the chip: set TTFABRIC_TOKEN to the output of 'openssl rand -hex 16', or name a file with --token-file")
	case len(token) < folder.MinToken:
		return "", spec.Usagef("%s: a token of %d characters can be guessed; want at least %d characters", from, len(token), folder.MinToken)
	}
	return token, nil
}

// ports returns the value through which the chip opens its ethernet ports. If the chip has --auth none
// and listens in a network that the user does not trust, ports returns an error. Loopback
// counts as trusted. If the chip listens on all addresses, the user must trust at least
// one network, or all networks with --insecure.
func (o *Options) ports(ctx context.Context, s *spec.Spec, listen netip.Addr) (*Ports, error) {
	var psk []byte
	switch s.Auth {
	case spec.PSK:
		if s.PSKFile == "" || s.PSKFile == "generate" {
			return nil, spec.Usagef("--auth psk: all chips share one key; name its file with --psk-file; 'ttfabric gossip keygen -f FILE' makes such a file")
		}
		var err error
		if psk, err = folder.ReadKey(ctx, o.In, "--psk-file", s.PSKFile); err != nil {
			return nil, err
		}
	case spec.MTLS:
		if s.PKI == "" {
			return nil, spec.Usagef("--transport quic: the chip needs a certificate; name its folder with --pki; 'ttfabric pki make' makes the certificates of a fabric")
		}
	}
	within, err := o.within()
	if err != nil {
		return nil, err
	}
	if s.Auth == spec.None && !listen.IsUnspecified() && !within(listen) || s.Auth == spec.None && listen.IsUnspecified() && !o.Insecure && len(o.Trust) == 0 {
		return nil, spec.Usagef(`--auth none at %s: whoever can send to the chip's ports can forge frames. Choose one of these flags:
  --auth psk --psk-file FILE     a key that all chips share; 'ttfabric gossip keygen -f FILE' makes the file
  --transport quic --pki DIR     a certificate for each chip; 'ttfabric pki make' makes the folder
  --trust-network CIDR           trust a private network that only this fabric uses, or the interface to such a network, such as eth0 in a container
  --insecure                     accept forged frames`, listen)
	}
	p, err := newPorts(s, o.Chip, s.PKI, psk, within)
	if err != nil {
		return nil, err
	}
	if p.mtu = o.MTU; o.MTU != 0 && s.Transport == spec.QUIC {
		return nil, spec.Usagef("--mtu %d: QUIC itself finds out the longest packet of each path; leave out --mtu", o.MTU)
	}
	return p, nil
}
