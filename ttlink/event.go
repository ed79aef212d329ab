package ttlink

import (
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// State is the state of one end of a link.
type State uint8

// The states of a link.
const (
	StateOff      State = iota // the peer's address is unknown; the link sends nothing
	StateTraining              // the ends exchange hellos
	StateUp                    // the link carries data
	StateClosed                // the owner has called [Link.Close]; a closed link stays closed
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
	DownSilence                         // no frame came from the peer for too long
	DownPeerRetrained                   // the peer has left the state up, and trains again
	DownPeerClosed                      // the peer sent a close frame
	DownPeerRestarted                   // a new incarnation of the peer has proved the path
	DownPathOff                         // the owner called [Link.SetPath] with false
	DownClosed                          // the owner closed this end
	DownPathNarrow                      // the owner's new limit of the frame payload is below the payload of an unacknowledged frame
	DownPathGone                        // the owner removed the fallback path that the frames used
	DownRetrain                         // the owner called [Link.Retrain]
	DownStuck                           // the peer sends frames, but does not acknowledge the oldest frame under way
	DownRerouted                        // the link's frames move to another cable
	DownCompliance                      // the owner called [Link.Leave], because the port is in compliance mode now
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
	case DownRerouted:
		return "rerouted"
	case DownCompliance:
		return "compliance mode"
	}
	return "unknown"
}

// SessionEnd says why a session ended.
type SessionEnd uint8

// The reasons why a session ends.
const (
	EndPeerRestarted SessionEnd = iota + 1 // the peer's chip started anew: another process has proved the path
	EndPeerRenewed                         // the peer ended the session at its end; the peer's process is the same
	EndForsaken                            // the owner called [Link.Forsake]; whether the peer's process lives is unknown
	EndNarrow                              // unacknowledged frames are too long for the path; the peer's process is the same
)

// String returns the reason in words.
func (e SessionEnd) String() string {
	switch e {
	case EndPeerRestarted:
		return "the chip at the other end started anew"
	case EndPeerRenewed:
		return "the chip at the other end gave the session up"
	case EndForsaken:
		return "the tables lead round the link"
	case EndNarrow:
		return "the path takes only shorter frames"
	}
	return "unknown"
}

// SessionNews is what the start or the end of a session says about the peer.
type SessionNews struct {
	Peer wire.Incarnation // the peer's incarnation in the session
	Anew bool             // EventSessionStarted: the peer is another process than in the session before
	End  SessionEnd       // EventSessionEnded: why the session ended
}

// Mismatch says why two ends cannot work together.
type Mismatch uint8

// The mismatches between two ends.
const (
	MismatchNone    Mismatch = iota
	MismatchVersion          // the peer uses another version of the frame format
	MismatchSlots            // the peer has no receiver slots, or has changed their number within an incarnation
	MismatchPayload          // the peer takes only frame payloads below [MinPayload]
	MismatchMode             // the peer is in compliance mode
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
	case MismatchMode:
		return "the peer is in compliance mode"
	}
	return "unknown"
}

// EventKind says what an [Event] reports.
type EventKind uint8

// The kinds of events. Every event sets Kind, At, Session and Retrains. The comments name the other
// fields that a kind sets.
const (
	EventUp             EventKind = iota + 1 // the link came up; sets Path
	EventDown                                // the link went down; sets Reason and Late
	EventSessionStarted                      // a new session, named by Session, began; sets Peer and Anew
	EventSessionEnded                        // a session ended, because one end has another incarnation now; Session is the ended session; sets Peer, End, Unknown and UnknownWrites
	EventMiswired                            // the cable leads to a wrong port; sets Found, FoundExpects, FoundFabric
	EventIncompatible                        // the two ends cannot work together; sets Mismatch
	EventPath                                // the link's frames returned to its own cable; sets Path
	EventHeld                                // the link holds its own cable; sets Hold, Flaps, Until
	EventReleased                            // the link no longer holds its own cable; sets Hold, Flaps
	EventNarrow                              // the link uses shorter frames, because the path drops the longest frames that both ends take; sets Size, SizeWanted
	EventWide                                // after an EventNarrow, the link uses longer frames again; sets Size, SizeWanted
	EventUnreliable                          // the link's own cable is unreliable; sets Shares
	EventReliable                            // the link's own cable is reliable again; sets Shares
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
	case EventUnreliable:
		return "unreliable"
	case EventReliable:
		return "reliable"
	}
	return "unknown"
}

