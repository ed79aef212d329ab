// Package ports finds the addresses of the datagrams that chips' ports send, and impairs these datagrams by
// the netem of the Linux kernel.
package ports

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/netem"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Port is one direction of a cable. The kernel recognises the datagrams of this
// direction by their network namespace and addresses.
type Port struct {
	Client *api.Client  // client of the chip
	Local  wire.PortID  // end that sends
	Link   api.LinkView // state of the link
	Source netem.Source // addresses of the datagrams; no Peer: the port does not know the address of its peer yet
	Host   *netem.Host  // network namespace of the chip; the caller sets Host
	Labels []string     // labels of the port; the caller sets Labels
}

// Of asks a chip for the addresses of the ports with the channels chs, and for the
// addresses of these ports' peers. If a port does not know the address of its peer yet,
// its source has no Peer.
func Of(ctx context.Context, cl *api.Client, chs []wire.Channel) (out []Port, err error) {
	v, err := cl.Chip(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range v.Links {
		if !slices.Contains(chs, l.Channel) {
			continue
		}
		p := Port{Client: cl, Local: wire.PortID{Node: v.Chip, Channel: l.Channel}, Link: l}
		from, err := netip.ParseAddrPort(l.Address)
		if err != nil {
			return nil, fmt.Errorf("port %s has the address %q, which is not an IP address and port: %w", p.Local.Short(), l.Address, err)
		}
		if to, err := netip.ParseAddrPort(l.PeerAddr); err == nil {
			p.Source = netem.Source{Local: from, Peer: to.Addr()}
		} else {
			p.Source = netem.Source{Local: from}
		}
		out = append(out, p)
	}
	return out, nil
}

// State returns the kernel's impairment of a port's datagrams. The zero State means no impairment.
func (p *Port) State() (netem.State, error) {
	states, err := p.Host.States()
	for _, s := range states {
		if a := s.Source.Addr(); s.Source.Port() == p.Source.Local.Port() && (a.IsUnspecified() || a == p.Source.Local.Addr().Unmap()) {
			return s, nil
		}
	}
	return netem.State{}, err
}

// Change lets the kernel impair a port's datagrams as the options o say. Then Change lets
// the chip report an event, with d as the time until the impairment ends. If the port
// does not know the address of its peer yet, Change returns an error.
func (p *Port) Change(ctx context.Context, o fault.Options, seed *uint64, d time.Duration) error {
	if !p.Source.Peer.IsValid() {
		return spec.NotReadyf("port %s has not heard from its peer %s yet, so the interface by which the port will send is not known; try again when the cable is up", p.Local.Short(), wire.PortID{Node: p.Link.Peer, Channel: p.Link.PeerChan}.Short())
	}
	if seed != nil { // each port has its own random sequence, as it has if the chips impair the datagrams
		const spread = 0x9e3779b97f4a7c15
		n := *seed + spread*(uint64(p.Local.Node.Mesh)<<32+uint64(p.Local.Node.Chip)<<16+uint64(p.Local.Channel))
		seed = &n
	}
	if err := p.Host.Set(p.Source, o, seed); err != nil {
		return fmt.Errorf("%s: %w", p.Local.Short(), err)
	}
	_ = p.Client.TellImpairment(ctx, p.Local.Channel, o, d) // the error is ignored: the API of an older chip has no such call, and the chip may have ended
	return nil
}

// View returns the impairment s of the port in the form of the API. The parameter d is the time until the
// impairment ends; 0: never.
func (p *Port) View(s *netem.State, d time.Duration) api.ImpairmentView {
	return api.ImpairmentView{Chip: p.Local.Node, Channel: p.Local.Channel, Peer: p.Link.Peer, PeerChan: p.Link.PeerChan, Plane: p.Link.Plane, Options: s.Options.String(),
		Active: s.Options != (fault.Options{}), Interface: s.Interface, Labels: p.Labels, EndsInS: d.Seconds(),
		Counters: map[string]uint64{"passed": s.Counters.Packets, "lost": s.Counters.Drops, "waiting": s.Counters.Waiting}}
}

// Reset ends all impairments by the kernel in a network namespace, whichever command set them, and
// returns their number. [netem.Open] says how a namespace is named.
func Reset(namespace string) (int, error) {
	h, err := netem.Open(namespace)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	states, err := h.States()
	if err != nil {
		return 0, err
	}
	return len(states), h.Reset()
}
