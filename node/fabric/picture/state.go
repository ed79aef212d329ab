package picture

import "time"

// The states of a cable, from the best to the worst.
const (
	Up       = "up"             // the link is up by its own cable
	Fallback = "fallback"       // another cable carries the link's frames
	Out      = "out of service" // the routing tables avoid the cable
	Training = "training"       // the link is not up, and its ends try to bring it up
	Held     = "held"           // damping holds the cable out of use
	Off      = "off"            // the link is off or closed
	Unknown  = "unknown"        // no chip at the cable answers
	Unused   = "unused"         // the cable carries no traffic in this machine
)

// CableStates lists the states of a cable, from the best to the worst.
var CableStates = []string{Up, Fallback, Out, Training, Held, Off, Unknown, Unused}

// The states of a chip.
const (
	Answers  = "answers"       // the chip answers
	NoAnswer = "no answer"     // the chip runs and does not answer
	Absent   = "not running"   // the chip does not run
	Late     = "silent"        // the chip answers, and other chips hear nothing from it
	Unwanted = "refuses work"  // the chip refuses new requests, because somebody removes it
	Cornered = "unreachable"   // the chip answers, and other chips have no route to it
	Waiting  = "not asked yet" // no chip was asked yet
)

// State is what the chips said at one time.
type State struct {
	Seq    uint64       `json:"seq"`  // number of the state, from 1; 0: no chip was asked yet
	Time   time.Time    `json:"time"` // when the chips were asked
	Chips  []ChipState  `json:"chips"`
	Cables []CableState `json:"cables"`
	Total  Total        `json:"total"`
}

// ChipState is the state of one chip.
type ChipState struct {
	State    string `json:"state"`
	LinksUp  int    `json:"links_up"`
	Links    int    `json:"links"`
	Open     int    `json:"open"`      // requests of the chip that have not ended
	InFlight int    `json:"in_flight"` // packets in the chip's channels
	Dropped  uint64 `json:"dropped"`   // packets that the chip dropped since its start
	Lost     uint64 `json:"lost"`      // requests of the chip that were lost
	Unknown  uint64 `json:"unknown"`   // requests of the chip whose outcome is unknown
	Epoch    string `json:"epoch"`     // epoch of the chip's routing tables
	Starved  uint64 `json:"starved"`   // times that the chip's process got no processor
}

// CableState is the state of one cable.
type CableState struct {
	State      string `json:"state"`
	Cut        bool   `json:"cut,omitempty"`
	Impaired   string `json:"impaired,omitempty"` // the impairments of both directions, in the notation of 'up --netem'
	Silent     bool   `json:"silent,omitempty"`   // an end hears nothing, and perhaps the other end is only late
	Avoided    bool   `json:"avoided,omitempty"`  // an operator took the cable out of service
	Unreliable bool   `json:"unreliable,omitempty"`
	Miswired   string `json:"miswired,omitempty"` // the port that was found at the other end
	Raw        bool   `json:"raw,omitempty"`      // the port is in compliance mode
	Training   bool   `json:"training,omitempty"` // the link is not up, whatever State says
	By         string `json:"by,omitempty"`       // the cable that carries the frames
	Router     string `json:"router,omitempty"`   // the state of a router at the cable that does not run: paused, draining …
	LastDown   string `json:"last_down,omitempty"`
	Retrains   int    `json:"retrains,omitempty"`
	RTT        int    `json:"rtt,omitempty"` // the round trip time in microseconds
	AB         Flow   `json:"ab,omitzero"`   // from end a to end b
	BA         Flow   `json:"ba,omitzero"`
}

// Flow is what crosses a cable in one direction.
type Flow struct {
	Bytes   int     `json:"bytes,omitempty"`   // bytes of frames per second
	Packets int     `json:"packets,omitempty"` // packets per second
	Resent  int     `json:"resent,omitempty"`  // frames per second that were sent again
	Use     float64 `json:"use,omitempty"`     // share of the capacity, 0 to 1: of the cable's rate limit, or else of [Total.Scale]
}

// Total sums over all chips and cables.
type Total struct {
	Bytes    int            `json:"bytes"`   // bytes of frames per second over all cables, in both directions
	Packets  int            `json:"packets"` // packets per second that the chips sent into the fabric
	Resent   int            `json:"resent"`
	Open     int            `json:"open"`
	InFlight int            `json:"in_flight"`
	Dropped  int            `json:"dropped"` // packets dropped since the previous state
	Lost     int            `json:"lost"`    // requests lost, or of unknown outcome, since the previous state
	Scale    int            `json:"scale"`   // the largest rate of one direction of a cable so far, in bytes per second; at least MinScale
	States   map[string]int `json:"states"`  // number of cables in each state
	Cut      int            `json:"cut"`
	Impaired int            `json:"impaired"`
	Answer   int            `json:"answer"` // chips that answer
}

// MinScale is the smallest value of [Total.Scale], in bytes per second. Without MinScale, the
// keepalives of an idle fabric would look like load.
const MinScale = 1 << 20

// Changes is what differs between two states. A page that has the earlier state needs only the
// changes.
type Changes struct {
	Seq    uint64        `json:"seq"`
	Time   time.Time     `json:"time"`
	Chips  []ChipChange  `json:"chips"`
	Cables []CableChange `json:"cables"`
	Total  Total         `json:"total"`
}

// ChipChange is the new state of the chip at position I.
type ChipChange struct {
	I int `json:"i"`
	ChipState
}

// CableChange is the new state of the cable at position I.
type CableChange struct {
	I int `json:"i"`
	CableState
}

// Since returns what differs from an earlier state of the same machine.
func (s *State) Since(old *State) *Changes {
	c := &Changes{Seq: s.Seq, Time: s.Time, Chips: []ChipChange{}, Cables: []CableChange{}, Total: s.Total}
	for i := range s.Chips {
		if s.Chips[i] != old.Chips[i] {
			c.Chips = append(c.Chips, ChipChange{i, s.Chips[i]})
		}
	}
	for i := range s.Cables {
		if s.Cables[i] != old.Cables[i] {
			c.Cables = append(c.Cables, CableChange{i, s.Cables[i]})
		}
	}
	return c
}