// DownNews is what the event of a link that went down says.
type DownNews struct {
	Reason DownReason    // why the link went down
	Late   time.Duration // if the peer was silent: how much longer than usual the link waited, because the owner's loop was stalled
}

// Event reports a change of a link to the link's owner. Kind decides which fields after Kind are
// set.
type Event struct {
	Kind     EventKind
	At       mono.Time
	Session  wire.SessionID
	Retrains int        // number of times that the link has come up, without the first time
	Path     Path       // EventUp and EventPath: the cable that the frames use
	Hold     HoldReason // EventHeld and EventReleased: why the link holds or held its own cable
	Flaps    int        // EventHeld and EventReleased: failures of the own cable since the link was made
	Until    mono.Time  // EventHeld: when the hold ends; mono.Never: when the owner ends the reroute mode
	Shares   Shares     // EventUnreliable and EventReliable: the latest window of the own cable

	DownNews    // EventDown
	SessionNews // EventSessionStarted and EventSessionEnded

	// Unknown is set for EventSessionEnded. Unknown counts, for each VC, the packets of the ended
	// session that [Link.Send] accepted and the peer did not acknowledge. The peer may or may not
	// have received these packets. UnknownWrites counts, for each transaction command queue, the L1
	// and MMIO writes that began and that the peer did not acknowledge completely. The peer may have
	// received any number of their frames.
	Unknown       [wire.NumVCs]int
	UnknownWrites [wire.NumQueues]int

	Found        wire.PortID // EventMiswired: the port that the wrong hello names as its sender
	FoundExpects wire.PortID // EventMiswired: the port that Found expects at this end of the cable
	FoundFabric  uint32      // EventMiswired: the fabric of Found
	Mismatch     Mismatch

	Size, SizeWanted int // EventNarrow and EventWide: the frame payload in use, and the longest that both ends take, in bytes
}

// events is a bounded queue of events. A forger can cause any number of EventMiswired and
// EventIncompatible. These two kinds may fill only half of the queue, so a forger cannot take the
// room of the other events.
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

// Status is a copy of the state of one end of a link at one moment.
type Status struct {
	State           State
	Since           mono.Time // when the link entered the state
	Confirmed       bool      // the link is up, and the peer has shown that it is up too
	Session         wire.SessionID
	PeerIncarnation wire.Incarnation
	Training        uint32    // training number of this end
	Retrains        int       // number of times that the link has come up, without the first time
	LastRetrain     mono.Time // when the link last came up, without the first time; 0: the link has come up at most once
	LastDown        DownReason
	FirstUp         mono.Time        // when the link first came up; 0: never
	DownSince       mono.Time        // when the link last went down
	Uptime          time.Duration    // total time for which the link was up by any cable, without the present period; see [Status.UpFor]
	Downtime        time.Duration    // total time for which the link was down since FirstUp, without the present period; see [Status.DownFor]
	Phase           Phase            // how far the training has come
	Train           TrainStatus      // the result of the training
	Cable                            // what the link knows about its own cable
	RTT             time.Duration    // smoothed round trip; 0 before the first measurement
	MaxPayload      int              // largest frame payload in use, in bytes; 0 before the link first comes up
	PayloadWanted   int              // largest frame payload that both ends take, in bytes; more than MaxPayload if the path drops longer frames; 0 before the link first comes up
	Credits         [wire.NumVCs]int // packets that this end may still send on each VC, according to the peer's grants
	PeerSlots       [wire.NumVCs]int // sizes of the peer's receiver channels, in packets
	Occupied        [wire.NumVCs]int // receiver slots of this end that hold a packet
	WindowUsed      int              // bytes of the retransmit slab in use
	Unacked         int              // frames in the slab
	Path            Path             // the path by which the link sends its frames while it is up
	OwnCarries      bool             // the link is up and sends its frames by its own cable
	OwnSince        mono.Time        // when OwnCarries last changed; 0: the own cable never carried frames
	Miswired        bool             // while the link was not up, a hello came from a wrong port, and no hello of the right port has come since
	Found           wire.PortID      // the wrong port that the link reported last, if Miswired
}

