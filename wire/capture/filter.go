package capture

import (
	"fmt"
	"strings"

	"ttfabric/wire"
)

// Limits of a filter.
const (
	MaxFilter      = 4096 // length of the longest filter, in bytes
	MaxFilterDepth = 64   // largest depth of nested negations and parentheses in a filter
)

// FilterHelp describes the filter language in help texts.
const FilterHelp = `EXPR is made of these, with and, or, not and parentheses:
  data, update, hello, close         frames of the named kind (also: kind data)
  write, mmio                        frames of L1 writes, of MMIO writes
  raw                                frames of compliance mode, without TT-link header
  nack, solicit, end                 frames with the named flag
  vc VC                              frames on a virtual channel, by number or name
  class CLASS                        frames of a class of packets: request, reply or control
  seq N, ack N, slot N, length N     tx seq, rx seq, slot; length of the frame in bytes
  session N, channel N               session id; channel of the capturing port
  at CHIP, peer CHIP, in, out        capturing chip; chip at the other end; direction
  src CHIP, dst CHIP, chip CHIP      source, destination, source or destination of the fabric packet
  type TYPE                          request, reply, completion, drop, probe, linkstate
  send COMMAND                       write, inline-write, atomic-inc, fused-write-inc, scatter-write,
                                     noc-multicast-write, noc-multicast-inc, read, none
  id N, flow N, plane N, ttl N, hop N, group N    fields of the fabric packet (flow: flow seq)
  multicast, traced, detour          fabric packets that are multicast, traced, on a detour
  other                              fabric packets that take the other direction round rings
  retransmission, fault, bad         frames sent again; with an injected fault; refused by receivers
CHIP is M0D3 or a pattern such as M0D*. N is a number, 0x123, a range such as
100-200 or 100-, or >100, <100. A filter that matches a packet's header matches
all pieces of the packet.`

// Filter decides which datagrams a capture records. The zero Filter records all datagrams.
type Filter struct {
	text string
	test func(*Sight) bool
}

// ParseFilter reads a filter in the language that [FilterHelp] describes. If s has no words, the
// filter records all datagrams. If a word is wrong, the error quotes the first wrong word.
func ParseFilter(s string) (*Filter, error) {
	if len(s) > MaxFilter {
		return nil, fmt.Errorf("filter of %d bytes: want at most %d", len(s), MaxFilter)
	}
	p := &filterParser{words: filterWords(s)}
	if len(p.words) == 0 {
		return &Filter{}, nil
	}
	test, err := p.either()
	if err == nil && p.next() != "" {
		err = p.bad("and, or, or the end")
	}
	if err != nil {
		return nil, fmt.Errorf("filter %q: %w", s, err)
	}
	return &Filter{s, test}, nil
}

// String returns the text of the filter as the user wrote it.
func (f *Filter) String() string { return f.text }

// All reports whether the filter records all datagrams.
func (f *Filter) All() bool { return f.test == nil }

// Takes reports whether the filter records a datagram. The caller must pass s to [Tracker.Look]
// before.
func (f *Filter) Takes(s *Sight) bool { return f.test == nil || f.test(s) }

// filterWords splits the text of a filter into words and signs, such as "(" and "!".
func filterWords(s string) (out []string) {
	for _, r := range []struct{ sign, word string }{{"&&", " and "}, {"||", " or "}, {"(", " ( "}, {")", " ) "}} {
		s = strings.ReplaceAll(s, r.sign, r.word)
	}
	for _, w := range strings.Fields(s) {
		for len(w) > 1 && w[0] == '!' {
			out, w = append(out, "!"), w[1:]
		}
		out = append(out, w)
	}
	return out
}

// filterParser parses the words of a filter from left to right. Each parsing method reads a part of
// the filter and returns the part's test of a datagram.
type filterParser struct {
	words []string
	at    int
	depth int
}

// next returns the next word, or "" at the end.
func (p *filterParser) next() string {
	if p.at < len(p.words) {
		return p.words[p.at]
	}
	return ""
}

func (p *filterParser) bad(want string) error {
	if w := p.next(); w != "" {
		return fmt.Errorf("%q, word %d: want %s", w, p.at+1, want)
	}
	return fmt.Errorf("the filter ends too early: want %s", want)
}

