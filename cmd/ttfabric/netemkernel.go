package main

import (
	"context"
	"errors"
	"fmt"
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
	"ttfabric/node/netem/ports"
	"ttfabric/node/output"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// kernelHelp describes --backend kernel, for the help of each command with the flag --backend.
const kernelHelp = `With --backend kernel, the netem of Linux impairs the datagrams that leave the
chip's interface, as a real network would. Gossip and the API are not impaired.

  Needs       root, or CAP_NET_ADMIN in the chip's network namespace; also the
              kernel module sch_netem
  Where       the command enters the network namespace of each chip's process, or
              the namespace that --netns names; in a container that shares a
              chip's namespace (network_mode: "service:CHIP"), name the chip with
              --api and the fabric with --topology
  How long    until 'netem reset', even if chips restart; with --duration, the
              command itself waits for this time and then ends the impairment; if
              kill -9 ends the command meanwhile, the impairment stays
  Seed        the kernel uses --seed from Linux 6.6 on
  Speed       netem would treat a super-packet of up to 64 datagrams (UDP GSO) as
              one datagram; for random faults, the command therefore lets the
              kernel split super-packets before netem, which costs speed
  Corruption  the receiving kernel finds a corrupted datagram by the datagram's
              checksum and drops the datagram; the link then sees a loss; to give
              the link corrupted frames, let the chips impair (--backend user)`

// kernelFlags are the flags that choose who impairs datagrams, and in which network
// namespace.
type kernelFlags struct {
	backend, netns, api, topology, token string
}

func (k *kernelFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&k.backend, "backend", "user", "who impairs the datagrams: user (the chips) or kernel (netem of Linux)")
	fl.StringVar(&k.netns, "netns", "", "with --backend kernel: the chip's network namespace, as a process number, a name of 'ip netns', or self (default: the namespace of each chip's process)")
	fl.StringVar(&k.api, "api", "", "with --backend kernel, on a machine without a run folder: API address of the chip in this namespace")
	fl.StringVar(&k.topology, "topology", "", "with --api: the fabric's topology, as for 'up'")
	fl.StringVar(&k.token, "token-file", "", "with --api: file with the token of the chips' APIs (without this flag, the environment variable TTFABRIC_TOKEN holds the token itself)")
	_ = c.RegisterFlagCompletionFunc("backend", cobra.FixedCompletions([]string{"user", "kernel"}, cobra.ShellCompDirectiveNoFileComp))
}

// asked returns true if one of the flags of kernelFlags has another value than the default. If
// --backend is user in this case, the method "check" returns an error.
func (k *kernelFlags) asked(*cobra.Command) bool {
	return k.backend != "user" || k.netns != "" || k.api != "" || k.topology != "" || k.token != ""
}

// kernelPorts are the ports that a command names. The caller must call Close.
type kernelPorts struct {
	ports []ports.Port
	hosts map[string]*netem.Host
	links []topo.Link
}

func (ks *kernelPorts) Close() {
	for _, h := range ks.hosts {
		h.Close()
	}
}

// check returns an error if --backend has an unknown value, or if a flag is set without another
// flag that is necessary. The caller calls check only if asked returns true.
func (k *kernelFlags) check() error {
	switch {
	case k.backend != "kernel" && k.backend != "user":
		return spec.Usagef("--backend %q: want user or kernel", k.backend)
	case k.backend == "user":
		return spec.Usagef("--netns, --api, --topology and --token-file need --backend kernel; add --backend kernel")
	case k.api != "" && k.topology == "":
		return spec.Usagef("--api %s: want the fabric's --topology too; the meaning of LINK depends on the topology", k.api)
	case k.api == "" && k.topology+k.token != "":
		return spec.Usagef("--topology and --token-file need --api; add --api")
	}
	return nil
}

// chips opens the chips of the run folder, or the chip that --api names. The second
// result holds the network namespaces of the chips. A chip is missing in this map if its
// process is not on this machine and --netns is not set.
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
		return nil, nil, spec.Usagef("--topology %s has no chip %s, but this chip answers at --api %s; name the topology of that chip's fabric", k.topology, v.Chip, k.api)
	}
	where[v.Chip] = k.netns
	return fabric.NewChips(t, api.NewClient(k.api, token, v.Chip, t)), where, nil
}

