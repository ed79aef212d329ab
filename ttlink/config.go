package ttlink

import (
	"fmt"
	"time"

	"ttfabric/wire"
)

// Limits of a link. Unless a comment names a source, the limit is our own choice.
const (
	// DefaultWindow is the size of the retransmit slab, in bytes. On a machine that takes long to
	// wake the process on the other core, 1 MiB carries one and a half times as much as 512 KiB.
	// The socket buffer of 4 MiB holds 1 MiB.
	DefaultWindow = 1 << 20
	// MinWindow is the smallest slab, in bytes. MinWindow has room for two packets of the largest
	// size in the smallest frames.
	MinWindow = 64 << 10
	// MaxWindow is the largest slab, in bytes.
	MaxWindow = 16 << 20
	// MaxFrames is the largest number of frames in flight. MaxFrames is a power of two. With 4096,
	// frames of 64 bytes reach two thirds of what the kernel's UDP path carries.
	MaxFrames = 4096
	// MaxPacket is the largest packet that a slot takes, in bytes.
	MaxPacket = wire.SlotStride
	// MinPayload is the smallest frame payload that a link works with, in bytes. A hello needs a
	// payload of this length anyway.
	MinPayload = 96
	// MaxSlots is the largest size of a receiver channel, in packets. A hello states the size in 16
	// bits.
	MaxSlots = 1<<16 - 1
	// MaxBatchFrames is the largest number of frames in one [Transmit]. The limit comes from Linux:
	// UDP_MAX_SEGMENTS was 64 before Linux 6.9.
	MaxBatchFrames = 64
	// MaxBatchBytes is the largest [Transmit], in bytes. One UDP datagram over IPv4 holds 65,507
	// bytes. MaxBatchBytes leaves room for a tag of 32 bytes on each of 64 frames.
	MaxBatchBytes = 60 << 10
	// MaxEvents is the largest number of events that wait for [Link.PollEvent].
	MaxEvents = 64
	// MaxRTT is the longest round trip that counts as a measurement.
	MaxRTT = 10 * time.Second
	// StallTolerance is how late a Tick may come. If the delay is longer, the link takes the delay
	// for a stall of the owner's loop. The link does not take such a delay for silence of the peer.
	StallTolerance = 2 * time.Millisecond

	answerBurst    = 8                      // hello answers that may be sent at once
	answerRefill   = 2 * time.Millisecond   // one more answer may be sent after each interval of this length
	ackDelay       = time.Millisecond       // longest time that an acknowledgement waits for a data frame that carries the acknowledgement
	ackBytes       = 32 << 10               // bytes of payload after which the link acknowledges at once; half of the smallest window
	initialRTO     = 50 * time.Millisecond  // retransmission timeout before the first measured round trip
	unknownDead    = 8 * time.Second        // silence that takes the link down while frames are under way, before the first measured round trip
	maxDead        = 15 * time.Second       // longest silence that the link allows a path with a long round trip
	stuckMin       = 8 * time.Second        // shortest time without progress of the oldest frame after which the link goes down
	stuckTimeouts  = 8                      // retransmission timeouts without progress of the oldest frame after which the link goes down; the longer of stuckMin and this time applies
	staleRTT       = 4                      // the link drops an estimate of the round trip that is more than this many times a new measurement
	refineMost     = 8                      // hellos that the link sends after coming up to measure a long round trip again
	nackDoublings  = 6                      // doublings of the time between NACKs for one gap
	slabIdle       = 10 * time.Second       // the link gives back the memory of a slab that has been empty for this time
	endedRemember  = 8                      // ended incarnations that the link remembers
	goBackMin      = 100 * time.Microsecond // shortest time between two go-backs
	nackMin        = time.Millisecond       // shortest time before a NACK is repeated
	minFlight      = 16                     // frames that may be under way after many go-backs in a row
	flightGain     = 3                      // after a second go-back in a row, as many frames may be under way as this many times what came through since the first; 3 loses 5 % of the goodput at random loss
	maxBackoff     = 10                     // doublings of a timeout
	reportEvery    = time.Second            // shortest time between two reports of wrong cables or of ends that cannot work together
	miswiredEvents = MaxEvents / 2          // queued events beyond which reports of wrong cables are dropped
)