// either parses one or more expressions that are joined by the word "or".
func (p *filterParser) either() (func(*Sight) bool, error) {
	left, err := p.both()
	for err == nil && p.next() == "or" {
		p.at++
		var right func(*Sight) bool
		a := left
		right, err = p.both()
		left = func(s *Sight) bool { return a(s) || right(s) }
	}
	return left, err
}

// both parses one or more terms that are joined by the word "and".
func (p *filterParser) both() (func(*Sight) bool, error) {
	left, err := p.one()
	for err == nil && p.next() == "and" {
		p.at++
		var right func(*Sight) bool
		a := left
		right, err = p.one()
		left = func(s *Sight) bool { return a(s) && right(s) }
	}
	return left, err
}

// The method "one" parses a term: a primitive, a negation, or an expression in parentheses.
func (p *filterParser) one() (func(*Sight) bool, error) {
	if p.depth++; p.depth > MaxFilterDepth+1 { // the innermost primitive counts, too
		return nil, fmt.Errorf("more than %d nested parentheses and negations", MaxFilterDepth)
	}
	defer func() { p.depth-- }()
	switch w := p.next(); w {
	case "not", "!":
		p.at++
		f, err := p.one()
		return func(s *Sight) bool { return !f(s) }, err
	case "(":
		p.at++
		f, err := p.either()
		if err == nil && p.next() != ")" {
			err = p.bad("and, or, or a closing parenthesis")
		}
		p.at++
		return f, err
	default:
		if f := bareWords[w]; f != nil {
			p.at++
			return f, nil
		}
		if parse := primitives[w]; parse != nil {
			p.at++
			arg := p.next()
			if arg == "" {
				return nil, fmt.Errorf("the filter ends after %q: want a value", w)
			}
			f, err := parse(arg)
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", w, arg, err)
			}
			p.at++
			return f, nil
		}
		return nil, p.bad("a filter such as data, vc 0, dst M0D3, seq 100-200; 'ttfabric capture --help' lists all")
	}
}

// bareWords maps the name of each filter primitive without an argument to the primitive's test of a
// datagram.
var bareWords = map[string]func(*Sight) bool{
	"data":           isKind(wire.KindData),
	"update":         isKind(wire.KindUpdate),
	"hello":          isKind(wire.KindHello),
	"write":          isKind(wire.KindWrite),
	"mmio":           isKind(wire.KindMMIO),
	"raw":            func(s *Sight) bool { return wire.IsRaw(s.Data) },
	"close":          isKind(wire.KindClose),
	"nack":           hasFlag(wire.FlagNACK),
	"solicit":        hasFlag(wire.FlagSolicit),
	"end":            hasFlag(wire.FlagEnd),
	"in":             func(s *Sight) bool { return s.Dir == DirIn },
	"out":            func(s *Sight) bool { return s.Dir == DirOut },
	"multicast":      func(s *Sight) bool { return s.Head != nil && (s.Head.Trunk() != wire.TrunkNone || toMembers(s.Head)) },
	"traced":         func(s *Sight) bool { return s.Head != nil && s.Head.Traced() },
	"detour":         func(s *Sight) bool { return s.Head != nil && s.Head.Detour() },
	"other":          func(s *Sight) bool { return s.Head != nil && s.Head.Other() },
	"retransmission": func(s *Sight) bool { return s.Retransmitted },
	"fault":          func(s *Sight) bool { return s.Fault },
	"bad":            isBad,
}

// toMembers reports whether a packet is a multicast to members. On its way to the members' mesh,
// such a packet has no trunk.
func toMembers(v wire.PacketView) bool { return !v.Type().Control() && v.HasMembers() }

func isKind(k wire.Kind) func(*Sight) bool {
	return func(s *Sight) bool { return s.IsFrame && s.Frame.Kind == k }
}

func hasFlag(f wire.Flags) func(*Sight) bool {
	return func(s *Sight) bool { return s.IsFrame && s.Frame.Flags&f != 0 }
}

// isBad reports whether a receiver would refuse the datagram because the datagram is not exactly
// one valid frame. If the capture does not have all bytes of the datagram, isBad reports false.
func isBad(s *Sight) bool {
	if len(s.Data) < s.Length {
		return false
	}
	if wire.IsRaw(s.Data) {
		_, _, err := wire.DecodeRaw(s.Data)
		return err != nil
	}
	_, err := wire.DecodeFrame(s.Data)
	return err != nil
}
