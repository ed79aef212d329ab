package reliable

// Token is the token of a packet (RR §5.1).
type Token uint8

const (
	NoToken Token = iota
	Unique        // no other copy of the packet is under way
	Replica       // another copy may be under way
)

var tokenNames = [...]string{"none", "unique", "replica"}

func (t Token) String() string { return tokenNames[t] }

// State is the state of a copy of a packet in a router.
type State uint8

const (
	Free  State = iota // no packet
	Held               // the packet waits for a channel to the next router (NEEDS ROUTE in RR Figure 6)
	Sent               // the packet was sent to the next router; the copy stays (ROUTED)
	Final              // the packet is at its destination, and waits for its token
	Lost               // the packet has no route, and waits for its token
)

var stateNames = [...]string{"free", "held", "sent", "final", "lost"}

func (s State) String() string { return stateNames[s] }

// Copy is the Unique Token Protocol in one router, for one packet (RR §5.1). A packet is stored in
// the next router before the copy behind may go: two routers always have the packet. The token goes
// behind the last copy. The Copy knows no ports and no packet: the router moves both.
//
// Neighbours exchange two messages about a packet. "copied" goes back: the router after the next has
// stored the packet. "token" goes forward, and frees the copy behind. A link of the fabric says
// itself that the next router has stored a packet: by its acknowledgement.
type Copy struct {
	State   State
	stored  bool // the next router has stored the packet
	copied  bool // the router after the next has stored the packet, or the next router is the destination
	told    bool // the router before knows that the next router has stored the packet
	replica bool // the packet was sent by a link that failed
	token   Token
}

// Inject stores a packet at its source, with the unique token.
func (c *Copy) Inject() { *c = Copy{State: Held, token: Unique} }

// Take stores a packet that has come by a link. If final is true, this router is the destination.
// Take returns false if the place is not free, which no correct neighbour causes.
func (c *Copy) Take(final bool) bool {
	if c.State != Free {
		return false
	}
	*c = Copy{State: Held}
	if final {
		c.State = Final
	}
	return true
}

// Send says that the held packet has been sent to the next router.
func (c *Copy) Send() { c.State = Sent }

// Stored says that the next router has stored the packet; final says that the next router is the
// destination. If the result is true, the router before must hear "copied".
func (c *Copy) Stored(final bool) (tell bool) {
	if c.State != Sent {
		return false
	}
	c.stored, c.copied = true, c.copied || final
	return c.tell()
}

// tell returns true once, as long as a router before has a copy.
func (c *Copy) tell() bool {
	tell := !c.told && c.token == NoToken
	c.told = true
	return tell
}

// Copied takes the message "copied" of the next router. Copied returns false if the message makes no
// sense, which no correct neighbour causes.
func (c *Copy) Copied() bool {
	if c.State != Sent {
		return false
	}
	c.copied = true
	return true
}

// TakeToken takes the token from the router before. TakeToken returns false if the copy has a token
// already, which no correct neighbour causes.
func (c *Copy) TakeToken(t Token) bool {
	if c.State == Free || c.token != NoToken || t == NoToken {
		return false
	}
	c.token = t
	return true
}

// Leave frees the place if the packet's work in this router is done. The result is the token that goes
// on, to the next router or with the packet to the endpoint. If work is left, the result is [NoToken].
func (c *Copy) Leave() Token {
	t := c.token
	switch {
	case t == NoToken || c.State == Free || c.State == Held, c.State == Sent && !(c.stored && c.copied):
		return NoToken
	case c.replica:
		t = Replica
	}
	*c = Copy{}
	return t
}

// FailAhead says that the link has failed by which the packet was sent. The packet is held again. Its
// token becomes a replica.
func (c *Copy) FailAhead() {
	if c.State == Sent {
		c.State, c.stored, c.copied, c.replica = Held, false, false, true
	}
}

// FailBehind says that the link has failed by which the packet came. If the token has not come, the
// copy makes a replica token.
func (c *Copy) FailBehind() {
	if c.State != Free && c.token == NoToken {
		c.token = Replica
	}
}

// Drop gives a held packet up, because the packet has no route. If the result is true, the router
// before must hear "copied", so that the token follows.
func (c *Copy) Drop() (tell bool) {
	c.State = Lost
	return c.tell()
}
