package ttlink

import (
	"math/bits"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Path is how a link's frames reach the peer: by the link's own cable, or by a fallback path. A
// fallback path is the cable of another of this end's channels that leads to the same chip (Spec
// §7.4.1.1, "Ethernet Fallback Channels"). The same frames use either path, with the same session,
// sequence numbers, slots and credits.
type Path uint8

// Own is the link's own cable.
const Own Path = 0

// ByChannel returns the path that uses the cable of channel c of this end.
func ByChannel(c wire.Channel) Path { return Path(c) + 1 }

// Channel returns the channel of this end whose cable a fallback path uses.
func (p Path) Channel() wire.Channel { return wire.Channel(p - 1) }

// pathSet has a bit for each path.
type pathSet uint32

func (s pathSet) has(p Path) bool { return s&(1<<p) != 0 }
func (s *pathSet) add(p Path)     { *s |= 1 << p }
func (s *pathSet) remove(p Path)  { *s &^= 1 << p }

func (s pathSet) first() (Path, bool) {
	return Path(bits.TrailingZeros32(uint32(s))), s != 0
}

// homeProofs is how many hellos in a row the peer must answer on a link's own cable before the
// link's frames go back to that cable.
const homeProofs = 2

// paths holds the paths that a link has.
//
// Invariant: now is Own or in alternates while the link is up.
type paths struct {
	now        Path    // the path that frames use while the link is up
	alternates pathSet // fallback paths that the link may use
	announced  pathSet // paths by which the peer has said hello in this session, echoing this end; the peer's frames may come by these paths
	peerVia    [wire.MaxChannels + 1]uint8
	home       int // hellos in a row that the peer answered on the own cable while frames use a fallback path; counts only hellos as long as the link's frames

	carries bool      // the own cable carries the frames
	since   mono.Time // when carries last changed
}

// own notes whether the own cable carries the frames.
func (s *paths) own(now mono.Time, on bool) {
	if s.carries != on {
		s.carries, s.since = on, now
	}
}

// all returns the paths by which the link may send hellos.
func (s *paths) all() pathSet { return s.alternates | 1<<Own }

// takes reports whether frames of the session may come by a path.
func (s *paths) takes(p Path) bool {
	return p == Own || (s.alternates.has(p) && s.announced.has(p))
}

// claimed reports whether the path that a hello states in its field via is the path by which the
// hello came. If the two differ, somebody has swapped two cables.
func (s *paths) claimed(p Path, via uint8) bool {
	if p == Own {
		return via == 0
	}
	return s.alternates.has(p) && via == s.peerVia[p]
}

// proves reports whether a hello proves that a path works both ways. If there is only one path, any
// echo came by that path.
func (s *paths) proves(p Path, h *wire.Hello) bool {
	if s.alternates == 0 {
		return p == Own
	}
	return h.EchoStamp != 0 && stampPath(h.EchoStamp) == p
}

// SetAlternate says whether the cable of another channel may carry this link's frames while the
// link's own cable does not. At the far end of that cable, the peer has the channel named by the
// argument peer. If SetAlternate takes away the path by which the link is up, the link goes down.
func (l *Link) SetAlternate(now mono.Time, p Path, peer wire.Channel, on bool) {
	l.now = now
	s := &l.paths
	if p == Own || p > wire.MaxChannels || s.alternates.has(p) == on {
		return
	}
	if on {
		s.alternates.add(p)
		s.peerVia[p] = uint8(ByChannel(peer))
		if l.state == StateTraining {
			l.train.greet.add(p)
		}
		return
	}
	s.alternates.remove(p)
	s.announced.remove(p)
	l.train.greet.remove(p)
	if s.now == p && l.state == StateUp {
		l.goDown(now, DownPathGone)
	}
}

// greets returns the paths by which the link sends periodic hellos now.
func (l *Link) greets() (s pathSet) {
	if l.state == StateTraining {
		s = l.paths.all()
	} else {
		s.add(Own)
		if !l.sess.confirmed {
			s.add(l.paths.now)
		}
	}
	if l.held() {
		s.remove(Own)
	}
	return s
}

// comeHome counts the answers on the own cable while frames use a fallback path. After enough
// answers, comeHome moves the frames back to the own cable.
func (l *Link) comeHome(now mono.Time, p Path, f *wire.Frame, h *wire.Hello) {
	s := &l.paths
	narrow := f.Padded != 0 && f.Padded < l.agreed
	if s.now == Own || p != Own || narrow || stampPath(h.EchoStamp) != Own {
		return
	}
	if s.home++; s.home < homeProofs {
		return
	}
	s.now, s.home = Own, 0
	s.own(now, true)
	l.events.push(Event{Kind: EventPath, At: now, Session: l.sess.id, Retrains: l.history.retrains, Path: Own})
	l.damping.inUse = now
}

// stampPathBits is the number of bits of a stamp that hold the path by which the hello is sent. The
// other bits hold an instant. A stamp is never zero.
const stampPathBits = 5

func helloStamp(now mono.Time, p Path) uint64 { return (uint64(now)+1)<<stampPathBits | uint64(p) }

func stampPath(s uint64) Path { return Path(s & (1<<stampPathBits - 1)) }

func stampTime(s uint64) mono.Time { return mono.Time(s>>stampPathBits) - 1 }
