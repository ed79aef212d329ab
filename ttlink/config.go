package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Limits of a link. A limit whose comment names no source is a choice of this project.
const (
	// DefaultWindow is the default size of the retransmit slab, in bytes. On machines that are slow
	// to wake a process, 1 MiB gave 1.5 times the goodput of 512 KiB. A socket buffer of 4 MiB has
	// room for the frames of a full slab.
	DefaultWindow = 1 << 20
	// MinWindow is the smallest size of the retransmit slab, in bytes. A slab of this size has room
	// for two packets of the largest size, cut into the smallest frames.
	MinWindow = 64 << 10
	// MaxWindow is the largest size of the retransmit slab, in bytes.
	MaxWindow = 16 << 20
	// MaxFrames is the largest number of unacknowledged frames, a power of two. With this number,
	// frames of 64 bytes reach two thirds of the goodput of plain UDP.
	MaxFrames = 4096
	// MaxPacket is the largest packet that a slot for requests or replies takes, in bytes. A slot for
	// control packets takes [wire.ControlLen] bytes.
	MaxPacket = wire.SlotSize
	// MinPayload is the smallest frame payload with which a link works, in bytes. A hello of 80
	// bytes has this length with its padding. A control packet has this length, and therefore always
	// fits one frame.
	MinPayload = 96
	// MaxSlots is the largest size of a receiver channel, in packets. A hello has 16 bits for the
	// size.
	MaxSlots = 1<<16 - 1
	// MaxBatchFrames is the largest number of frames in one [Transmit]. Linux before 6.9 takes no
	// more datagrams in a super-packet (UDP_MAX_SEGMENTS).
	MaxBatchFrames = 64
	// MaxBatchBytes is the largest length of one [Transmit], in bytes. A super-packet over IPv4
	// holds at most 65,507 bytes, and a sealed transport adds 32 bytes to each of 64 frames.
	MaxBatchBytes = 60 << 10
	// MaxEvents is the largest number of events that wait for [Link.PollEvent].
	MaxEvents = 64
	// MaxRTT is the longest round trip that the link measures. The link ignores a longer
	// measurement, or uses MaxRTT instead.
	MaxRTT = 10 * time.Second
	// StallTolerance is the longest time by which [Link.Tick] may come late. If Tick comes later,
	// the owner's loop was stalled, and the link stops its running measurement of the round trip.
	StallTolerance = 2 * time.Millisecond
	// StallSilence is the longest stall of the owner's loop that an idle link still counts as
	// silence of the peer. If an idle link discounted short stalls, an owner whose loop often comes
	// a little late would notice a cut much later. While frames are under way, the link discounts
	// short stalls too, because DeadTraffic is short and a loaded machine is late often.
	StallSilence = 10 * time.Millisecond
	// FewSlots is the largest size of a receiver channel, in packets, for which
	// [Link.ShortOfCredits] may return true. With more slots, enough packets are under way while a
	// process wakes up.
	FewSlots = 32
	// CreditMemory is the time for which [Link.ShortOfCredits] remembers that an end had no credit.
	CreditMemory = time.Millisecond

	answerBurst    = 8                      // largest number of answers to hellos that an end sends in immediate succession
	answerRefill   = 2 * time.Millisecond   // time after which an end may send one more answer
	ackDelay       = time.Millisecond       // longest time for which an acknowledgement waits for a data frame that can carry it
	ackBytes       = 32 << 10               // bytes of unacknowledged payload after which the receiver acknowledges at once; half of MinWindow
	initialRTO     = 50 * time.Millisecond  // retransmission timeout before the first measured round trip
	unknownDead    = 8 * time.Second        // time without a frame from the peer after which a link with frames under way goes down, as long as no round trip has been measured
	maxDead        = 15 * time.Second       // longest time without a frame from the peer that a long round trip can make the link accept
	lateRemember   = time.Second            // time after a discounted stall of the owner's loop for which the link waits longer for a silent peer
	lateFactor     = 2                      // a peer may be late by this many times the longest stall of the owner's loop
	asksInSilence  = 16                     // number of times that an idle link asks a silent peer before it goes down
	trainHellos    = 2                      // a training without a hello of the peer counts as not connected after this many times HelloMax
	stuckMin       = 8 * time.Second        // shortest time for which the oldest frame is unacknowledged before the link goes down for this reason
	stuckTimeouts  = 8                      // the link goes down after the oldest frame has been unacknowledged for this many retransmission timeouts, and for at least stuckMin
	staleRTT       = 4                      // the link discards its estimate of the round trip if the estimate is more than this many times a new measurement
	refineMost     = 8                      // number of answered hellos after which a link that came up stops measuring a long round trip again
	nackDoublings  = 6                      // largest number of doublings of the time between two NACKs for one missing frame
	slabIdle       = 10 * time.Second       // the link frees the memory of a slab that has been empty for this time
	endedRemember  = 8                      // number of incarnations with an ended session that the link remembers
	goBackMin      = 100 * time.Microsecond // shortest time between a go-back and a later go-back because of a NACK
	nackMin        = time.Millisecond       // shortest time between two NACKs for one missing frame
	minFlight      = 16                     // smallest limit of the frames under way; many go-backs in a row reduce the limit to this
	flightGain     = 3                      // after a go-back, the limit of the frames under way is at least this many times the frames acknowledged since the previous go-back; at random loss, 3 costs 5 % of the goodput
	maxBackoff     = 10                     // largest number of doublings of a timeout
	reportEvery    = time.Second            // shortest time between two events EventMiswired or EventIncompatible
	miswiredEvents = MaxEvents / 2          // number of queued events from which on EventMiswired and EventIncompatible are dropped
)

