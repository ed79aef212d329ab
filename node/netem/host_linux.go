package netem

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"ttfabric/ttlink/fault"
)

// Host is a handle on one network namespace.
type Host struct {
	h       *netlink.Handle
	sockets map[int]*nl.SocketHandle
}

// NamespacePath returns the path of a network namespace's file. The argument ns is a process id,
// the name of a namespace of 'ip netns', "self" for this process's namespace, or a path.
func NamespacePath(ns string) string {
	switch n, err := strconv.Atoi(ns); {
	case err == nil && n > 0:
		return fmt.Sprintf("/proc/%d/ns/net", n)
	case ns == "self":
		return "/proc/self/ns/net"
	case strings.Contains(ns, "/"):
		return ns
	}
	return filepath.Join("/run/netns", ns)
}

// Open opens a network namespace. [NamespacePath] explains the argument ns. If ns is "", Open opens
// this process's own namespace.
func Open(ns string) (*Host, error) {
	at := netns.None()
	if ns != "" {
		path := NamespacePath(ns)
		there, err := os.Stat(path)
		here, err2 := os.Stat("/proc/self/ns/net")
		if err == nil && err2 == nil && os.SameFile(there, here) {
			return openAt(netns.None()) // the process is in this namespace already, and needs no right to enter it
		}
		if at, err = netns.GetFromPath(path); err != nil {
			if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
				return nil, fmt.Errorf("network namespace %s: %w: only root may enter the namespace. Use sudo, or leave out --backend kernel: the chips then impair their cables themselves, with the same flags", path, ErrRights)
			}
			return nil, fmt.Errorf("network namespace %s: %w; want a process id, or a name that 'ip netns list' shows", path, err)
		}
		defer at.Close()
	}
	h, err := openAt(at)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", ns, err)
	}
	return h, nil
}

func openAt(at netns.NsHandle) (*Host, error) {
	s, err := nl.GetNetlinkSocketAt(at, netns.None(), unix.NETLINK_ROUTE)
	if err != nil {
		if strings.Contains(err.Error(), unix.EPERM.Error()) { // the library does not wrap the error
			err = fmt.Errorf("%w: only root may enter the namespace", ErrRights)
		}
		return nil, err
	}
	_ = s.SetExtAck(true) // older kernels refuse this option, and then describe no errors
	h, err := netlink.NewHandleAt(at, unix.NETLINK_ROUTE)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &Host{h, map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: {Socket: s}}}, nil
}

// Close closes the handle. Impairments in the namespace stay in force.
func (h *Host) Close() {
	h.h.Close()
	h.sockets[unix.NETLINK_ROUTE].Close()
}

// device returns the network interface by which the namespace reaches src.Peer.
func (h *Host) device(src Source) (netlink.Link, error) {
	to := src.Peer.Unmap()
	routes, err := h.h.RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		return nil, fmt.Errorf("this network namespace has no route to %s: %w", to, errors.Join(err, ErrNoRoute))
	}
	return h.h.LinkByIndex(routes[0].LinkIndex)
}

// ErrNoRoute is the error if the namespace has no route to a peer.
var ErrNoRoute = errors.New("want the network namespace of the chip")

// Set impairs the packets that src sends, by the options o. If o is zero, Set removes the
// impairment. Linux before 6.6 ignores the seed; [Host.States] shows whether the kernel uses the
// seed. After an error, [Host.States] shows what is in force for src: the earlier impairment, no
// impairment, or a partly changed impairment.
func (h *Host) Set(src Source, o fault.Options, seed *uint64) error {
	if err := o.Valid(); err != nil {
		return err
	}
	port := src.Local.Port()
	if port <= uint16(keptClass&0xffff) {
		return fmt.Errorf("the packets of UDP port %d cannot be impaired: want a port above %d", port, keptClass&0xffff)
	}
	dev, err := h.device(src)
	if err != nil {
		return err
	}
	index, name := dev.Attrs().Index, dev.Attrs().Name
	states, err := h.States()
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Source.Port() != port {
			continue
		}
		if was, is := s.Source.Addr(), src.Local.Addr().Unmap(); s.Interface == name && !anyAddr(is) && is != was && !anyAddr(was) {
			return fmt.Errorf("interface %s: UDP port %d is already impaired for the address %s, and one port can be impaired for one address only. Give each chip of a machine its own range of ports", name, port, was)
		}
		if s.Interface != name || o == (fault.Options{}) { // the route to the peer has changed, or Set removes the impairment
			if err := h.Reset(s); err != nil {
				return err
			}
		}
	}
	if o == (fault.Options{}) {
		return nil
	}
	return h.grow(index, name, src.Local, h.chain(dev, o, seed))
}

// anyAddr reports whether the address a stands for any address, because it is invalid or
// unspecified.
func anyAddr(a netip.Addr) bool { return !a.IsValid() || a.IsUnspecified() }