// open finds the ports that send over the cables in args, in one direction or in both.
func (k *kernelFlags) open(c *cobra.Command, args []string, direction string) (*kernelPorts, error) {
	if err := k.check(); err != nil {
		return nil, err
	}
	s, spaces, err := k.chips(c)
	if err != nil {
		return nil, err
	}
	ks := &kernelPorts{hosts: map[string]*netem.Host{}}
	if ks.links, err = pick.Links(s.Topology, args); err != nil {
		return nil, spec.AsUsage(err)
	}
	where, err := spec.Ends(ks.links, direction)
	if err != nil {
		return nil, err
	}
	if k.api != "" { // only the chip of --api is in this namespace
		for n := range where {
			if s.Client(n) == nil {
				delete(where, n)
			}
		}
		if len(where) == 0 {
			return nil, spec.Usagef("--api %s: the chip at this address has no port on these cables; run this command beside a chip at an end of these cables", k.api)
		}
	}
	got := make([][]ports.Port, len(s.Topology.Chips)) // by chip
	absent, err := s.At(c.Context(), where, func(ctx context.Context, cl *api.Client, chs []wire.Channel) (err error) {
		got[s.Topology.Index(cl.Self())], err = ports.Of(ctx, cl, chs)
		return err
	})
	tellAbsent(c, absent)
	if err != nil {
		return nil, err
	}
	for _, p := range slices.Concat(got...) {
		space, ok := spaces[p.Local.Node]
		if !ok {
			ks.Close()
			return nil, spec.NotReadyf("chip %s: this chip has no process on this machine; name the chip's network namespace with --netns", p.Local.Node)
		}
		if ks.hosts[space] == nil {
			h, err := netem.Open(space)
			if err != nil {
				ks.Close()
				return nil, fmt.Errorf("chip %s: %w", p.Local.Node, err)
			}
			ks.hosts[space] = h
		}
		p.Host, p.Labels = ks.hosts[space], s.Topology.Labels(p.Local)
		ks.ports = append(ks.ports, p)
	}
	return ks, nil
}

func (k *kernelFlags) set(c *cobra.Command, args []string, direction string, body api.NetemBody, d time.Duration) error {
	ks, err := k.open(c, args, direction)
	if err != nil {
		return err
	}
	defer ks.Close()
	if err := netem.Probe(); errors.Is(err, netem.ErrMissing) {
		return err // the command has changed nothing yet
	}
	was := make([]fault.Options, len(ks.ports))
	var errs []error
	for i := range ks.ports {
		p := &ks.ports[i]
		s, err := p.State()
		if err == nil {
			was[i] = s.Options
			var o fault.Options
			if o, err = body.Options.Apply(s.Options); err == nil {
				err = p.Change(c.Context(), o, body.Seed, d)
			}
		}
		if err != nil {
			errs = append(errs, err)
			break // the next ports would fail in the same way
		}
		if s, err := p.State(); err == nil && body.Seed != nil && s.Seed == nil && s.Options != (fault.Options{}) && i == 0 {
			fmt.Fprintln(c.ErrOrStderr(), "This kernel's netem takes no seed; a seed needs Linux 6.6 or later. The random faults differ from run to run.")
		}
	}
	if k.api != "" && direction == "both" && len(errs) == 0 {
		fmt.Fprintf(c.ErrOrStderr(), "Only datagrams that chip %s sends are impaired. To impair datagrams that the chip receives, run this command beside the chips at the other ends.\n", ks.ports[0].Local.Node)
	}
	until := time.Now().Add(d)
	errs = append(errs, ks.print(c, false, d))
	if err := errors.Join(errs...); err != nil || d == 0 {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "Waiting %v before ending the impairment; Ctrl-C ends the impairment now.\n", d)
	select {
	case <-c.Context().Done():
	case <-time.After(time.Until(until)):
	}
	for i := range ks.ports {
		ctx, cancel := context.WithTimeout(context.Background(), fabric.AskTime)
		errs = append(errs, ks.ports[i].Change(ctx, was[i], nil, 0))
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

// print prints the kernel's impairments of the ports. If "only" is true, print leaves out
// ports without an impairment. The argument d is the time until the impairments end; 0:
// never.
func (ks *kernelPorts) print(c *cobra.Command, only bool, d time.Duration) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	var rows []api.ImpairmentView
	for i := range ks.ports {
		p := &ks.ports[i]
		s, err := p.State()
		if err != nil {
			return err
		}
		if only && s.Options == (fault.Options{}) {
			continue
		}
		rows = append(rows, p.View(&s, d))
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
		return fmt.Errorf("%w; if no chip runs, name the network namespace with --netns, such as --netns self for the namespace of this command", err)
	} else if err != nil {
		return err
	}
	defer ks.Close()
	for i := range ks.ports {
		p := &ks.ports[i]
		s, err := p.State()
		if err == nil && s.Options != (fault.Options{}) {
			if err = p.Host.Reset(s); err == nil {
				_ = p.Client.TellImpairment(c.Context(), p.Local.Channel, fault.Options{}, 0)
			}
		}
		if err != nil {
			return err
		}
	}
	if all { // in the namespaces of these ports, also ends the impairments of chips that do not run any more
		for _, h := range ks.hosts {
			if err := h.Reset(); err != nil {
				return err
			}
		}
	}
	return toldLinks(c, "reset", ks.links)
}

// resetNamespace ends all kernel impairments in a network namespace, whichever command set them.
func resetNamespace(c *cobra.Command, ns string) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	n, err := ports.Reset(ns)
	if err != nil {
		return err
	}
	if f == "json" {
		return printJSON(c, output.Reset{Action: "reset", Ports: n})
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s reset.\n", topo.Count(n, "port"))
	return nil
}