// Profile is a named set of the times of a link, for one kind of environment. The link varies
// HelloMin and HelloMax at random by up to a quarter. If the measured round trip is long, the link
// uses longer times than DeadTraffic and DeadIdle (see rttEstimate.patience), up to 15 s.
type Profile struct {
	Name        string
	DeadTraffic time.Duration // time without a frame from the peer after which a link with frames under way goes down
	DeadIdle    time.Duration // time without a frame from the peer after which an idle link goes down
	Keepalive   time.Duration // distance of the instants at which an idle end sends a frame; see Config.Phase
	Hold        time.Duration // time for which a link may be down before the routing tables avoid its cable
	Boot        time.Duration // time that a link may take to come up for the first time; then the routing tables avoid its cable
	HelloMin    time.Duration // time between the first two hellos of a training
	HelloMax    time.Duration // longest time between two hellos; the time doubles up to HelloMax
	RTOMin      time.Duration // shortest retransmission timeout
	RTOMax      time.Duration // the timeout doubles up to RTOMax; if a long round trip already makes the first timeout longer than RTOMax, the timeout does not double
}

// The profiles. In each profile, DeadIdle is at least DeadTraffic plus 9/8 of Keepalive. An idle link
// therefore stays up if the peer's process stands still for DeadTraffic. RTOMax is long, because a path
// may become so slow that the link sends each frame again before its acknowledgement comes. The
// link then cannot measure the round trip. The link must double the timeout until the timeout
// exceeds the round trip.
var (
	// ProfileLAN is for chips that each have a processor core of their own.
	ProfileLAN = Profile{
		Name: "lan", DeadTraffic: 60 * time.Millisecond, DeadIdle: 240 * time.Millisecond, Keepalive: 150 * time.Millisecond,
		Hold: 120 * time.Millisecond, Boot: 10 * time.Second,
		HelloMin: 20 * time.Millisecond, HelloMax: 500 * time.Millisecond, RTOMin: 5 * time.Millisecond, RTOMax: 2 * time.Second,
	}
	// ProfileCrowded is for a machine that runs more chips than it has processor cores.
	ProfileCrowded = Profile{
		Name: "crowded", DeadTraffic: 250 * time.Millisecond, DeadIdle: 620 * time.Millisecond, Keepalive: 320 * time.Millisecond,
		Hold: 200 * time.Millisecond, Boot: 25 * time.Second,
		HelloMin: 50 * time.Millisecond, HelloMax: time.Second, RTOMin: 20 * time.Millisecond, RTOMax: 5 * time.Second,
	}
	// ProfilePaced is for transports that delay datagrams. QUIC paces its packets, and may
	// acknowledge only after 25 ms (RFC 9000 §18.2).
	ProfilePaced = Profile{
		Name: "paced", DeadTraffic: time.Second, DeadIdle: 2400 * time.Millisecond, Keepalive: 1200 * time.Millisecond,
		Hold: 2 * time.Second, Boot: 25 * time.Second,
		HelloMin: 50 * time.Millisecond, HelloMax: time.Second, RTOMin: 80 * time.Millisecond, RTOMax: 5 * time.Second,
	}
)

// quiet returns the longest time without a frame from a live idle peer with the same profile. The
// time has room for a wake-up that comes late.
func (p *Profile) quiet() time.Duration { return p.Keepalive + p.spare() + p.Keepalive/16 }

// spare returns a limit of time. A link skips a keepalive if the link has sent a data frame or a
// sequence update less than this time before.
func (p *Profile) spare() time.Duration { return p.Keepalive / 8 }

