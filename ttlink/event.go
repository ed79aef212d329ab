package ttlink

import (
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// State is the state of a link.
type State uint8

// The states of a link.
const (
	StateOff      State = iota // the peer's address is unknown; the link sends nothing
	StateTraining              // the ends exchange hellos
	StateUp                    // the link carries data
	StateClosed                // the link was closed with [Link.Close] for good
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

// The reasons why a link goes down.
const (
	DownNone          DownReason = iota // the link never went down
	DownSilence                         // no frame came for too long
	DownPeerRetrained                   // the peer lost the path and trains again
	DownPeerClosed                      // the peer closed its end in order
	DownPeerRestarted                   // another incarnation of the peer has proved itself
	DownPathOff                         // the owner switched the path off
	DownClosed                          // the owner closed this end
	DownPathNarrow                      // the path no longer takes frames as long as the frames under way
	DownPathGone                        // the frames used the cable of another channel, and that cable no longer carries them
	DownRetrain                         // this end was told to train again
	DownStuck                           // the oldest frame under way does not get through, although the peer still sends frames
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

// The mismatches between two ends.
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

// The kinds of events.
const (
	EventUp             EventKind = iota + 1 // the path works both ways; sets Session, Retrains
	EventDown                                // the path is lost; sets Reason
	EventSessionStarted                      // fresh sequence numbers and credits; sets Session
	EventSessionEnded                        // the peer or this end has another incarnation now; sets Session (the ended one), Unknown
	EventMiswired                            // the cable leads to a wrong port; sets Found, FoundExpects, FoundFabric
	EventIncompatible                        // the two ends cannot work together; sets Mismatch
	EventPath                                // the frames now use another cable; sets Path
	EventHeld                                // the own cable failed too often, and the link holds it; sets Flaps, Until
	EventReleased                            // the link no longer holds its own cable; sets Flaps
	EventNarrow                              // the link shortens its frames, since longer frames that both ends take do not get through; sets Size, SizeWanted
	EventWide                                // longer frames get through again, after an EventNarrow; sets Size, SizeWanted
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

// Event is something that the owner wants to know. The field Kind decides which other fields are
// set.
type Event struct {
	Kind     EventKind
	At       mono.Time
	Session  wire.SessionID
	Retrains int        // times that the link has come up again since it was made
	Path     Path       // EventUp and EventPath: the cable that the frames use
	Reason   DownReason // why the link went down
	Flaps    int        // failures of the own cable since the link was made
	Until    mono.Time  // when a hold ends

	// Unknown counts, per VC, packets of the ended session that [Link.Send] accepted and the peer
	// never acknowledged. Nobody can tell which of these packets were delivered. The link reports
	// the count once per session.
	Unknown [wire.NumVCs]int

	Found        wire.PortID // miswired: the port at the other end, where Config.Peer was expected
	FoundExpects wire.PortID // miswired: the port that Found expects at this end. It differs from Config.Local unless only Found or the fabric is wrong
	FoundFabric  uint32      // miswired: the fabric of Found
	Mismatch     Mismatch

	Size, SizeWanted int // frame payload in use, and the longest that both ends take, in bytes
}

// events is a bounded queue. The peer can provoke some reports at will. Such reports may fill only
// half of the queue. For that reason they never displace events about the session.
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

// Status describes the state of a link at one moment, for people and for the control plane.
type Status struct {
	State           State
	Since           mono.Time // when the link entered the state
	Confirmed       bool      // the peer has shown that it is up too
	Session         wire.SessionID
	PeerIncarnation wire.Incarnation
	Training        uint32    // number of this end's training
	Retrains        int       // how often the link has come up again
	LastRetrain     mono.Time // when the link last came up again; 0: never
	LastDown        DownReason
	FirstUp         mono.Time        // when the link first came up; 0: never
	DownSince       mono.Time        // when the link last went down
	Uptime          time.Duration    // sum of the finished periods in which the link was up, by whatever cable; see [Status.UpFor]
	Downtime        time.Duration    // sum of the finished periods between going down and coming up; see [Status.DownFor]
	Phase           Phase            // how far the training has come
	Train           TrainStatus      // the result of the training
	Flaps           int              // failures of the own cable
	HeldUntil       mono.Time        // when the hold of the own cable ends; 0: not held
	RTT             time.Duration    // smoothed round trip; 0 before the first measurement
	MaxPayload      int              // frame payload in use, in bytes; 0 before the first training
	PayloadWanted   int              // frame payload that both ends take, in bytes; more than MaxPayload if the path drops longer frames; 0 before the first training
	Credits         [wire.NumVCs]int // packets that may be sent now
	PeerSlots       [wire.NumVCs]int // the peer's receiver channel sizes, in packets
	Occupied        [wire.NumVCs]int // own receiver slots that hold a packet
	WindowUsed      int              // bytes of the retransmit slab in use
	Unacked         int              // frames in the slab
	Path            Path             // the cable that the link's frames use
	OwnCarries      bool             // the link's own cable carries the frames
	OwnSince        mono.Time        // when OwnCarries last changed; 0: the own cable never carried frames
	Miswired        bool             // the last hello came from a wrong port
	Found           wire.PortID      // the port that the last hello came from, if Miswired
}

// Counters holds counters that never decrease. Byte counts are lengths of whole frames, from
// envelope to checksum.
type Counters struct {
	FramesSent, FramesReceived     uint64 // frames of every kind; FramesReceived counts only well-formed frames
	BytesSent, BytesReceived       uint64
	DataSent, DataReceived         uint64 // data frames; DataSent includes retransmissions, and DataReceived counts accepted frames only
	PacketsSent, PacketsReceived   uint64 // packets that Send took; packets that the link delivered whole
	PayloadSent, PayloadReceived   uint64 // bytes of the packets that PacketsSent and PacketsReceived count
	Retransmitted                  uint64 // data frames sent again
	Timeouts, GoBacks              uint64 // retransmission timeouts; go-backs on NACK
	UpdatesSent, UpdatesReceived   uint64
	NACKsSent, NACKsReceived       uint64
	SolicitsSent, SolicitsReceived uint64
	HellosSent, HellosReceived     uint64 // hellos; HellosReceived counts only well-formed hellos
	AnswersSuppressed              uint64 // hellos that the link left unanswered because of the rate limit

	// Frames and datagrams that the link dropped. No drop changes the link's state.
	Faults           [wire.NumFrameFaults]uint64 // datagrams that were not valid frames, by wire.FrameFault
	Duplicates       uint64                      // data frames that had come before
	Gaps             uint64                      // data frames ahead of a missing one
	StaleSession     uint64                      // frames of another session
	NotUp            uint64                      // frames of the session that came while training, and all frames that came while the path was off
	WrongChannel     uint64                      // session frames for another port
	WrongPath        uint64                      // frames of the session that came by a cable on which the peer has not said hello
	CreditViolations uint64                      // packets or grants beyond the receiver channel's size
	BadPieces        uint64                      // data frames that don't continue their packet, or don't fit its slot
	BadAcks          uint64                      // acknowledgements of frames that were never sent
	MalformedHellos  uint64
	MalformedUpdates uint64
	MiswiredHellos   uint64
	HeldHellos       uint64 // hellos that came by the own cable while the link held it
	StaleHellos      uint64 // hellos of an ended incarnation or of an older training
	UnprovedHellos   uint64 // hellos of an unknown incarnation that do not prove the path
	Raw              uint64 // frames of compliance mode, which this link doesn't take
	EventsDropped    uint64
}
