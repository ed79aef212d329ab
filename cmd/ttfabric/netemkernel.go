package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/netem"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// kernelHelp says what --backend kernel is, for the help of the commands that have it.
const kernelHelp = `With --backend kernel the netem of Linux does it, to what leaves the chip's
interface: what a real network would do, gossip and API untouched. It needs root,
or CAP_NET_ADMIN in the chip's network namespace, and the module sch_netem; the
command enters the namespace of each chip's process, or the one that --netns
names. In a container beside a chip, of the same network namespace
(network_mode: "service:CHIP"), --api names the chip and --topology its fabric.
It lasts until 'netem reset', whatever becomes of chips and commands, or with
--duration until the command, which waits, has taken it back; only kill -9 keeps
it from that. The dice of one cable are seeded where the kernel can (Linux 6.6).
netem would treat a super-packet of up to 64 datagrams (UDP GSO) as one; so
where dice are thrown, they are split into datagrams first, which costs speed.
What it corrupts the receiving kernel finds by its checksums and drops, so that
the link sees a loss and no bad frame: those only the chips themselves make.`

// kernelFlags choose who impairs, and where.
type kernelFlags struct {
	backend, netns, api, topology, token string
}

func (k *kernelFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&k.backend, "backend", "user", "who does it: user (the chips), kernel (netem of Linux)")
	fl.StringVar(&k.netns, "netns", "", "with --backend kernel: the chip's network namespace, as a process number, a name of 'ip netns', or self (default: that of each chip's process)")
	fl.StringVar(&k.api, "api", "", "with --backend kernel: API of the one chip of this namespace, where there is no run folder")
	fl.StringVar(&k.topology, "topology", "", "with --api: what the fabric is, as for 'up'")
	fl.StringVar(&k.token, "token-file", "", "with --api: file with the token of the API (default: the environment variable TTFABRIC_TOKEN)")
	_ = c.RegisterFlagCompletionFunc("backend", cobra.FixedCompletions([]string{"user", "kernel"}, cobra.ShellCompDirectiveNoFileComp))
}

// asked reports whether the kernel is to do it. What is neither it nor the chips is refused by open.
func (k *kernelFlags) asked(*cobra.Command) bool {
	return k.backend != "user" || k.netns != "" || k.api != "" || k.topology != "" || k.token != ""
}

// kernelPort is one direction of a cable, and where the kernel can get at it.
type kernelPort struct {
	client *api.Client
	local  wire.PortID
	link   api.LinkView
	source netem.Source
	host   *netem.Host
	labels []string
}

// kernelPorts are the ports that a command is about. Close it.
type kernelPorts struct {
	ports []kernelPort
	hosts map[string]*netem.Host
	links []topo.Link
}

func (ks *kernelPorts) Close() {
	for _, h := range ks.hosts {
		h.Close()
	}
}

// check refuses flags that contradict each other.
func (k *kernelFlags) check() error {
	switch {
	case k.backend != "kernel" && k.backend != "user":
		return spec.Usagef("--backend %q: want user or kernel", k.backend)
	case k.backend == "user":
		return spec.Usagef("--netns, --api, --topology and --token-file are for --backend kernel")
	case k.api != "" && k.topology == "":
		return spec.Usagef("--api: name the fabric's --topology too, so that LINK can be read")
	case k.api == "" && k.topology+k.token != "":
		return spec.Usagef("--topology and --token-file go with --api")
	}
	return nil
}

// chips opens the chips of the run folder, or the one that --api names.
func (k *kernelFlags) chips(c *cobra.Command) (*fabric.Chips, map[wire.FabricNodeID]string, error) {
	where := map[wire.FabricNodeID]string{}
	if k.api == "" {
		f, err := openFabric(c)
		if err != nil {
			return nil, nil, err
		}
		contained := false
		for _, x := range f.Running() {
			switch {
			case k.netns != "":
				where[x.Chip] = k.netns
			case x.PID > 0:
				where[x.Chip] = strconv.Itoa(x.PID)
			default:
				contained = true
			}
		}
		if contained {
			if err := container.PIDs(c.Context(), f.Name(), where); err != nil {
				return nil, nil, err
			}
		}
		s, err := f.Chips()
		return s, where, err
	}
	t, err := folder.LoadTopology(c.Context(), k.topology)
	if err != nil {
		return nil, nil, err
	}
	token, err := folder.ReadToken(k.token)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(c.Context(), fabric.AskTime)
	defer cancel()
	v, err := api.NewClient(k.api, token, wire.FabricNodeID{}, t).Chip(ctx)
	if err != nil {
		return nil, nil, err
	}
	if _, ok := t.Chip(v.Chip); !ok {
		return nil, nil, spec.Usagef("--topology %s has no chip %s, which is the one at %s", k.topology, v.Chip, k.api)
	}
	where[v.Chip] = k.netns
	return fabric.NewChips(t, api.NewClient(k.api, token, v.Chip, t)), where, nil
}