// valid returns an error if a time of p is out of range.
func (p *Profile) valid() error {
	switch {
	case p.DeadTraffic <= 0:
		return fmt.Errorf("profile %q: DeadTraffic %v: want a time above 0", p.Name, p.DeadTraffic)
	case p.Keepalive <= 0 || p.DeadIdle < p.DeadTraffic+p.Keepalive+p.spare():
		return fmt.Errorf("profile %q: Keepalive %v: want a time above 0, of which 9/8 and DeadTraffic %v are at most DeadIdle, which is %v", p.Name, p.Keepalive, p.DeadTraffic, p.DeadIdle)
	case p.Hold <= 0 || p.Boot < p.Hold:
		return fmt.Errorf("profile %q: Hold %v, Boot %v: want 0 < Hold ≤ Boot", p.Name, p.Hold, p.Boot)
	case p.HelloMin <= 0 || p.HelloMax < p.HelloMin:
		return fmt.Errorf("profile %q: hello interval %v to %v: want 0 < min ≤ max", p.Name, p.HelloMin, p.HelloMax)
	case p.RTOMin <= 0 || p.RTOMax < p.RTOMin:
		return fmt.Errorf("profile %q: retransmission timeout %v to %v: want 0 < min ≤ max", p.Name, p.RTOMin, p.RTOMax)
	}
	return nil
}

// Config holds the settings of one end of a cable.
type Config struct {
	Local, Peer wire.PortID      // the ports at this end and at the other end
	Incarnation wire.Incarnation // incarnation of this process; random, not zero
	Fabric      uint32           // number of the fabric; the peer must have the same number; 0 matches every fabric, at either end
	MaxPayload  int              // largest padded frame payload that the path takes, in bytes; [MinPayload] to wire.MaxFramePayload, a multiple of wire.PadUnit
	Slots       [wire.NumVCs]int // size of each VC's receiver channel, in packets; 0: the VC is not in use
	Window      int              // size of the retransmit slab, in bytes; 0: [DefaultWindow]
	Profile     Profile          // times of the link; zero: [ProfileLAN]
	Phase       mono.Time        // an instant of the grid on which an idle link sends; the other instants are multiples of Profile.Keepalive away
	Seed        uint64           // seed of the link's random numbers, which vary its timers

	// Source reads the bytes of an L1 write: it copies the len(b) bytes from address "from" of the L1 of
	// this end's ethernet tile into b. The link calls Source each time that it sends a frame of an L1
	// write, within [Link.PollTransmit]. Source must not call the link. If Source is nil, the link
	// takes no L1 writes.
	Source func(from uint32, b []byte) `json:"-"`

	// KeepUnreliable keeps the link's frames on its own cable even if the cable is unreliable. The
	// link then only reports [EventUnreliable]. Without KeepUnreliable, the link goes into reroute
	// mode (Spec §7.4.1).
	KeepUnreliable bool
}

// complete replaces zero values by defaults. If a value is out of range, complete returns an error.
func (c *Config) complete() error {
	if c.Window == 0 {
		c.Window = DefaultWindow
	}
	if c.Profile == (Profile{}) {
		c.Profile = ProfileLAN
	}
	switch {
	case !c.Local.Valid() || !c.Peer.Valid():
		return fmt.Errorf("link from %v to %v: a port is beyond the fabric's limits", c.Local, c.Peer)
	case c.Local == c.Peer:
		return fmt.Errorf("link from %v to itself: name the port at the other end of the cable", c.Local)
	case c.Incarnation == 0:
		return fmt.Errorf("link at %v: incarnation is zero: draw a random one at every start", c.Local)
	case c.Window < MinWindow || c.Window > MaxWindow:
		return fmt.Errorf("link at %v: window of %d bytes: want %d to %d", c.Local, c.Window, MinWindow, MaxWindow)
	}
	if err := checkPayload(c.MaxPayload); err != nil {
		return fmt.Errorf("link at %v: %w", c.Local, err)
	}
	total := 0
	for v, s := range c.Slots {
		if s < 0 || s > MaxSlots {
			return fmt.Errorf("link at %v: %d slots on VC %v: want 0 to %d", c.Local, s, wire.VC(v), MaxSlots)
		}
		total += s
	}
	if total == 0 {
		return fmt.Errorf("link at %v: no receiver slots on any VC: give at least one VC a slot", c.Local)
	}
	if err := c.Profile.valid(); err != nil {
		return fmt.Errorf("link at %v: %w", c.Local, err)
	}
	return nil
}

func checkPayload(n int) error {
	if n < MinPayload || n > wire.MaxFramePayload || n%wire.PadUnit != 0 {
		return fmt.Errorf("frame payload of %d bytes: want a multiple of %d from %d to %d", n, wire.PadUnit, MinPayload, wire.MaxFramePayload)
	}
	return nil
}
