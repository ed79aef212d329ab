package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/membership/gossip"
	"ttfabric/node/archive"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// site is where one chip runs: what its fabric is, at which addresses it is
// reached, and through whom it finds the others. It is a run folder's, beside
// the other chips of one machine, or what the flags of 'node' say.
type site struct {
	mesh  spec.Spec
	t     *topo.Topology
	token string
	keys  *gossip.Keys // nil: plain gossip
	tiles int64        // bytes of host memory that tile memory may take; 0: the default
	links *links

	listen    netip.Addr // of data ports and gossip
	iface     string     // whose address the chip has, whatever that becomes; "": of none
	advertise netip.Addr // what others are told; zero: listen
	gossip    uint16     // port of the pool of the mesh, 0 for any; that of the exit nodes is the next
	portBase  uint16     // UDP port of the chip's channel 0; 0: any free ports
	api       string     // host:port

	seeds   func(p poolKind) []string // asked at each attempt to join
	archive archive.Config            // Dir "": events are not archived
	running func(chipFile) error      // is told where the chip is, when it runs
	gone    func() bool               // the chip has nothing to run for any more
}

// poolKind is one of the two gossip pools that a chip may be in: that of its
// mesh, and that of the exit nodes of all meshes.
type poolKind uint8

const (
	meshPool poolKind = iota
	exitPool
)

// site is the place of one of the folder's chips.
func (d runDir) site(id wire.FabricNodeID) (*site, error) {
	m, t, token, err := d.mesh()
	if err != nil {
		return nil, err
	}
	s := &site{mesh: m, t: t, token: token, listen: loopback, api: "127.0.0.1:0", archive: m.archive(d, id)}
	if m.PortBase != 0 {
		s.portBase = uint16(m.PortBase + chipIndex(t.Chips, id)*spec.ChannelStride)
	}
	if m.Keyed {
		keys, err := gossipKeys(m.keysPath(d))
		if err == nil {
			s.keys, err = gossip.NewKeys(keys)
		}
		if err != nil {
			return nil, fmt.Errorf("chip %s: %w", id, err)
		}
	}
	if s.links, err = d.links(&m, id); err != nil {
		return nil, err
	}
	s.seeds = func(p poolKind) []string {
		return seeds(d, func(c chipFile) string {
			switch {
			case c.Chip == id:
				return ""
			case p == exitPool:
				return c.Exits
			case c.Chip.Mesh == id.Mesh:
				return c.Gossip
			}
			return ""
		})
	}
	s.running = func(c chipFile) error { return writeChipFile(d, c) }
	s.gone = func() bool {
		_, err := os.Stat(d.path("mesh.json"))
		return os.IsNotExist(err)
	}
	return s, nil
}

// loopback is where the chips of one machine listen.
var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// aloneFlags are those of a chip that has no run folder.
type aloneFlags struct {
	fabricFlags
	topology, listen, advertise, api, token, keyFile, once string
	seeds                                                  []string
	gossipPort                                             uint16
	mtu                                                    int
	tiles                                                  string
}

func (f *aloneFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.topology, "topology", "", "what the fabric is, as for 'up'")
	fl.StringVar(&f.listen, "listen", "", "address, interface or network (10.0.0.0/16) of data ports and gossip (default: from where the first seed is reached; without seeds 127.0.0.1)")
	fl.StringVar(&f.advertise, "advertise", "", "address that the other chips are told, if it is another")
	fl.Uint16Var(&f.gossipPort, "gossip-port", defaultGossipPort, "port of gossip, TCP and UDP; 0: any free one")
	fl.IntVar(&f.portBase, "port-base", 0, "UDP port of channel 0; 0: any free ports")
	fl.IntVar(&f.mtu, "mtu", 0, "longest IP packet of the links, in bytes; 0: what each path takes, as the routers tell, or, where they don't, as the links find out")
	fl.StringSliceVar(&f.seeds, "seeds", nil, "where other chips gossip, as [CHIP/]HOST[:PORT],...")
	fl.StringVar(&f.api, "api", "127.0.0.1:0", "address of the chip's API; it is asked with the token")
	fl.StringVar(&f.token, "token-file", "", "file with the token of the API; made, with a random one, where it is not there (default: the environment variable TTFABRIC_TOKEN)")
	fl.StringVar(&f.keyFile, "gossip-key", "", "encrypt gossip: a file with a key, as 'gossip keygen' writes it, or with several in a JSON list, the one in use first")
	fl.StringVar(&f.tiles, "tile-memory", "", "memory of this machine that the chip's memory may take, such as 128m (default 2g)")
	fl.StringVar(&f.once, "once", "", "folder in which CHIP.json may have settings of this start alone, and is removed as it is read: what 'chip restart --record' tells a container")
	f.fabricFlags.add(c)
	f.secure.addAlone(c)
}