// open finds the ports that args name, in one direction of the cables or both.
func (k *kernelFlags) open(c *cobra.Command, args []string, direction string) (*kernelPorts, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	if _, err := format(c); err != nil {
		return nil, err
	}
	s, spaces, err := k.chips(c)
	if err != nil {
		return nil, err
	}
	ks := &kernelPorts{hosts: map[string]*netem.Host{}}
	if ks.links, err = s.Topology.SelectLinks(args); err != nil {
		return nil, spec.AsUsage(err)
	}
	where, err := spec.Ends(ks.links, direction)
	if err != nil {
		return nil, err
	}
	if k.api != "" { // the others are somewhere else
		for n := range where {
			if s.Client(n) == nil {
				delete(where, n)
			}
		}
		if len(where) == 0 {
			return nil, spec.Usagef("the chip at %s sends into no such cable: run this beside the chip at its other end", k.api)
		}
	}
	got := make([][]kernelPort, len(s.Topology.Chips)) // by chip
	absent, err := s.At(c.Context(), where, func(ctx context.Context, cl *api.Client, chs []wire.Channel) (err error) {
		got[s.Topology.Index(cl.Self())], err = portsOf(ctx, cl, chs)
		return err
	})
	tellAbsent(c, absent)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Concat(got...) {
		space, ok := spaces[p.local.Node]
		if !ok {
			ks.Close()
			return nil, spec.NotReadyf("chip %s: its process is not on this machine; name its network namespace with --netns", p.local.Node)
		}
		if ks.hosts[space] == nil {
			h, err := netem.Open(space)
			if err != nil {
				ks.Close()
				return nil, fmt.Errorf("chip %s: %w", p.local.Node, err)
			}
			ks.hosts[space] = h
		}
		p.host, p.labels = ks.hosts[space], s.Topology.Labels(p.local)
		ks.ports = append(ks.ports, p)
	}
	return ks, nil
}

// portsOf asks a chip where its ports are and where they send to.
func portsOf(ctx context.Context, cl *api.Client, chs []wire.Channel) (out []kernelPort, err error) {
	v, err := cl.Chip(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range v.Links {
		if !slices.Contains(chs, l.Channel) {
			continue
		}
		p := kernelPort{client: cl, local: wire.PortID{Node: v.Chip, Channel: l.Channel}, link: l}
		from, err := netip.ParseAddrPort(l.Address)
		if err != nil {
			return nil, fmt.Errorf("%s has the address %q: %w", p.local.Short(), l.Address, err)
		}
		if to, err := netip.ParseAddrPort(l.PeerAddr); err == nil {
			p.source = netem.Source{Local: from, Peer: to.Addr()}
		} else {
			p.source = netem.Source{Local: from}
		}
		out = append(out, p)
	}
	return out, nil
}

// state is what the kernel does to what a port sends; nothing of it if it does nothing.
func (p *kernelPort) state() (netem.State, error) {
	states, err := p.host.States()
	for _, s := range states {
		if a := s.Source.Addr(); s.Source.Port() == p.source.Local.Port() && (a.IsUnspecified() || a == p.source.Local.Addr().Unmap()) {
			return s, nil
		}
	}
	return netem.State{}, err
}

// change does o to what a port sends, and lets the chip tell of it.
func (p *kernelPort) change(ctx context.Context, o fault.Options, seed *uint64, d time.Duration) error {
	if !p.source.Peer.IsValid() {
		return spec.NotReadyf("%s: its peer %s has not been heard of, so nobody knows by which interface it sends; try again when the cable is up", p.local.Short(), wire.PortID{Node: p.link.Peer, Channel: p.link.PeerChan}.Short())
	}
	if seed != nil { // each port has dice of its own, as the chips' own impairments do
		const spread = 0x9e3779b97f4a7c15
		n := *seed + spread*(uint64(p.local.Node.Mesh)<<32+uint64(p.local.Node.Chip)<<16+uint64(p.local.Channel))
		seed = &n
	}
	if err := p.host.Set(p.source, o, seed); err != nil {
		return fmt.Errorf("%s: %w", p.local.Short(), err)
	}
	_ = p.client.TellImpairment(ctx, p.local.Channel, o, d) // an older chip, or one that has just ended, does not tell
	return nil
}

func (k *kernelFlags) set(c *cobra.Command, args []string, direction string, body api.NetemBody, d time.Duration) error {
	ks, err := k.open(c, args, direction)
	if err != nil {
		return err
	}
	defer ks.Close()
	if err := netem.Probe(); errors.Is(err, netem.ErrMissing) {
		return err // before anything has been touched
	}
	was := make([]fault.Options, len(ks.ports))
	var errs []error
	for i := range ks.ports {
		p := &ks.ports[i]
		s, err := p.state()
		if err == nil {
			was[i] = s.Options
			var o fault.Options
			if o, err = body.Options.Apply(s.Options); err == nil {
				err = p.change(c.Context(), o, body.Seed, d)
			}
		}
		if err != nil {
			errs = append(errs, err)
			break // the others would fare alike
		}
		if s, err := p.state(); err == nil && body.Seed != nil && s.Seed == nil && s.Options != (fault.Options{}) && i == 0 {
			fmt.Fprintln(c.ErrOrStderr(), "This kernel's netem takes no seed (Linux 6.6 and later do): its dice are its own.")
		}
	}
	if k.api != "" && direction == "both" && len(errs) == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "This is what %s sends; what it receives is impaired beside the chips at the other ends.\n", ks.ports[0].local.Node)
	}
	until := time.Now().Add(d)
	errs = append(errs, ks.print(c, false, d))
	if err := errors.Join(errs...); err != nil || d == 0 {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "Waiting %v to take it back; Ctrl-C takes it back now.\n", d)
	select {
	case <-c.Context().Done():
	case <-time.After(time.Until(until)):
	}
	for i := range ks.ports {
		ctx, cancel := context.WithTimeout(context.Background(), fabric.AskTime)
		errs = append(errs, ks.ports[i].change(ctx, was[i], nil, 0))
		cancel()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.Context().Err()
}

