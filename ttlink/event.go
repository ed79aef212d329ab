package ttlink

import (
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// State is where a link stands.
type State uint8

// The states of a link.
const (
	StateOff      State = iota // the peer's address is unknown; nothing is sent
	StateTraining              // hellos are exchanged
	StateUp                    // data flows
	StateClosed                // after [Link.Close]; for good
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case StateOff:
		return "off"
	case StateTraining:
		return "training"
	case StateUp:
		return "up"
	case StateClosed:
		return "closed"
	}
	return "unknown"
}

// DownReason says why a link went down.
type DownReason uint8

// The reasons to go down.
const (
	DownNone          DownReason = iota // it never did
	DownSilence                         // nothing came for too long
	DownPeerRetrained                   // the peer lost the path
	DownPeerClosed                      // the peer went away in order
	DownPeerRestarted                   // another incarnation of the peer has proved itself
	DownPathOff                         // the owner took the path away
	DownClosed                          // the owner closed this end
	DownPathNarrow                      // the path takes no frames any more of the size of those under way
	DownPathGone                        // the cable of another channel that its frames went by carries them no longer
	DownRetrain                         // this end was told to train again
	DownStuck                           // the oldest frame under way does not get through, though something comes back
)

// String returns the reason in words.
func (r DownReason) String() string {
	switch r {
	case DownNone:
		return "none"
	case DownSilence:
		return "silence"
	case DownPeerRetrained:
		return "peer retrained"
	case DownPeerClosed:
		return "peer closed"
	case DownPeerRestarted:
		return "peer restarted"
	case DownPathOff:
		return "path off"
	case DownClosed:
		return "closed"
	case DownPathNarrow:
		return "path narrower"
	case DownPathGone:
		return "fallback gone"
	case DownRetrain:
		return "retrain"
	case DownStuck:
		return "no progress"
	}
	return "unknown"
}

// Mismatch says why two ends cannot work together.
type Mismatch uint8

// The mismatches.
const (
	MismatchNone    Mismatch = iota
	MismatchVersion          // the peer speaks another version of the frame format
	MismatchSlots            // the peer has no receiver slots, or changed them within an incarnation
	MismatchPayload          // the peer takes smaller frames than [MinPayload]
)

// String returns the mismatch in words.
func (m Mismatch) String() string {
	switch m {
	case MismatchNone:
		return "none"
	case MismatchVersion:
		return "other version of the frame format"
	case MismatchSlots:
		return "receiver slots missing or changed"
	case MismatchPayload:
		return "frame payload too small"
	}
	return "unknown"
}

// EventKind tells events apart.
type EventKind uint8

// The kinds of event.
const (
	EventUp             EventKind = iota + 1 // the path works both ways; Session, Retrains
	EventDown                                // the path is lost; Reason
	EventSessionStarted                      // fresh sequence numbers and credits; Session
	EventSessionEnded                        // the peer, or this end, is another incarnation now; Session (the ended one), Unknown
	EventMiswired                            // the cable leads elsewhere; Found, FoundExpects, FoundFabric
	EventIncompatible                        // the ends don't fit; Mismatch
	EventPath                                // the frames go by another cable; Path
	EventHeld                                // the own cable failed too often and is held down; Flaps, Until
	EventReleased                            // it is held no longer; Flaps
	EventNarrow                              // frames are shorter than both ends take, as longer ones do not get through; Size, SizeWanted
	EventWide                                // longer ones get through, after an EventNarrow; Size, SizeWanted
)

// String returns the kind in words.
func (k EventKind) String() string {
	switch k {
	case EventUp:
		return "up"
	case EventDown:
		return "down"
	case EventSessionStarted:
		return "session started"
	case EventSessionEnded:
		return "session ended"
	case EventMiswired:
		return "miswired"
	case EventIncompatible:
		return "incompatible"
	case EventPath:
		return "path"
	case EventHeld:
		return "held"
	case EventReleased:
		return "released"
	case EventNarrow:
		return "frame size lowered"
	case EventWide:
		return "frame size raised"
	}
	return "unknown"
}

// Event is something that the owner wants to know. Which fields count depends on Kind.
type Event struct {
	Kind     EventKind
	At       mono.Time
	Session  wire.SessionID
	Retrains int        // times that the link has come up again in its life
	Path     Path       // of EventUp and EventPath: by which cable the frames go
	Reason   DownReason // why it went down
	Flaps    int        // failures of the own cable in the link's life
	Until    mono.Time  // when a hold ends

	// Unknown counts per VC the packets that [Link.Send] accepted in the ended
	// session and the peer never acknowledged: each was delivered or was not,
	// and nobody can tell. It is reported once per session.
	Unknown [wire.NumVCs]int

	Found        wire.PortID // miswired: who is at the other end; Config.Peer was expected
	FoundExpects wire.PortID // miswired: whom that port expects; not Config.Local unless Found or the fabric is what's wrong
	FoundFabric  uint32      // miswired: that port's fabric
	Mismatch     Mismatch

	Size, SizeWanted int // frame payload in use, and the longest that both ends take, in bytes
}