// defaultGossipPort is memberlist's.
const defaultGossipPort = 7946

// minToken is the least length of the API's token, in bytes.
const minToken = 16

// site is the place of a chip that knows its topology and some others' addresses, and nothing else.
func (f *aloneFlags) site(c *cobra.Command, name string, id wire.FabricNodeID) (*site, error) {
	ctx := c.Context()
	if !validName.MatchString(name) {
		return nil, spec.Usagef("fabric name %q: want letters, digits, '-', '_' and '.', at most 64", name)
	}
	t, err := f.load(c.Context())
	if err != nil {
		return nil, err
	}
	if _, ok := t.Chip(id); !ok {
		return nil, spec.Usagef("--chip %s is not in %s", id, t)
	}
	s := &site{t: t, api: f.api, gossip: f.gossipPort, portBase: uint16(f.portBase), running: func(chipFile) error { return nil }, gone: func() bool { return false }}
	if f.mtu != 0 && (f.mtu < minMTU || f.mtu > maxMTU) {
		return nil, spec.Usagef("--mtu %d: want %d to %d bytes, or 0", f.mtu, minMTU, maxMTU)
	}
	if f.portBase < 0 || f.portBase+spec.ChannelStride > 1<<16 {
		return nil, spec.Usagef("--port-base %d: a chip takes %d ports in a row; the last is 65535", f.portBase, spec.ChannelStride)
	}
	if err := f.volume(id); err != nil {
		return nil, err
	}
	if s.mesh, err = f.mesh(name, t); err != nil {
		return nil, err
	}
	s.mesh.ID = name // the chips of a fabric have nothing else in common
	if s.mesh.Archive != "" {
		s.archive = s.mesh.archive("", id)
	}
	if s.tiles = int64(bytesOf(f.tiles)); f.tiles != "" && s.tiles == 0 {
		return nil, spec.Usagef("--tile-memory %q: want an amount such as 128m or 1g", f.tiles)
	}
	if s.token, err = f.readToken(); err != nil {
		return nil, err
	}
	if s.keys, err = f.keyring(c); err != nil {
		return nil, err
	}
	s.mesh.Keyed = s.keys != nil
	list, err := parseSeeds(f.seeds)
	if err != nil {
		return nil, err
	}
	if s.listen, err = listenAddr(ctx, f.listen, list); err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(f.listen); err != nil && f.listen != "" && f.advertise == "" {
		s.follow(f.listen)
	}
	if f.advertise != "" {
		if s.advertise, err = netip.ParseAddr(f.advertise); err != nil {
			return nil, spec.Usagef("--advertise %q: want an IP address", f.advertise)
		}
	} else if s.listen.IsUnspecified() && !s.advertise.IsValid() {
		return nil, spec.Usagef("--listen %s: say with --advertise at which address the other chips reach this one", s.listen)
	}
	if s.links, err = f.secure.alone(c, &s.mesh, id, s.listen); err != nil {
		return nil, err
	}
	if s.links.mtu = f.mtu; f.mtu != 0 && s.mesh.Transport == spec.QUIC {
		return nil, spec.Usagef("--mtu: QUIC finds out itself how long a packet the path takes; leave it out")
	}
	self := s.advertise
	if !self.IsValid() {
		self = s.listen
	}
	s.seeds = func(p poolKind) []string { return list.addresses(ctx, p, id, netip.AddrPortFrom(self, s.gossip)) }
	return s, nil
}

