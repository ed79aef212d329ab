package netem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// qdisc is a queueing discipline of an interface, as the kernel reports it.
type qdisc struct {
	index          int // index of the network interface
	handle, parent uint32
	kind           string
	options        []byte // the options in the kernel's own encoding
	counters       Counters
}

// Handles of qdiscs and classes.
const (
	rootHandle = uint32(Marker) << 16
	keptClass  = rootHandle | 1 // handle of the class that holds the copy of the interface's earlier qdisc
)

// qdiscs returns the qdiscs of one interface. If index is 0, qdiscs returns the qdiscs of all
// interfaces.
func (h *Host) qdiscs(index int) ([]qdisc, error) {
	req := h.request(unix.RTM_GETQDISC, unix.NLM_F_DUMP, &nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index)})
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	if err != nil {
		return nil, fmt.Errorf("cannot list qdiscs: %w", err)
	}
	var out []qdisc
	for _, m := range msgs {
		head := nl.DeserializeTcMsg(m)
		if index != 0 && int(head.Ifindex) != index {
			continue
		}
		q := qdisc{index: int(head.Ifindex), handle: head.Handle, parent: head.Parent}
		err := attrs(m[head.Len():], func(kind uint16, data []byte) {
			switch kind {
			case nl.TCA_KIND:
				q.kind = unix.ByteSliceToString(data)
			case nl.TCA_OPTIONS:
				q.options = append([]byte{}, data...)
			case nl.TCA_STATS2:
				q.counters = countersOf(data)
			}
		})
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// countersOf decodes the kernel's counters of a qdisc: the structs gnet_stats_basic and
// gnet_stats_queue (include/uapi/linux/gen_stats.h).
func countersOf(b []byte) (c Counters) {
	_ = attrs(b, func(kind uint16, data []byte) {
		switch kind {
		case nl.TCA_STATS_BASIC:
			c.Bytes = word64(data)
			c.Packets = max(c.Packets, uint64(words(data[min(8, len(data)):], 1)[0]))
		case nl.TCA_STATS_PKT64:
			c.Packets = max(c.Packets, word64(data))
		case nl.TCA_STATS_QUEUE:
			w := words(data, 3)
			c.Waiting, c.Drops = uint64(w[0]), uint64(w[2])
		}
	})
	return c
}

// request returns a netlink request that is sent in the host's namespace.
func (h *Host) request(command, flags int, head *nl.TcMsg) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(command, flags)
	req.Sockets = h.sockets
	req.AddData(head)
	return req
}

// make asks the kernel to make a qdisc. If flags is 0, make changes the options of an existing
// qdisc.
func (h *Host) make(flags int, q qdisc) error {
	req := h.request(unix.RTM_NEWQDISC, flags|unix.NLM_F_ACK, &nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(q.index), Handle: q.handle, Parent: q.parent})
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated(q.kind)))
	if q.options != nil {
		req.AddData(nl.NewRtAttr(nl.TCA_OPTIONS, q.options))
	}
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return explain(err, "sch_"+q.kind)
}

// drop removes a qdisc and all qdiscs below it. If the kernel does not have the qdisc, drop returns
// no error.
func (h *Host) drop(q qdisc) error {
	req := h.request(unix.RTM_DELQDISC, unix.NLM_F_ACK, &nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(q.index), Handle: q.handle, Parent: q.parent})
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		return explain(err, "")
	}
	return nil
}

// explain returns the kernel's error err with a cause and, where possible, a remedy. The argument
// "module" is the kernel module that the request needs. If err is nil, explain returns nil.
func explain(err error, module string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: the change needs root, or CAP_NET_ADMIN in this network namespace. Use sudo, or leave out --backend kernel: the chips then impair their cables themselves, with the same flags", ErrRights)
	case module != "" && errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return &MissingError{module}
	case strings.Contains(err.Error(), "mix duplicating netems"):
		return fmt.Errorf("this kernel (Linux 6.16 or a stable branch of that time) allows only one netem on an interface if a netem duplicates packets. Leave out --duplicate or --backend kernel. Otherwise impair only one cable of this interface, and do not combine --reorder with --delay or --rate")
	}
	return fmt.Errorf("the kernel refused the change: %w", err)
}

// remade holds the kinds of qdisc that the package can make again from the reported options. For
// example, remade does not contain the kind red, because the kernel does not report red's table.
var remade = map[string]bool{"pfifo": true, "bfifo": true, "pfifo_fast": true, "pfifo_head_drop": true, "tbf": true, "fq": true, "fq_codel": true,
	"codel": true, "cake": true, "pie": true, "sfq": true, "netem": true, "prio": true}

