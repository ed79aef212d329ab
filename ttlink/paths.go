package ttlink

import (
	"math/bits"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Path says by which cable a link's frames reach the peer: by the link's own cable, or by a
// fallback path. A fallback path is the cable of another channel of this chip that leads to the
// same peer chip (Spec §7.4.1.1, "Ethernet Fallback Channels"). The session, the sequence numbers,
// the slots and the credits do not depend on the path.
type Path uint8

// Own is the path by the link's own cable.
const Own Path = 0

// maxPath is the path by the cable of the last channel.
const maxPath = Path(wire.MaxChannels)

// ByChannel returns the path by the cable of this chip's channel c.
func ByChannel(c wire.Channel) Path { return Path(c) + 1 }

// Channel returns the channel of this chip whose cable the fallback path p uses.
func (p Path) Channel() wire.Channel { return wire.Channel(p - 1) }

// pathSet is a set of paths, with one bit for each path.
type pathSet uint32

func (s pathSet) has(p Path) bool { return s&(1<<p) != 0 }
func (s *pathSet) add(p Path)     { *s |= 1 << p }
func (s *pathSet) remove(p Path)  { *s &^= 1 << p }

func (s pathSet) first() (Path, bool) {
	return Path(bits.TrailingZeros32(uint32(s))), s != 0
}

// homeProofs is the number of hellos that the peer must answer on a link's own cable. The link's
// frames then return from a fallback path to that cable.
const homeProofs = 2

// paths holds the paths of a link, and what the link knows about these paths.
//
// Invariant: now is Own or in alternates while the link is up.
type paths struct {
	now        Path    // the path by which the link sends frames while it is up
	alternates pathSet // fallback paths that the link may use
	announced  pathSet // paths by which a hello that echoes this end has come in this session; the link accepts frames of the session by these paths and by its own cable
	peerVia    [wire.MaxChannels + 1]uint8
	home       int // number of hellos that the peer has answered on the own cable since frames use a fallback path; answers shorter than the link's frames do not count

	assigned Path    // fallback path that the link prefers; Own: no preference
	ordered  bool    // the owner has ordered the reroute mode
	poor     pathSet // fallback paths whose cables are unreliable

	carries bool      // the link is up and sends its frames by the own cable
	since   mono.Time // time of the last change of carries; 0: never
}

// own notes at the instant now whether the own cable carries the link's frames.
func (s *paths) own(now mono.Time, on bool) {
	if s.carries != on {
		s.carries, s.since = on, now
	}
}

// all returns the own cable and all fallback paths.
func (s *paths) all() pathSet { return s.alternates | 1<<Own }

// takes reports whether the link accepts frames of the session that come by the path p.
func (s *paths) takes(p Path) bool {
	return p == Own || (s.alternates.has(p) && s.announced.has(p))
}

// claimed reports whether the field via of a hello names the path p by which the hello came. The
// result is false, for example, if somebody has swapped two cables.
func (s *paths) claimed(p Path, via uint8) bool {
	if p == Own {
		return via == 0
	}
	return s.alternates.has(p) && via == s.peerVia[p]
}

// proves reports whether the echo in the hello h shows that the path p works both ways. If the link
// has only one path, every echo of a hello of this end proves the path. If the link has several
// paths, h must answer a hello that this end sent by p.
func (s *paths) proves(p Path, h *wire.Hello) bool {
	if s.alternates == 0 {
		return p == Own
	}
	return h.EchoStamp != 0 && stampPath(h.EchoStamp) == p
}

// SetAlternate adds or removes the fallback path p. If "on" is true, the link may send its frames
// by p while its own cable does not carry the frames. The argument "peer" is the peer chip's
// channel at the other end of p. If p is Own, beyond the last channel, or already as requested,
// SetAlternate does nothing. If SetAlternate removes the path by which the link is up, the link
// goes down.
func (l *Link) SetAlternate(now mono.Time, p Path, peer wire.Channel, on bool) {
	l.now = now
	s := &l.paths
	if p == Own || p > maxPath || s.alternates.has(p) == on {
		return
	}
	if on {
		s.alternates.add(p)
		s.peerVia[p] = uint8(ByChannel(peer))
		if l.state == StateTraining {
			l.train.greet.add(p)
		}
		l.seek(now)
		return
	}
	s.alternates.remove(p)
	s.announced.remove(p)
	l.train.greet.remove(p)
	if s.now == p && l.state == StateUp {
		l.goDown(now, DownPathGone)
	}
	if s.alternates == 0 && l.held() && l.damping.why != HoldFlaps {
		l.letGo(now)
	}
}

// greets returns the paths by which the link sends periodic hellos now.
func (l *Link) greets() (s pathSet) {
	switch a := l.paths.assigned; {
	case l.state == StateUp:
		s = l.seeks()
		s.add(Own)
		if !l.sess.confirmed {
			s.add(l.paths.now)
		}
	case l.size.tries == 0 && l.paths.alternates.has(a): // the preferred path gets a head start of HelloMin
		s.add(Own)
		s.add(a)
	default:
		s = l.paths.all()
	}
	if l.held() {
		s.remove(Own)
	}
	return s
}

// change counts an answer that came by a path which does not carry the link's frames. After
// homeProofs answers by the own cable, change makes the link send its frames by that cable again. If
// the cable is on trial, change needs [ReliableProofs] answers. If the link wants to leave its own
// cable, one answer by a fallback path is enough. After this answer, change takes the link down and
// returns true.
func (l *Link) change(now mono.Time, p Path, f *wire.Frame, h *wire.Hello) (down bool) {
	s := &l.paths
	if narrow := f.Padded != 0 && f.Padded < l.agreed; narrow || stampPath(h.EchoStamp) != p {
		return false
	}
	if l.seeks().has(p) {
		l.leave(now)
		return true
	}
	if s.now == Own || p != Own {
		return false
	}
	s.home++
	if trial := l.onTrial(); s.home < homeProofs || trial && s.home < ReliableProofs {
		return false
	} else if trial {
		l.trust(now)
	}
	s.now, s.home = Own, 0
	l.carry(now, true)
	l.events.push(Event{Kind: EventPath, At: now, Session: l.sess.id, Retrains: l.history.retrains, Path: Own})
	return false
}

// stampPathBits is the number of low bits of a hello's stamp that hold the path by which the hello
// is sent. The other bits hold the instant plus 1, so a stamp is never zero.
const stampPathBits = 5

func helloStamp(now mono.Time, p Path) uint64 { return (uint64(now)+1)<<stampPathBits | uint64(p) }

func stampPath(s uint64) Path { return Path(s & (1<<stampPathBits - 1)) }

func stampTime(s uint64) mono.Time { return mono.Time(s>>stampPathBits) - 1 }