// volume reads what the folder of --once says, and makes that of --keylog, which a volume that is new does not have.
func (f *aloneFlags) volume(id wire.FabricNodeID) error {
	once, err := takeOnce(f.once, id)
	if err != nil {
		return err
	}
	if once.Record != "" {
		f.record = recordFlags{once.Record, once.RecordMiB}
	}
	if f.secure.keylog == "" {
		return nil
	}
	if err := os.MkdirAll(f.secure.keylog, 0o700); err != nil {
		return spec.Usagef("--keylog: %w", err)
	}
	return nil
}

// keyring is the key that gossip is encrypted with; nil for none.
func (f *aloneFlags) keyring(c *cobra.Command) (*gossip.Keys, error) {
	switch f.keyFile {
	case "":
		return nil, nil
	case "generate":
		return nil, spec.Usagef("--gossip-key generate: the other chips need the same key; 'ttfabric gossip keygen -f FILE' makes one")
	}
	keys, err := readKeys(c, "--gossip-key", f.keyFile)
	if err != nil {
		return nil, err
	}
	return gossip.NewKeys(keys)
}

// topologyEnv is the environment variable that holds a topology file's text, for containers that share no file.
const topologyEnv = "TTFABRIC_TOPOLOGY_TEXT"

// load finds the topology that the flags name, or that the environment holds.
func (f *aloneFlags) load(ctx context.Context) (*topo.Topology, error) {
	text := os.Getenv(topologyEnv)
	if f.topology != "" || text == "" {
		return loadTopology(ctx, f.topology)
	}
	t, err := topo.Load(topologyEnv, []byte(text))
	if err == nil {
		err = spec.CheckDeclared(topologyEnv, t)
	}
	return t, err
}

// readToken finds the token of the API, in a file or in the environment.
func (f *aloneFlags) readToken() (string, error) {
	token, from := os.Getenv("TTFABRIC_TOKEN"), "TTFABRIC_TOKEN"
	if f.token != "" {
		if err := makeToken(f.token); err != nil {
			return "", spec.Usagef("--token-file: %w", err)
		}
		b, err := os.ReadFile(f.token)
		if err != nil {
			return "", spec.Usagef("--token-file: %w", err)
		}
		token, from = strings.TrimSpace(string(b)), "--token-file "+f.token
	}
	switch {
	case token == "":
		return "", spec.Usagef("the chip's API needs a token, so that nobody else steers it: set TTFABRIC_TOKEN or --token-file, to 'openssl rand -hex 16' for one")
	case len(token) < minToken:
		return "", spec.Usagef("%s: a token of %d characters can be guessed; want at least %d", from, len(token), minToken)
	}
	return token, nil
}