// chain returns the qdiscs that impair packets by the options o, from the top of the chain to its
// bottom.
func (h *Host) chain(dev netlink.Link, o fault.Options, seed *uint64) (out []qdisc) {
	if splits(o) {
		const mac = 18 // length of an ethernet header with a VLAN tag, in bytes
		out = append(out, qdisc{kind: "tbf", options: splitOptions(uint32(min(maxSplit, dev.Attrs().MTU+mac)))})
	}
	for _, s := range stages(o, seed) {
		out = append(out, qdisc{kind: "netem", options: s.encode()})
	}
	return out
}

// grow makes the class of a port, the chain of qdiscs below the class, and the filters. If the
// class has a chain of the same kinds of qdiscs already, grow only changes the options of these
// qdiscs.
func (h *Host) grow(index int, name string, src netip.AddrPort, chain []qdisc) error {
	undo, err := h.plant(index, name)
	if err != nil {
		return err
	}
	have, err := h.below(index, src.Port())
	if err != nil {
		return errors.Join(err, undo())
	}
	fail := func(err error) error {
		err = fmt.Errorf("interface %s: %w", name, err)
		if len(have) == 0 {
			err = errors.Join(err, h.fell(index, src.Port()))
		}
		return errors.Join(err, undo())
	}
	if slices.EqualFunc(have, chain, func(a, b qdisc) bool { return a.kind == b.kind }) {
		for i, q := range chain {
			have[i].options = q.options
			if err := h.make(0, have[i]); err != nil && q.kind != "tbf" {
				return fail(err)
			}
		}
		return nil
	}
	if err := h.class(index, rootHandle|uint32(src.Port())); err != nil {
		return fail(err)
	}
	if len(have) > 0 {
		if err := h.drop(have[0]); err != nil {
			return fail(err)
		}
		have = nil
	}
	parent := rootHandle | uint32(src.Port())
	for i, q := range chain {
		q.index, q.parent = index, parent
		if err := h.make(unix.NLM_F_CREATE|unix.NLM_F_REPLACE, q); err != nil {
			return fail(err)
		}
		got, err := h.below(index, src.Port())
		if err == nil && len(got) != i+1 {
			err = fmt.Errorf("the kernel made the qdisc %s, but does not list it", q.kind)
		}
		if err != nil {
			return fail(err)
		}
		parent = got[i].handle | 1
	}
	if err := h.filters(index, src); err != nil {
		return fail(err)
	}
	return nil
}

// The method "below" returns the chain of qdiscs below a port's class, from top to bottom.
func (h *Host) below(index int, port uint16) ([]qdisc, error) {
	qs, err := h.qdiscs(index)
	return chainOf(qs, index, port), err
}

func chainOf(qs []qdisc, index int, port uint16) (out []qdisc) {
	parent := rootHandle | uint32(port)
	for range 4 {
		i := slices.IndexFunc(qs, func(q qdisc) bool { return q.index == index && q.parent == parent && q.handle != 0 })
		if i < 0 || qs[i].kind != "tbf" && qs[i].kind != "netem" {
			break
		}
		out = append(out, qs[i])
		parent = qs[i].handle | 1
	}
	return out
}

// States returns all impairments in the namespace, sorted by interface and port.
func (h *Host) States() ([]State, error) {
	qs, err := h.qdiscs(0)
	if err != nil {
		return nil, err
	}
	var out []State
	for _, q := range qs {
		if !ours(q) || q.parent != netlink.HANDLE_ROOT {
			continue
		}
		dev, err := h.h.LinkByIndex(q.index)
		if err != nil {
			continue // the interface has disappeared meanwhile
		}
		from := map[uint16]netip.Addr{}
		err = h.eachFilter(q.index, func(f *netlink.U32) error {
			from[uint16(f.ClassId)] = addressIn(f)
			return nil
		})
		if err != nil {
			return nil, err
		}
		for port, addr := range from {
			s, err := stateOf(chainOf(qs, q.index, port))
			if err != nil {
				return nil, err
			}
			s.Interface, s.Source = dev.Attrs().Name, netip.AddrPortFrom(addr, port)
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b State) int {
		if c := strings.Compare(a.Interface, b.Interface); c != 0 {
			return c
		}
		return int(a.Source.Port()) - int(b.Source.Port())
	})
	return out, nil
}

func stateOf(chain []qdisc) (s State, err error) {
	var ss []stage
	for i, q := range chain {
		if q.kind != "netem" {
			s.Split = true
			continue
		}
		st, err := decodeStage(q.options)
		if err != nil {
			return s, err
		}
		ss = append(ss, st)
		s.Seed = st.seed
		if i == len(chain)-1 {
			s.Counters.Packets, s.Counters.Bytes = q.counters.Packets, q.counters.Bytes
		}
		s.Counters.Drops += q.counters.Drops
		s.Counters.Waiting = max(s.Counters.Waiting, q.counters.Waiting)
	}
	s.Options = optionsOf(ss)
	return s, nil
}

