package ttlink

import (
	"time"

	"ttfabric/wire/mono"
)

// Phase says how far a link's training has come. The names and codes are those of the type
// EDMStatus in tt-metal's router firmware.
type Phase uint8

// The phases, in the order in which training passes them.
const (
	PhaseInit       Phase = iota // the peer's address is unknown: [StateOff]
	PhaseStarted                 // the link sends hellos, but no hello of the peer has come since the training began
	PhaseRemote                  // a hello of the peer has come, but the path is not proved both ways yet
	PhaseLocal                   // the link is up at this end, but the peer has not shown yet that the link is up at the peer's end
	PhaseReady                   // the link is up at both ends
	PhaseTerminated              // the owner has closed the link
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

// String returns the name of the phase in the firmware, in lower case.
func (p Phase) String() string {
	if p >= numPhases {
		return "unknown"
	}
	return phases[p].name
}

// Postcode returns the code that the firmware writes to memory in this phase. For an unknown phase,
// Postcode returns 0.
func (p Phase) Postcode() uint32 {
	if p >= numPhases {
		return 0
	}
	return phases[p].code
}

// TrainStatus is the result of a training. Package board of node/firmware translates the result into the
// words that a host reads in an ethernet tile.
type TrainStatus uint8

// The results of a training.
const (
	TrainInProgress   TrainStatus = 0
	TrainOK           TrainStatus = 1
	TrainFail         TrainStatus = 2 // the cable leads to a wrong port, the ends cannot work together, or the cable is held
	TrainNotConnected TrainStatus = 3 // the link is off or closed, or has trained for trainHellos times HelloMax without a hello of the peer
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

// phase returns the present phase of the training.
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
	case !l.train.heardPeer && l.now.Sub(l.since) >= trainHellos*l.cfg.Profile.HelloMax:
		return TrainNotConnected
	}
	return TrainInProgress
}

// history holds the times at which a link came up and went down.
type history struct {
	retrains    int           // number of times that the link has come up, without the first time
	lastRetrain mono.Time     // when the link last came up, without the first time; 0: the link has come up at most once
	firstUp     mono.Time     // when the link first came up; 0: never
	lastDown    DownReason    // why the link last went down
	downSince   mono.Time     // when the link last went down
	uptime      time.Duration // total time for which the link was up, without the present period
	downtime    time.Duration // total time for which the link was down since firstUp, without the present period
}

// The method "up" notes that the link comes up at the instant now.
func (h *history) up(now mono.Time) {
	if h.firstUp == 0 {
		h.firstUp = max(now, 1)
		return
	}
	h.retrains++
	h.lastRetrain = now
	h.downtime += now.Sub(h.downSince)
}

// The method "down" notes that the link goes down at the instant now for the reason why. The
// argument "since" is the instant at which the link came up.
func (h *history) down(now, since mono.Time, why DownReason) {
	h.lastDown, h.downSince = why, now
	h.uptime += now.Sub(since)
}

// UpFor returns the total time for which the link has been up by any cable, until the instant now.
func (s *Status) UpFor(now mono.Time) time.Duration {
	if s.State == StateUp {
		return s.Uptime + now.Sub(s.Since)
	}
	return s.Uptime
}

// DownFor returns the total time for which the link has been down since it first came up, until the
// instant now.
func (s *Status) DownFor(now mono.Time) time.Duration {
	if s.State != StateUp && s.FirstUp != 0 {
		return s.Downtime + now.Sub(s.DownSince)
	}
	return s.Downtime
}

// Retrain takes the link down if it is up, and makes the link train at once. The session continues,
// so no packet is lost, duplicated or reordered. Retrain forgets all earlier failures of the cable,
// and no longer counts the cable as unreliable. Retrain ends a hold of the own cable, except for
// the hold of [Link.Reroute]. If the link is off or closed, Retrain does nothing and returns false.
func (l *Link) Retrain(now mono.Time) bool {
	l.now = now
	if l.state != StateUp && l.state != StateTraining {
		return false
	}
	l.damping.forgive()
	l.trust(now)
	if l.damping.why != HoldOrdered {
		l.letGo(now)
	}
	if l.state == StateUp {
		l.goDown(now, DownRetrain)
	} else {
		l.restartHellos(now)
	}
	return true
}