// newToken draws a token of the API.
func newToken() string {
	var b [minToken]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// makeToken writes a random token where there is no file of that name. Of
// several processes that do so at once, as containers of one volume, one wins.
func makeToken(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(newToken() + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// listenAddr is the address that --listen names, by itself or by an interface.
// Without it, it is that from which the first seed that can be found is reached.
func listenAddr(ctx context.Context, arg string, list seedList) (netip.Addr, error) {
	if arg == "" {
		return list.local(ctx)
	}
	if a, err := netip.ParseAddr(arg); err == nil {
		return a.Unmap(), nil
	}
	if p, err := netip.ParsePrefix(arg); err == nil {
		return addressWithin(p)
	}
	i, err := net.InterfaceByName(arg)
	if err != nil {
		return netip.Addr{}, spec.Usagef("--listen %q: neither an IP address nor an interface nor a network; 'ip addr' lists both", arg)
	}
	as, err := i.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("--listen %s: %w", arg, err)
	}
	var found netip.Addr
	for _, a := range as {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLinkLocalUnicast() && (!found.IsValid() || p.Addr().Is4() && !found.Is4()) {
			found = p.Addr()
		}
	}
	if !found.IsValid() {
		return found, spec.Usagef("--listen %s: the interface has no address", arg)
	}
	return found, nil
}

// addressWithin is this machine's address in a network.
func addressWithin(p netip.Prefix) (netip.Addr, error) {
	as, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("--listen %s: %w", p, err)
	}
	for _, a := range as {
		if at, err := netip.ParsePrefix(a.String()); err == nil && p.Contains(at.Addr().Unmap()) {
			return at.Addr().Unmap(), nil
		}
	}
	return netip.Addr{}, spec.Usagef("--listen %s: this machine has no address in that network; 'ip addr' lists those it has", p)
}

// seed is where a chip that runs already may be.
type seed struct {
	mesh int // that it is in; -1: not said
	host string
	port uint16
}

type seedList []seed

// Limits of the seeds.
const (
	maxSeeds      = 64              // that can be named
	lookupTime    = 2 * time.Second // for a name
	lookupTries   = 15              // to find the first name, at start: others may start at the same time
	maxSeedByName = 64              // addresses of one name that are looked at
)

// parseSeeds reads [CHIP/]HOST[:PORT].
func parseSeeds(args []string) (seedList, error) {
	var out seedList
	for _, a := range args {
		s, text := seed{mesh: -1, port: defaultGossipPort}, a
		if chip, rest, ok := strings.Cut(a, "/"); ok {
			n, err := wire.ParseFabricNodeID(chip)
			if err != nil {
				return nil, spec.Usagef("--seeds %q: %w", a, err)
			}
			s.mesh, text = int(n.Mesh), rest
		}
		s.host = strings.Trim(text, "[]")
		if host, port, err := net.SplitHostPort(text); err == nil {
			p, err := strconv.ParseUint(port, 10, 16)
			if err != nil || p == 0 {
				return nil, spec.Usagef("--seeds %q: want a port of 1 to 65535", a)
			}
			s.host, s.port = host, uint16(p)
		}
		if s.host == "" {
			return nil, spec.Usagef("--seeds %q: want HOST, HOST:PORT or CHIP/HOST:PORT", a)
		}
		out = append(out, s)
	}
	if len(out) > maxSeeds {
		return nil, spec.Usagef("--seeds: %d; at most %d, some are enough", len(out), maxSeeds)
	}
	return out, nil
}

// lookup finds the addresses of a seed's host.
func (s *seed) lookup(ctx context.Context) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(s.host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	as, err := net.DefaultResolver.LookupNetIP(ctx, "ip", s.host)
	for i := range as {
		as[i] = as[i].Unmap()
	}
	return as[:min(len(as), maxSeedByName)], err
}

// addresses are those of a pool's seeds as they are now, but one's own.
func (l seedList) addresses(ctx context.Context, p poolKind, id wire.FabricNodeID, self netip.AddrPort) []string {
	var out []string
	for _, s := range l {
		if p == meshPool && s.mesh >= 0 && s.mesh != int(id.Mesh) {
			continue
		}
		as, _ := s.lookup(ctx) // a name that is not known yet may be at the next attempt
		for _, a := range as {
			if at := netip.AddrPortFrom(a, s.port); at != self {
				out = append(out, netip.AddrPortFrom(a, s.port+uint16(p)).String())
			}
		}
	}
	return out
}

// local is the address from which the first seed that has one is reached; loopback without seeds.
func (l seedList) local(ctx context.Context) (netip.Addr, error) {
	if len(l) == 0 {
		return loopback, nil
	}
	var last error
	for range lookupTries {
		for _, s := range l {
			as, err := s.lookup(ctx)
			if err != nil {
				last = err
				continue
			}
			for _, a := range as {
				// Connecting a datagram socket sends nothing; it asks for the route.
				c, err := net.Dial("udp", netip.AddrPortFrom(a, s.port).String())
				if err != nil {
					last = err
					continue
				}
				at := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
				c.Close()
				return at, nil
			}
		}
		select {
		case <-ctx.Done():
			return netip.Addr{}, ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return netip.Addr{}, fmt.Errorf("no seed is found, so that it is not known which address is this machine's; name it with --listen: %w", last)
}