// Cable is what a link knows about its own cable.
type Cable struct {
	Flaps      int        // failures since the link was made
	HeldUntil  mono.Time  // when the hold ends; 0: not held; mono.Never: when the owner ends the reroute mode
	Held       HoldReason // why the link holds the cable
	Rerouted   bool       // the owner has ordered the reroute mode
	Assigned   Path       // fallback path that the link prefers; Own: none
	Unreliable bool       // too many frames were sent again or came damaged
	Shares     Shares     // the latest window in which the cable carried enough frames
}

// cable returns what the link knows about its own cable.
func (l *Link) cable() Cable {
	d := &l.damping
	return Cable{Flaps: d.flaps, HeldUntil: l.holdEnd(), Held: d.why, Rerouted: l.paths.ordered, Assigned: l.paths.assigned,
		Unreliable: d.unreliable, Shares: d.last}
}

// Counters holds counters that never decrease. Byte counts are lengths of whole frames, from
// envelope to checksum. In the counters of data frames, L1 and MMIO writes count as data frames.
type Counters struct {
	FramesSent, FramesReceived     uint64 // frames of every kind; FramesReceived counts only well-formed frames
	BytesSent, BytesReceived       uint64
	DataSent, DataReceived         uint64 // data frames; DataSent includes retransmissions, and DataReceived counts accepted frames only
	PacketsSent, PacketsReceived   uint64 // packets that Send accepted; packets that the link delivered completely
	PayloadSent, PayloadReceived   uint64 // bytes of the packets that PacketsSent and PacketsReceived count
	Retransmitted                  uint64 // data frames sent again
	Timeouts, GoBacks              uint64 // retransmission timeouts; go-backs because of a NACK
	UpdatesSent, UpdatesReceived   uint64
	NACKsSent, NACKsReceived       uint64
	SolicitsSent, SolicitsReceived uint64
	HellosSent, HellosReceived     uint64 // hellos; HellosReceived counts only well-formed hellos
	AnswersSuppressed              uint64 // hellos that the link left unanswered because of the rate limit

	// Frames and datagrams that the link dropped, and contents of frames that the link ignored.
	// Dropped frames and ignored contents do not change the link's [State].
	Faults           [wire.NumFrameFaults]uint64 // datagrams that were not valid frames, by [wire.FrameFault]
	Duplicates       uint64                      // data frames that had been received before
	Gaps             uint64                      // data frames that came after a missing frame
	StaleSession     uint64                      // frames of another session
	NotUp            uint64                      // frames of the session that came while the link was not up, and hellos that came while it was off or closed
	WrongChannel     uint64                      // frames of the session for another port
	WrongPath        uint64                      // frames of the session and hellos that came by a cable that the link does not use, or on which the peer has not said hello yet
	CreditViolations uint64                      // packets beyond this end's grants, and grants beyond the size of the peer's receiver channel
	BadPieces        uint64                      // data frames that do not fit the packet to which they should belong
	BadAcks          uint64                      // acknowledgements of frames that were never sent
	MalformedHellos  uint64
	MalformedUpdates uint64
	MiswiredHellos   uint64
	HeldHellos       uint64 // hellos that came by the own cable while the link held it
	StaleHellos      uint64 // hellos of an ended incarnation or of an older training
	UnprovedHellos   uint64 // hellos of an unknown incarnation that do not prove the path
	EventsDropped    uint64

	Writes [wire.NumQueues]WriteCounters // L1 and MMIO writes, by transaction command queue
}