func (k *kernelFlags) show(c *cobra.Command, args []string, only bool) error {
	ks, err := k.open(c, args, "both")
	if err != nil {
		return err
	}
	defer ks.Close()
	return ks.print(c, only, 0)
}

// print prints what the kernel does at the ports; with only, where it does something.
func (ks *kernelPorts) print(c *cobra.Command, only bool, d time.Duration) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	var rows []api.ImpairmentView
	for i := range ks.ports {
		p := &ks.ports[i]
		s, err := p.state()
		if err != nil {
			return err
		}
		on := s.Options != fault.Options{}
		if only && !on {
			continue
		}
		v := api.ImpairmentView{Chip: p.local.Node, Channel: p.local.Channel, Peer: p.link.Peer, PeerChan: p.link.PeerChan, Plane: p.link.Plane, Options: s.Options.String()}
		v.Active, v.Interface, v.Labels, v.EndsInS = on, s.Interface, p.labels, d.Seconds()
		v.Counters = map[string]uint64{"passed": s.Counters.Packets, "lost": s.Counters.Drops, "waiting": s.Counters.Waiting}
		rows = append(rows, v)
	}
	return printNetem(c, f, rows, true)
}

func (k *kernelFlags) reset(c *cobra.Command, args []string) error {
	if len(args) == 0 && (k.netns != "" || k.api != "") {
		if err := k.check(); err != nil {
			return err
		}
		return resetNamespace(c, k.netns)
	}
	all := len(args) == 0
	if all {
		args = []string{"all"}
	}
	ks, err := k.open(c, args, "both")
	if err != nil && all {
		return fmt.Errorf("%w; where no chip runs, name the network namespace: --netns self is this one", err)
	} else if err != nil {
		return err
	}
	defer ks.Close()
	for i := range ks.ports {
		p := &ks.ports[i]
		s, err := p.state()
		if err == nil && s.Options != (fault.Options{}) {
			if err = p.host.Reset(s); err == nil {
				_ = p.client.TellImpairment(c.Context(), p.local.Channel, fault.Options{}, 0)
			}
		}
		if err != nil {
			return err
		}
	}
	if all { // what chips left behind that don't run any more
		for _, h := range ks.hosts {
			if err := h.Reset(); err != nil {
				return err
			}
		}
	}
	return toldLinks(c, "reset", ks.links)
}

// resetNamespace takes away all that the kernel does in a namespace, whosever it is.
func resetNamespace(c *cobra.Command, ns string) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	h, err := netem.Open(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	states, err := h.States()
	if err != nil {
		return err
	}
	if err := h.Reset(); err != nil {
		return err
	}
	if f == "json" {
		return printJSON(c, map[string]any{"action": "reset", "ports": len(states)})
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s reset.\n", topo.Count(len(states), "port"))
	return nil
}