// root returns the root qdisc among the qdiscs of an interface. A result without a handle is the
// kernel's default qdisc.
func root(qs []qdisc) (r qdisc) {
	for _, q := range qs {
		if q.parent == netlink.HANDLE_ROOT {
			r = q
		}
	}
	return r
}

// ours reports whether this package made the root qdisc q.
func ours(q qdisc) bool { return q.kind == "htb" && q.handle == rootHandle }

// plant replaces the root qdisc of an interface by our root qdisc. If the earlier root qdisc was
// not the kernel's default, plant puts a copy of the earlier root qdisc below our root qdisc. If
// our root qdisc is there already, plant changes nothing. The function "undo" reverses what plant
// has changed, unless the interface has an impairment.
func (h *Host) plant(index int, name string) (undo func() error, err error) {
	qs, err := h.qdiscs(index)
	if err != nil {
		return nil, err
	}
	old := root(qs)
	if ours(old) {
		return func() error { return nil }, nil
	}
	if err := h.describable(qs, old, name); err != nil {
		return nil, err
	}
	flags, rest := unix.NLM_F_CREATE|unix.NLM_F_EXCL, uint32(0)
	if old.handle != 0 {
		flags, rest = unix.NLM_F_CREATE|unix.NLM_F_REPLACE, 1
	}
	const version, quantum = 3, 10 // struct tc_htb_glob: the only version, and the divisor of rates
	ours := qdisc{index: index, handle: rootHandle, parent: netlink.HANDLE_ROOT, kind: "htb", options: appendAttr(nil, nl.TCA_HTB_INIT, u32s(version, quantum, rest, 0, 0))}
	if err := h.make(flags, ours); errors.Is(err, unix.EEXIST) {
		return h.plant(index, name) // another process has just made our root qdisc
	} else if err != nil {
		return nil, fmt.Errorf("interface %s: %w", name, err)
	}
	undo = func() error { return h.prune(index) }
	if old.handle == 0 {
		return undo, nil
	}
	back := func(err error) error {
		return errors.Join(fmt.Errorf("interface %s: its qdisc %s cannot be kept: %w", name, old.kind, err), h.drop(ours), h.make(unix.NLM_F_CREATE|unix.NLM_F_REPLACE, old))
	}
	if err := h.class(index, keptClass); err != nil {
		return nil, back(err)
	}
	kept := old
	kept.parent = keptClass
	if kept.options, err = rehearse(old); err != nil {
		return nil, back(err)
	}
	if err := h.make(unix.NLM_F_CREATE|unix.NLM_F_REPLACE, kept); err != nil {
		return nil, back(err)
	}
	return undo, nil
}