// events is a bounded queue. Reports that the peer can provoke at will may
// fill only half of it, so that those about the session are kept.
type events struct {
	ring    [MaxEvents]Event
	head, n int
	dropped uint64
}

func (q *events) push(e Event) {
	limit := MaxEvents
	if e.Kind == EventMiswired || e.Kind == EventIncompatible {
		limit = miswiredEvents
	}
	if q.n >= limit {
		q.dropped++
		return
	}
	q.ring[(q.head+q.n)%MaxEvents] = e
	q.n++
}

func (q *events) pop() (Event, bool) {
	if q.n == 0 {
		return Event{}, false
	}
	e := q.ring[q.head]
	q.head = (q.head + 1) % MaxEvents
	q.n--
	return e, true
}

// Status is a link at one moment, for people and for the control plane.
type Status struct {
	State           State
	Since           mono.Time // of the state
	Confirmed       bool      // the peer has shown that it is up too
	Session         wire.SessionID
	PeerIncarnation wire.Incarnation
	Training        uint32    // number of this end's training
	Retrains        int       // times that the link came up again
	LastRetrain     mono.Time // when it did so last; 0: never
	LastDown        DownReason
	FirstUp         mono.Time        // when it came up first; 0: never
	DownSince       mono.Time        // when it went down last
	Uptime          time.Duration    // sum of the finished times up, by whatever cable; see [Status.UpFor]
	Downtime        time.Duration    // sum of the finished times between down and up; see [Status.DownFor]
	Phase           Phase            // how far the training has come
	Train           TrainStatus      // and its result
	Flaps           int              // failures of the own cable
	HeldUntil       mono.Time        // until when it is held down; 0: it isn't
	RTT             time.Duration    // smoothed round trip; 0 before the first measurement
	MaxPayload      int              // frame payload in use, in bytes; 0 before the first training
	PayloadWanted   int              // frame payload that both ends take, in bytes: more than MaxPayload where the path swallows longer frames; 0 before the first training
	Credits         [wire.NumVCs]int // packets that may be sent now
	PeerSlots       [wire.NumVCs]int // the peer's receiver channel sizes, in packets
	Occupied        [wire.NumVCs]int // own receiver slots that hold a packet
	WindowUsed      int              // bytes of the retransmit slab in use
	Unacked         int              // frames in the slab
	Path            Path             // by which cable its frames go
	OwnCarries      bool             // they go by the link's own cable
	OwnSince        mono.Time        // since when they do or don't; 0: they never did
	Miswired        bool             // the last hello came from a wrong port
	Found           wire.PortID      // that port, if Miswired
}

// Counters only ever grow. Bytes are of whole frames, envelope to checksum.
type Counters struct {
	FramesSent, FramesReceived     uint64 // every kind; received: well-formed
	BytesSent, BytesReceived       uint64
	DataSent, DataReceived         uint64 // data frames, with retransmissions; received: accepted
	PacketsSent, PacketsReceived   uint64 // taken by Send; delivered whole
	PayloadSent, PayloadReceived   uint64 // bytes of those packets
	Retransmitted                  uint64 // data frames sent again
	Timeouts, GoBacks              uint64 // retransmission timeouts; go-backs on NACK
	UpdatesSent, UpdatesReceived   uint64
	NACKsSent, NACKsReceived       uint64
	SolicitsSent, SolicitsReceived uint64
	HellosSent, HellosReceived     uint64 // hellos received: well-formed
	AnswersSuppressed              uint64 // hellos left unanswered by the rate limit

	// Drops. None of these changes the link's state.
	Faults           [wire.NumFrameFaults]uint64 // no frame, by wire.FrameFault
	Duplicates       uint64                      // data frames that had come before
	Gaps             uint64                      // data frames ahead of a missing one
	StaleSession     uint64                      // frames of another session
	NotUp            uint64                      // frames of the session while training, or anything while the path is off
	WrongChannel     uint64                      // session frames for another port
	WrongPath        uint64                      // session frames by a cable that they were not announced on
	CreditViolations uint64                      // packets or grants beyond the receiver channel's size
	BadPieces        uint64                      // data frames that don't continue their packet, or don't fit its slot
	BadAcks          uint64                      // acknowledgements of what was never sent
	MalformedHellos  uint64
	MalformedUpdates uint64
	MiswiredHellos   uint64
	HeldHellos       uint64 // by the own cable while it is held down
	StaleHellos      uint64 // of an ended incarnation or an older training
	UnprovedHellos   uint64 // of an unknown incarnation that doesn't prove the path
	Raw              uint64 // frames of compliance mode, which this link doesn't take
	EventsDropped    uint64
}
