package capture

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"ttfabric/wire"
)

// primitives maps the name of each filter primitive that has an argument to a function. The
// function reads the argument, and returns the primitive's test of a datagram.
var primitives = map[string]func(arg string) (func(*Sight) bool, error){
	"kind": ofKind, "vc": ofVC, "class": ofClass, "type": ofType, "send": ofCommand,
	"seq":     ofNumbered(func(s *Sight) uint64 { return uint64(s.Frame.TxSeq) }),
	"slot":    ofData(func(s *Sight) uint64 { slot, _ := s.Frame.Slot(); return uint64(slot) }),
	"ack":     ofFrame(func(s *Sight) uint64 { return uint64(s.Frame.RxSeq) }),
	"session": ofFrame(func(s *Sight) uint64 { return uint64(s.Frame.Session) }),
	"length":  ranged(func(s *Sight) (uint64, bool) { return uint64(s.Length), true }),
	"channel": ranged(func(s *Sight) (uint64, bool) { return uint64(s.Port.Channel), true }),
	"at":      ofChip(func(s *Sight) (a, b wire.FabricNodeID, ok bool) { return s.Port.Node, s.Port.Node, true }),
	"peer":    ofChip(func(s *Sight) (a, b wire.FabricNodeID, ok bool) { return s.Peer.Node, s.Peer.Node, true }),
	"src":     ofPacketChip(func(v wire.PacketView) (a, b wire.FabricNodeID) { return v.Src(), v.Src() }),
	"dst":     ofPacketChip(func(v wire.PacketView) (a, b wire.FabricNodeID) { return v.Dst(), v.Dst() }),
	"chip":    ofPacketChip(func(v wire.PacketView) (a, b wire.FabricNodeID) { return v.Src(), v.Dst() }),
	"id":      ofPacket(func(v wire.PacketView) uint64 { return v.ID() }),
	"flow":    ofPacket(func(v wire.PacketView) uint64 { _, seq := v.Flow(); return uint64(seq) }),
	"plane":   ofPacket(func(v wire.PacketView) uint64 { return uint64(v.Plane()) }),
	"ttl":     ofPacket(func(v wire.PacketView) uint64 { return uint64(v.TTL()) }),
	"hop":     ofPacket(func(v wire.PacketView) uint64 { return uint64(v.Hop()) }),
	"group":   ofPacket(func(v wire.PacketView) uint64 { return uint64(v.Group()) }),
}

// interval reads a number or a range of numbers: "7", "0x7", "1-9", "5-", ">5" or "<5". The range
// includes low and high.
func interval(arg string) (low, high uint64, err error) {
	bad := errors.New("want a number, 0x and hexadecimal digits, a range such as 1-9 or 5-, or >5, <5")
	read := func(s string) uint64 {
		n, e := strconv.ParseUint(s, 0, 64)
		if e != nil {
			err = bad
		}
		return n
	}
	high = ^uint64(0)
	from, to, two := strings.Cut(arg, "-")
	switch {
	case arg[0] == '>':
		if low = read(arg[1:]) + 1; low == 0 {
			err = bad
		}
	case arg[0] == '<':
		if high = read(arg[1:]) - 1; high == ^uint64(0) {
			err = bad
		}
	case two && to == "":
		low = read(from)
	case two:
		low, high = read(from), read(to)
	default:
		low = read(arg)
		high = low
	}
	if err == nil && low > high {
		err = fmt.Errorf("the range begins at %d and ends at %d, which is lower", low, high)
	}
	return low, high, err
}

// ranged returns the reader of a primitive that tests a number. The function "get" returns the
// number of a datagram, or false if the datagram has no such number.
func ranged(get func(*Sight) (uint64, bool)) func(string) (func(*Sight) bool, error) {
	return func(arg string) (func(*Sight) bool, error) {
		low, high, err := interval(arg)
		return func(s *Sight) bool {
			n, ok := get(s)
			return ok && low <= n && n <= high
		}, err
	}
}

func ofFrame(get func(*Sight) uint64) func(string) (func(*Sight) bool, error) {
	return ranged(func(s *Sight) (uint64, bool) { return get(s), s.IsFrame })
}

func ofData(get func(*Sight) uint64) func(string) (func(*Sight) bool, error) {
	return ranged(func(s *Sight) (uint64, bool) { return get(s), s.IsFrame && s.Frame.Kind == wire.KindData })
}

func ofNumbered(get func(*Sight) uint64) func(string) (func(*Sight) bool, error) {
	return ranged(func(s *Sight) (uint64, bool) { return get(s), s.IsFrame && s.Frame.Kind.Numbered() })
}

