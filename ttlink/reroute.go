package ttlink

import "ttfabric/wire/mono"

// This file implements the reroute mode of a link (Spec §7.4.1). In reroute mode, a link's frames
// leave the own cable, although the cable works. The owner orders the mode with [Link.Reroute]. An
// unreliable cable causes the mode, too (see unreliable.go).
//
// The link first asks by its fallback paths. As soon as the peer answers by a fallback path, the
// link holds its own cable and trains. The session continues, so no packet is lost, doubled or
// reordered. The peer learns from the training that it must leave the cable, because the hold keeps
// the cable out of use at both ends. If no fallback path answers, the link stays on its own cable.

// If "on" is true, Reroute puts the link into reroute mode. If "on" is false, Reroute ends the
// mode. In reroute mode, the link's frames use a fallback path while one works, even if the own
// cable works. After a call with false, the frames return to the own cable as soon as the peer
// answers by the own cable. If the own cable is unreliable, the peer must first answer
// [ReliableProofs] hellos on this cable.
func (l *Link) Reroute(now mono.Time, on bool) {
	l.now = now
	if l.paths.ordered == on {
		return
	}
	l.paths.ordered = on
	switch {
	case !on && l.held() && l.damping.why == HoldOrdered:
		l.letGo(now)
	case on && l.state == StateUp && l.paths.now != Own:
		if !l.held() {
			l.hold(now, mono.Never, HoldOrdered)
		}
	case on:
		l.seek(now)
	}
}

// Assign names the fallback path that the link prefers. If the link's frames use another fallback
// path, the link trains at once, and then uses p. The path [Own] means that the link has no
// preference.
func (l *Link) Assign(now mono.Time, p Path) {
	l.now = now
	s := &l.paths
	if s.assigned == p {
		return
	}
	s.assigned = p
	if l.state == StateUp && s.now != Own && s.now != p && s.alternates.has(p) {
		l.goDown(now, DownRerouted)
	}
}

// Trust tells the link whether the cable of the fallback path p is reliable. A link does not leave
// its own unreliable cable for another unreliable cable. If p carries the link's frames, and the
// link left its own cable as unreliable, the link ends the hold of its own cable.
func (l *Link) Trust(now mono.Time, p Path, on bool) {
	l.now = now
	s := &l.paths
	if p == Own || p > maxPath || s.poor.has(p) != on {
		return
	}
	if on {
		s.poor.remove(p)
		l.seek(now)
		return
	}
	s.poor.add(p)
	if l.state == StateUp && s.now == p && l.held() && l.damping.why == HoldUnreliable {
		l.letGo(now)
	}
}

// seeks returns the fallback paths by which the link asks because it wants to leave its own cable.
func (l *Link) seeks() pathSet {
	s := &l.paths
	switch {
	case l.state != StateUp || s.now != Own:
		return 0
	case s.ordered:
		return s.alternates
	case l.damping.unreliable && !l.cfg.KeepUnreliable:
		return s.alternates &^ s.poor
	}
	return 0
}

// seek makes the link ask at once by the paths of [Link.seeks].
func (l *Link) seek(now mono.Time) {
	if l.seeks() != 0 {
		l.restartHellos(now)
	}
}

// leave holds the own cable of a link that is up by this cable, and makes the link train.
func (l *Link) leave(now mono.Time) {
	if l.paths.ordered {
		l.hold(now, mono.Never, HoldOrdered)
	} else {
		l.damping.decay(now)
		l.hold(now, now.Add(next(&l.damping.quality.level)), HoldUnreliable)
	}
	l.goDown(now, DownRerouted)
}
