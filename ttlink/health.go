package ttlink

import (
	"time"

	"ttfabric/wire/mono"
)

// Phase is how far a link's training has come. The names and codes are the names and codes of
// tt-metal's router firmware: its type EDMStatus.
type Phase uint8

// The phases, in the order in which training passes them.
const (
	PhaseInit       Phase = iota // the peer's address is unknown: [StateOff]
	PhaseStarted                 // the link sends hellos; no hello of the peer has come since the training began
	PhaseRemote                  // the peer has been heard, and the path is not yet proved both ways
	PhaseLocal                   // up at this end; the peer has not shown yet that it is up
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

// String returns the firmware's name of the phase in lower case.
func (p Phase) String() string {
	if p >= numPhases {
		return "unknown"
	}
	return phases[p].name
}

// Postcode returns the word that the firmware writes for the phase. If the firmware writes no word,
// Postcode returns 0.
func (p Phase) Postcode() uint32 {
	if p >= numPhases {
		return 0
	}
	return phases[p].code
}

// TrainStatus is the result of a training. The codes are the codes that a Wormhole's ethernet
// firmware keeps at address 0x1104 of an ethernet tile.
type TrainStatus uint8

// The results of a training.
const (
	TrainInProgress   TrainStatus = 0
	TrainOK           TrainStatus = 1
	TrainFail         TrainStatus = 2 // a wrong cable, ends that cannot work together, or a held cable
	TrainNotConnected TrainStatus = 3 // no peer, or no hello of the peer since the training began, for the profile's DeadIdle
)

// String returns the result in words.
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

// phase returns how far the training has come.
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

// trainStatus returns the result of the training so far.
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

// history holds the times at which a link came up and went down.
type history struct {
	retrains    int           // how often the link has come up again
	lastRetrain mono.Time     // when the link last came up again; 0: never
	firstUp     mono.Time     // when the link first came up; 0: never
	lastDown    DownReason    // why the link last went down
	downSince   mono.Time     // when the link last went down
	uptime      time.Duration // sum of the finished periods up
	downtime    time.Duration // sum of the finished periods between down and up
}

// up notes that the link comes up at the instant now.
func (h *history) up(now mono.Time) {
	if h.firstUp == 0 {
		h.firstUp = max(now, 1)
		return
	}
	h.retrains++
	h.lastRetrain = now
	h.downtime += now.Sub(h.downSince)
}

// down notes that the link goes down. The link has been up since the instant "since".
func (h *history) down(now, since mono.Time, why DownReason) {
	h.lastDown, h.downSince = why, now
	h.uptime += now.Sub(since)
}

// UpFor returns for how long the link has been up in total since it was made, by whatever cable.
func (s *Status) UpFor(now mono.Time) time.Duration {
	if s.State == StateUp {
		return s.Uptime + now.Sub(s.Since)
	}
	return s.Uptime
}

// DownFor returns for how long the link has been down in total since it first came up.
func (s *Status) DownFor(now mono.Time) time.Duration {
	if s.State != StateUp && s.FirstUp != 0 {
		return s.Downtime + now.Sub(s.DownSince)
	}
	return s.Downtime
}

// Retrain takes the link down and at once trains it anew, in the same session. No packet is lost,
// doubled or reordered. If the link holds its own cable, Retrain ends the hold and forgets the
// failures. If the peer's address is unknown or the link is closed, Retrain reports false.
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