// addressIn returns the source address that a filter matches. If the filter matches any address,
// addressIn returns the unspecified address of IPv4.
func addressIn(f *netlink.U32) netip.Addr {
	any, first := netip.IPv4Unspecified(), int32(12)
	if f.Priority == prio6 {
		any, first = netip.IPv6Unspecified(), 8
	}
	b, n := any.AsSlice(), 0
	for _, k := range f.Sel.Keys {
		if at := int(k.Off - first); k.Mask == 0xffffffff && at >= 0 && at+4 <= len(b) {
			b[at], b[at+1], b[at+2], b[at+3] = byte(k.Val>>24), byte(k.Val>>16), byte(k.Val>>8), byte(k.Val)
			n++
		}
	}
	if a, ok := netip.AddrFromSlice(b); ok && n > 0 {
		return a
	}
	return netip.IPv4Unspecified()
}

// Reset removes the given impairments, which come from [Host.States]. Reset finds an impairment by
// its interface and its port. Without arguments, Reset removes all impairments in the namespace. If
// an interface has no impairment left, Reset restores its earlier qdisc. Packets that wait in a
// removed qdisc are lost.
func (h *Host) Reset(which ...State) error {
	qs, err := h.qdiscs(0)
	if err != nil {
		return err
	}
	for _, q := range qs {
		if !ours(q) || q.parent != netlink.HANDLE_ROOT {
			continue
		}
		if len(which) == 0 {
			if err := h.uproot(q.index); err != nil {
				return err
			}
			continue
		}
		dev, err := h.h.LinkByIndex(q.index)
		if err != nil {
			continue // the interface has disappeared meanwhile
		}
		for _, s := range which {
			if s.Interface == dev.Attrs().Name {
				if err := h.fell(q.index, s.Source.Port()); err != nil {
					return err
				}
			}
		}
		if err := h.prune(q.index); err != nil {
			return err
		}
	}
	return nil
}

// inScratch runs f with a new network namespace that exists only during the call.
func inScratch(f func(h *Host) error) error {
	err := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and the namespace ends with the thread
		if e := unix.Unshare(unix.CLONE_NEWNET); e != nil {
			err <- fmt.Errorf("%w: a trial needs a new network namespace, which only root may make: %w", ErrRights, e)
			return
		}
		h, e := openAt(netns.None())
		if e != nil {
			err <- e
			return
		}
		defer h.Close()
		err <- f(h)
	}()
	return <-err
}

// loopback is the index of the loopback interface. Every namespace has this interface first.
const loopback = 1

// Probe tries the features of the kernel that [Host.Set] needs, in a new network namespace. If a
// feature is missing, Probe returns an error that matches [ErrMissing]. If the process may not make
// a namespace, the error matches [ErrRights].
func Probe() error {
	return inScratch(func(h *Host) error {
		err := h.grow(loopback, "lo", netip.AddrPortFrom(netip.IPv4Unspecified(), 9), []qdisc{
			{kind: "tbf", options: splitOptions(2000)}, {kind: "netem", options: (&stage{limit: 1}).encode()}})
		if missing := (*MissingError)(nil); errors.As(err, &missing) {
			return missing // without the text about the trial's interface
		}
		return err
	})
}

// rehearse makes a copy of the qdisc q in a new namespace, as a trial. rehearse returns the options
// from which the kernel makes an equal qdisc. The kernel rounds down some durations when it reports
// them. For example, the kernel reports the 5 ms of fq_codel as 4999 µs, and would report a copy
// with 4999 µs as 4998 µs. If a value of the copy is one too small, rehearse therefore adds one to
// the value.
//
// If three trials give no equal copy, rehearse returns an error. If the process may not make a
// namespace, rehearse returns the options unchanged.
func rehearse(q qdisc) ([]byte, error) {
	options := append([]byte(nil), q.options...)
	var got []byte
	for range 3 {
		err := inScratch(func(h *Host) error {
			again := qdisc{index: loopback, parent: netlink.HANDLE_ROOT, handle: q.handle, kind: q.kind, options: options}
			if q.options == nil {
				again.options = nil
			}
			if err := h.make(unix.NLM_F_CREATE|unix.NLM_F_EXCL, again); err != nil {
				return err
			}
			qs, err := h.qdiscs(loopback)
			got = root(qs).options
			return err
		})
		switch {
		case errors.Is(err, ErrRights):
			return q.options, nil
		case err != nil:
			return nil, err
		case bytes.Equal(got, q.options):
			return options, nil
		case len(got) != len(q.options):
			return nil, fmt.Errorf("%x became %x", q.options, got)
		}
		is := words(got, len(got)/4)
		for i, want := range words(q.options, len(got)/4) {
			if is[i] == want-1 {
				copy(options[4*i:], u32s(words(options[4*i:], 1)[0]+1))
			}
		}
	}
	return nil, fmt.Errorf("%x became %x", q.options, got)
}
