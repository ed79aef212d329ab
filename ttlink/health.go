package ttlink

import (
	"time"

	"ttfabric/wire/mono"
)

// Phase is how far a link's training has come, in the words and codes of the
// router firmware: tt-metal's EDMStatus.
type Phase uint8

// The phases, in the order in which training passes them.
const (
	PhaseInit       Phase = iota // the peer's address is unknown: [StateOff]
	PhaseStarted                 // hellos are sent, none of the peer has come since the training began
	PhaseRemote                  // the peer has been heard, and the path is not yet proved both ways
	PhaseLocal                   // up here; the peer has not shown yet that it is up too
	PhaseReady                   // up at both ends
	PhaseTerminated              // closed for good
	numPhases
)

var phases = [numPhases]struct {
	name string
	code uint32
}{
	PhaseInit:       {"initialization started", 0xB0C0D0E0},
	PhaseStarted:    {"started", 0xA0B0C0D0},
	PhaseRemote:     {"remote handshake complete", 0xA1B1C1D1},
	PhaseLocal:      {"local handshake complete", 0xA2B2C2D2},
	PhaseReady:      {"ready for traffic", 0xA3B3C3D3},
	PhaseTerminated: {"terminated", 0xA4B4C4D4},
}

// String is the firmware's name of the phase in lower case.
func (p Phase) String() string {
	if p >= numPhases {
		return "unknown"
	}
	return phases[p].name
}

// Postcode is the word that the firmware writes for the phase; 0 for none.
func (p Phase) Postcode() uint32 {
	if p >= numPhases {
		return 0
	}
	return phases[p].code
}

// TrainStatus is the result of a training, as the ethernet firmware of a
// Wormhole keeps it at 0x1104 of an ethernet tile.
type TrainStatus uint8

// The results.
const (
	TrainInProgress   TrainStatus = 0
	TrainOK           TrainStatus = 1
	TrainFail         TrainStatus = 2 // a wrong cable, ends that don't fit, or a cable that is held down
	TrainNotConnected TrainStatus = 3 // no peer, or none that was heard since the training began, for the profile's DeadIdle
)

// String is the result in words.
func (t TrainStatus) String() string {
	switch t {
	case TrainInProgress:
		return "in progress"
	case TrainOK:
		return "ok"
	case TrainFail:
		return "fail"
	case TrainNotConnected:
		return "not connected"
	}
	return "unknown"
}

// phase is how far the training has come.
func (l *Link) phase() Phase {
	switch {
	case l.state == StateOff:
		return PhaseInit
	case l.state == StateClosed:
		return PhaseTerminated
	case l.state == StateUp && l.sess.confirmed:
		return PhaseReady
	case l.state == StateUp:
		return PhaseLocal
	case l.train.heardPeer:
		return PhaseRemote
	}
	return PhaseStarted
}

// trainStatus is the result of the training so far.
func (l *Link) trainStatus() TrainStatus {
	switch {
	case l.state == StateUp:
		return TrainOK
	case l.state != StateTraining:
		return TrainNotConnected
	case l.held(), l.train.miswired, l.train.mismatched != MismatchNone:
		return TrainFail
	case !l.train.heardPeer && l.now.Sub(l.since) >= l.cfg.Profile.DeadIdle:
		return TrainNotConnected
	}
	return TrainInProgress
}

// history is what a link remembers of its ups and downs.
type history struct {
	retrains    int           // times that it came up again
	lastRetrain mono.Time     // when it did so last; 0: never
	firstUp     mono.Time     // when it came up first; 0: never
	lastDown    DownReason    // why it went down last
	downSince   mono.Time     // when that was
	uptime      time.Duration // of the finished times up
	downtime    time.Duration // of the finished times between down and up
}

// up notes that the link comes up.
func (h *history) up(now mono.Time) {
	if h.firstUp == 0 {
		h.firstUp = max(now, 1)
		return
	}
	h.retrains++
	h.lastRetrain = now
	h.downtime += now.Sub(h.downSince)
}

// down notes that it goes down, having been up since an instant.
func (h *history) down(now, since mono.Time, why DownReason) {
	h.lastDown, h.downSince = why, now
	h.uptime += now.Sub(since)
}

// UpFor is how long the link has been up in its life, by whatever cable.
func (s *Status) UpFor(now mono.Time) time.Duration {
	if s.State == StateUp {
		return s.Uptime + now.Sub(s.Since)
	}
	return s.Uptime
}

// DownFor is how long the link has been down since it came up first.
func (s *Status) DownFor(now mono.Time) time.Duration {
	if s.State != StateUp && s.FirstUp != 0 {
		return s.Downtime + now.Sub(s.DownSince)
	}
	return s.Downtime
}

// Retrain takes the link down and trains it anew at once, in the same session:
// nothing is lost, doubled or reordered. A cable that is held down is let go,
// with its flaps forgotten. It reports whether there was anything to train: the
// peer's address is known, and the link is not closed.
func (l *Link) Retrain(now mono.Time) bool {
	l.now = now
	if l.state != StateUp && l.state != StateTraining {
		return false
	}
	l.damping.forgive()
	l.letGo(now)
	if l.state == StateUp {
		l.goDown(now, DownRetrain)
	} else {
		l.restartHellos(now)
	}
	return true
}