// Profile is a named set of times that suits one kind of environment.
type Profile struct {
	Name        string
	DeadTraffic time.Duration // silence after which a link with frames under way goes down; if four round trips are longer, four round trips
	DeadIdle    time.Duration // silence after which an idle link goes down
	Keepalive   time.Duration // an idle end sends a frame at least this often
	HelloMin    time.Duration // first interval between hellos while training
	HelloMax    time.Duration // longest interval between hellos; the interval doubles up to HelloMax
	RTOMin      time.Duration // shortest retransmission timeout
	RTOMax      time.Duration // the timeout doubles up to RTOMax, or up to the first timeout if a long round trip makes the first timeout longer
}

// The profiles. Three keepalives fit into each idle time. The longest retransmission timeout equals
// the idle time. A path may become very slow. A frame may then be still on its way when the link
// sends the frame again. In that case the link cannot measure a round trip. Only doubling the
// timeout finds a timeout that is long enough.
var (
	// ProfileLAN is for chips each of which has a processor core to itself.
	ProfileLAN = Profile{
		Name: "lan", DeadTraffic: 60 * time.Millisecond, DeadIdle: 2 * time.Second, Keepalive: 620 * time.Millisecond,
		HelloMin: 20 * time.Millisecond, HelloMax: 500 * time.Millisecond, RTOMin: 5 * time.Millisecond, RTOMax: 2 * time.Second,
	}
	// ProfileCrowded is for a machine that runs more chips than it has processor cores.
	ProfileCrowded = Profile{
		Name: "crowded", DeadTraffic: 250 * time.Millisecond, DeadIdle: 5 * time.Second, Keepalive: 1600 * time.Millisecond,
		HelloMin: 50 * time.Millisecond, HelloMax: time.Second, RTOMin: 20 * time.Millisecond, RTOMax: 5 * time.Second,
	}
	// ProfilePaced is for transports that delay datagrams. QUIC paces its packets, and may
	// acknowledge only after 25 ms (RFC 9000 §18.2).
	ProfilePaced = Profile{
		Name: "paced", DeadTraffic: time.Second, DeadIdle: 5 * time.Second, Keepalive: 1600 * time.Millisecond,
		HelloMin: 50 * time.Millisecond, HelloMax: time.Second, RTOMin: 80 * time.Millisecond, RTOMax: 5 * time.Second,
	}
)

// valid returns an error if a time of p is unusable.
func (p *Profile) valid() error {
	switch {
	case p.DeadTraffic <= 0 || p.DeadIdle < p.DeadTraffic:
		return fmt.Errorf("profile %q: dead after %v under traffic and %v idle: want 0 < traffic ≤ idle", p.Name, p.DeadTraffic, p.DeadIdle)
	case p.Keepalive <= 0 || p.Keepalive >= p.DeadIdle:
		return fmt.Errorf("profile %q: keepalive %v: want it between 0 and the idle time %v", p.Name, p.Keepalive, p.DeadIdle)
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
	Fabric      uint32           // names the fabric; 0 matches all
	MaxPayload  int              // largest padded frame payload that the path takes, in bytes; [MinPayload] to wire.MaxFramePayload, a multiple of wire.PadUnit
	Slots       [wire.NumVCs]int // receiver channel sizes, in packets; 0 for a VC that is not in use
	Window      int              // bytes of the retransmit slab; 0 for [DefaultWindow]
	Profile     Profile          // times; the zero Profile is [ProfileLAN]
	Seed        uint64           // seed of the random changes to the intervals between hellos
}

// complete fills in defaults. complete returns an error for a value that the link cannot use.
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