func ofPacket(get func(wire.PacketView) uint64) func(string) (func(*Sight) bool, error) {
	return ranged(func(s *Sight) (uint64, bool) {
		if s.Head == nil {
			return 0, false
		}
		return get(s.Head), true
	})
}

// ofChip returns the reader of a primitive that tests chips. The function "get" returns one or two
// chips of a datagram. The test is true if the argument names one of these chips.
func ofChip(get func(*Sight) (a, b wire.FabricNodeID, ok bool)) func(string) (func(*Sight) bool, error) {
	return func(arg string) (func(*Sight) bool, error) {
		if strings.ContainsAny(arg, "*?[") {
			pattern := strings.ToUpper(arg)
			if _, err := path.Match(pattern, ""); err != nil {
				return nil, fmt.Errorf("not a pattern: %w", err)
			}
			match := func(n wire.FabricNodeID) bool { ok, _ := path.Match(pattern, n.String()); return ok }
			return func(s *Sight) bool {
				a, b, ok := get(s)
				return ok && (match(a) || match(b))
			}, nil
		}
		n, err := wire.ParseFabricNodeID(arg)
		return func(s *Sight) bool {
			a, b, ok := get(s)
			return ok && (a == n || b == n)
		}, err
	}
}

func ofPacketChip(get func(wire.PacketView) (a, b wire.FabricNodeID)) func(string) (func(*Sight) bool, error) {
	return ofChip(func(s *Sight) (a, b wire.FabricNodeID, ok bool) {
		if s.Head == nil {
			return a, b, false
		}
		a, b = get(s.Head)
		return a, b, true
	})
}

// kindNames holds the names of the kinds of frame, in filters and in the text of [Line].
var kindNames = map[wire.Kind]string{wire.KindData: "data", wire.KindUpdate: "update", wire.KindHello: "hello", wire.KindClose: "close",
	wire.KindWrite: "write", wire.KindMMIO: "mmio"}

// typeNames holds the names of the types of packet, in filters and in the text of [Line].
var typeNames = map[wire.PacketType]string{wire.PacketRequest: "request", wire.PacketReply: "reply", wire.PacketCompletion: "completion",
	wire.PacketDropReport: "drop", wire.PacketProbe: "probe", wire.PacketLinkState: "linkstate"}

// named returns the value that arg names. The argument "arg" is either one of the names or a
// number.
func named[K ~uint8](names map[K]string, arg string) (K, error) {
	if n, err := strconv.ParseUint(arg, 0, 8); err == nil {
		return K(n), nil
	}
	var all []string
	for k, name := range names {
		if name == arg {
			return k, nil
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return 0, fmt.Errorf("want a number or one of %s", strings.Join(all, ", "))
}

func ofKind(arg string) (func(*Sight) bool, error) {
	k, err := named(kindNames, arg)
	return isKind(k), err
}

func ofType(arg string) (func(*Sight) bool, error) {
	t, err := named(typeNames, arg)
	return func(s *Sight) bool { return s.Head != nil && s.Head.Type() == t }, err
}

func ofVC(arg string) (func(*Sight) bool, error) {
	names := map[wire.VC]string{}
	for v := range wire.VC(wire.NumVCs) {
		names[v] = v.String()
	}
	v, err := named(names, arg)
	if err == nil && v >= wire.NumVCs {
		err = fmt.Errorf("want less than %d", wire.NumVCs)
	}
	return func(s *Sight) bool { return s.IsFrame && s.Frame.Kind == wire.KindData && s.Frame.VC == v }, err
}

func ofClass(arg string) (func(*Sight) bool, error) {
	c, err := named(map[wire.Class]string{wire.ClassRequest: "request", wire.ClassReply: "reply", wire.ClassControl: "control"}, arg)
	return func(s *Sight) bool {
		return s.IsFrame && s.Frame.Kind == wire.KindData && s.Frame.VC.Class() == c
	}, err
}

func ofCommand(arg string) (func(*Sight) bool, error) {
	names := map[wire.NocSendType]string{}
	for _, c := range []wire.NocSendType{wire.NocUnicastWrite, wire.NocInlineWrite, wire.NocAtomicInc, wire.NocFusedInc, wire.NocScatterWrite, wire.NocMulticastWrite, wire.NocMulticastInc, wire.NocRead, wire.NocNone} {
		names[c] = c.String()
	}
	c, err := named(names, arg)
	return func(s *Sight) bool {
		return s.Head != nil && s.Head.Type() == wire.PacketRequest && s.Head.SendType() == c
	}, err
}