// describable returns an error if the package could not restore the root qdisc of an interface
// exactly.
func (h *Host) describable(qs []qdisc, old qdisc, name string) error {
	why := ""
	for _, q := range qs {
		if q.handle != 0 && q.parent != netlink.HANDLE_ROOT && q.parent < netlink.HANDLE_INGRESS {
			why = "there are other qdiscs below this qdisc"
		}
	}
	filters, err := h.h.FilterList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: old.index}}, old.handle)
	switch {
	case why != "":
	case old.handle == 0:
		return nil
	case !remade[old.kind]:
		why = "the options that the kernel reports do not describe this qdisc completely"
	case err == nil && len(filters) > 0:
		why = "this qdisc has filters"
	default:
		if _, err := rehearse(old); err != nil {
			why = fmt.Sprintf("making a copy of this qdisc from the reported options gives another qdisc (%v)", err)
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("interface %s has the qdisc %s, which could not be restored exactly: %s. Remove this qdisc first ('tc qdisc del dev %s root'), or leave out --backend kernel", name, old.kind, why, name)
}

// prune removes our root qdisc from an interface, and restores the earlier one. If the interface
// has impairments, prune does nothing.
func (h *Host) prune(index int) error {
	left := 0
	if err := h.eachFilter(index, func(*netlink.U32) error { left++; return nil }); err != nil || left > 0 {
		return err
	}
	return h.uproot(index)
}

// uproot removes our root qdisc from an interface, and restores the earlier root qdisc.
func (h *Host) uproot(index int) error {
	qs, err := h.qdiscs(index)
	if err != nil || !ours(root(qs)) {
		return err
	}
	if err := h.drop(root(qs)); err != nil {
		return err
	}
	for _, q := range qs {
		if q.parent == keptClass && q.handle != 0 {
			q.parent = netlink.HANDLE_ROOT
			if exact, err := rehearse(q); err == nil {
				q.options = exact
			}
			return h.make(unix.NLM_F_CREATE|unix.NLM_F_REPLACE, q)
		}
	}
	return nil // the earlier root qdisc was the kernel's default, which the kernel restores
}

// class makes a class of htb. The class allows 100 GB/s, and therefore limits no traffic.
func (h *Host) class(index int, id uint32) error {
	const rate, quantum = 800_000_000_000, 60_000
	c := netlink.NewHtbClass(netlink.ClassAttrs{LinkIndex: index, Handle: id, Parent: rootHandle},
		netlink.HtbClassAttrs{Rate: rate, Ceil: rate, Buffer: 1 << 20, Cbuffer: 1 << 20, Quantum: quantum})
	if err := h.h.ClassAdd(c); err != nil && !errors.Is(err, unix.EEXIST) {
		return explain(err, "sch_htb")
	}
	return nil
}

// Priorities of our filters for IPv4 and for IPv6.
const (
	prio4 = 1
	prio6 = 2
)

// filters makes the filters that lead packets from the socket address src into the class of the
// port. If a filter for IPv4 or IPv6 exists already, filters does not change this filter.
func (h *Host) filters(index int, src netip.AddrPort) error {
	have, err := h.filtersOf(index, src.Port())
	if err != nil {
		return err
	}
	addr := src.Addr().Unmap()
	named := addr.IsValid() && !addr.IsUnspecified()
	for prio, keys := range map[uint16][]nl.TcU32Key{prio4: keys4(src.Port()), prio6: keys6(src.Port())} {
		proto := uint16(unix.ETH_P_IP)
		if prio == prio6 {
			proto = unix.ETH_P_IPV6
		}
		if named && addr.Is4() != (prio == prio4) {
			continue
		}
		if named {
			off := int32(12)
			if addr.Is6() {
				off = 8
			}
			for b := addr.AsSlice(); len(b) > 0; b, off = b[4:], off+4 {
				keys = append(keys, nl.TcU32Key{Mask: 0xffffffff, Val: binary.BigEndian.Uint32(b), Off: off})
			}
		}
		if have[prio] > 0 {
			continue
		}
		f := &netlink.U32{FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: rootHandle, Priority: prio, Protocol: proto},
			ClassId: rootHandle | uint32(src.Port()), Sel: &nl.TcU32Sel{Flags: nl.TC_U32_TERMINAL, Keys: keys}}
		if err := h.h.FilterAdd(f); err != nil {
			return explain(err, "cls_u32")
		}
	}
	return nil
}

const udp = 17 // IP protocol number of UDP

// keys4 returns the keys of a filter that match UDP packets in IPv4 from a port. The keys match
// only headers without options, and of a fragmented packet only the first fragment (RFC 791 §3.1).
func keys4(port uint16) []nl.TcU32Key {
	return []nl.TcU32Key{{Mask: 0x0f000000, Val: 0x05000000, Off: 0}, {Mask: 0x00001fff, Off: 4}, {Mask: 0x00ff0000, Val: udp << 16, Off: 8}, {Mask: 0xffff0000, Val: uint32(port) << 16, Off: 20}}
}

// keys6 returns the keys of a filter that match UDP packets in IPv6 from a port. The keys match
// only packets without extension headers (RFC 8200 §3).
func keys6(port uint16) []nl.TcU32Key {
	return []nl.TcU32Key{{Mask: 0x0000ff00, Val: udp << 8, Off: 4}, {Mask: 0xffff0000, Val: uint32(port) << 16, Off: 40}}
}

// filtersOf returns the number of filters that lead to a port's class, by priority.
func (h *Host) filtersOf(index int, port uint16) (map[uint16]int, error) {
	out := map[uint16]int{}
	return out, h.eachFilter(index, func(f *netlink.U32) error {
		if f.ClassId == rootHandle|uint32(port) {
			out[f.Priority]++
		}
		return nil
	})
}

func (h *Host) eachFilter(index int, f func(*netlink.U32) error) error {
	fs, err := h.h.FilterList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: index}}, rootHandle)
	if err != nil {
		return fmt.Errorf("cannot list filters: %w", err)
	}
	for _, x := range fs {
		if u, ok := x.(*netlink.U32); ok && u.ClassId != 0 {
			if err := f(u); err != nil {
				return err
			}
		}
	}
	return nil
}

// fell removes the filters, the class and the qdiscs of one port.
func (h *Host) fell(index int, port uint16) error {
	id := rootHandle | uint32(port)
	err := h.eachFilter(index, func(f *netlink.U32) error {
		if f.ClassId != id {
			return nil
		}
		return explain(h.h.FilterDel(f), "")
	})
	if err != nil {
		return err
	}
	err = h.h.ClassDel(netlink.NewHtbClass(netlink.ClassAttrs{LinkIndex: index, Handle: id, Parent: rootHandle}, netlink.HtbClassAttrs{Rate: 8000}))
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return explain(err, "")
	}
	return nil
}
