package reliable

// RouteState is the state of a virtual channel (RR Figure 6).
type RouteState uint8

const (
	Idle       RouteState = iota // no packet
	NeedsRoute                   // a head flit waits for an output channel
	Routed                       // the head flit has left by an output channel, which the packet holds
	Backup                       // the link ahead has failed; the channel prepares to send again, for one flit time
	numStates
)

var stateNames = [numStates]string{"IDLE", "NEEDS ROUTE", "ROUTED", "BACKUP"}

func (s RouteState) String() string { return stateNames[s] }

// Places of one bank (RR §2.3.1: "Each bank is 16-flits deep"). The head flit keeps its place until
// the token leaves (RR §5.2), and the token needs one, so the sender may have bankBody data and tail
// flits in a bank.
const (
	BankFlits = 16
	bankBody  = BankFlits - 2
)

// Bank is one virtual channel of an input controller: the flit queue with its pointers, the route
// state and the Unique Token Protocol at the level of flits (RR §2.3.2, §5.2). The bank knows no
// ports: the router moves flits, and the check of the protocol moves them in every order.
//
// Pointers count data and tail flits since the head. Invariant: invalid ≤ sent ≤ told ≤ received ≤
// invalid+bankBody. The bank holds the flits from invalid to received; the next node may hold the
// flits from invalid to sent, too. The node before knows of the flits up to told that they were
// copied forward. Only after a failure, sent is less than told.
type Bank struct {
	State    RouteState
	head     Flit
	stays    bool // the packet came on its way along fault-handling channels
	headSent bool
	replica  bool // a copy of the packet may be under way by a link that has failed
	token    Kind // Padding as long as the token has not come

	received, sent, told, invalid int
	body                          [BankFlits]Flit
}

// TakeHead stores the first flit of a packet. TakeHead returns false if the bank is not idle, which
// no correct neighbour causes.
func (b *Bank) TakeHead(f Flit, stays bool) bool {
	if b.State != Idle || !f.Kind.Head() {
		return false
	}
	*b = Bank{State: NeedsRoute, head: f, stays: stays, body: b.body}
	return true
}

// TakeBody stores a data or tail flit. TakeBody returns false if the bank has no packet or no room,
// or if the token has come, which no correct neighbour causes.
func (b *Bank) TakeBody(f Flit) bool {
	if b.State == Idle || b.token != Padding || b.received-b.invalid >= bankBody {
		return false
	}
	b.body[b.received%BankFlits] = f
	b.received++
	return true
}

// TakeToken stores the token. TakeToken returns false if the bank has no packet or a token.
func (b *Bank) TakeToken(k Kind) bool {
	if b.State == Idle || b.token != Padding {
		return false
	}
	b.token = k
	return true
}

// Room returns how many data and tail flits the bank can take now.
func (b *Bank) Room() int { return bankBody - (b.received - b.invalid) }

// Next returns the flit that leaves next by the output channel. Without such a flit, Next returns
// false. In state [NeedsRoute] the flit is the head. The token leaves only after all flits of the
// body have left and have been invalidated (RR §5.3).
func (b *Bank) Next() (Flit, bool) {
	switch {
	case b.State == NeedsRoute:
		return b.head, true
	case b.State != Routed:
	case b.sent < b.received:
		return b.body[b.sent%BankFlits], true
	case b.token != Padding && b.invalid == b.received:
		k := b.token
		if b.replica {
			k = TokenReplica
		}
		return NewFlit(k, 0), true
	}
	return Flit{}, false
}

// Pass removes the flit that [Bank.Next] has returned, because the flit has crossed the crossbar. The
// bank keeps the head and the flits of the body: they are the second copies. After the token, the bank
// is idle. The result is true for a flit of the body that leaves for the first time: the node before
// must hear that the flit was copied forward.
func (b *Bank) Pass(f Flit) (copied bool) {
	switch {
	case f.Kind.Head():
		b.State, b.headSent = Routed, true
	case f.Kind.Body():
		b.sent++
		copied = b.sent > b.told
		b.told = max(b.told, b.sent)
	default:
		b.State = Idle
	}
	return copied
}

// Copied invalidates the oldest flit of the body: the next node has copied the flit forward (RR §5.3).
// Copied returns false if no flit has been sent, which no correct neighbour causes.
func (b *Bank) Copied() bool {
	if b.State != Routed || b.invalid >= b.sent {
		return false
	}
	b.invalid++
	return true
}

// FailAhead tells the bank that the link by which its packet is routed has failed. The bank backs up
// its pointers to the oldest valid flit and sends from there by another route, as the rear piece of the
// packet. The next node has the flits before. From now on, the token is a replica (RR §5.1, §5.3).
//
// If all flits have been copied forward and only the token was due, the bank has nothing to send: the
// next node generates the token. FailAhead then returns true, and the bank is idle.
func (b *Bank) FailAhead() (released bool) {
	if b.State != Routed {
		return false
	}
	if b.token != Padding && b.invalid == b.received {
		b.State = Idle
		return true
	}
	b.State, b.replica, b.headSent = Backup, true, false
	if b.sent = b.invalid; b.invalid > 0 {
		b.head.Kind = HeadRestart
	}
	return false
}

// Resume ends the state [Backup] after one flit time.
func (b *Bank) Resume() {
	if b.State == Backup {
		b.State = NeedsRoute
	}
}

// FailBehind tells the bank that the link by which its packet came has failed. If the token has not
// come, the bank generates a replica token behind the flits that came (RR §5.1).
func (b *Bank) FailBehind() {
	if b.State != Idle && b.token == Padding {
		b.token = TokenReplica
	}
}

// check returns a description of a broken invariant, or "".
func (b *Bank) check() string {
	switch {
	case b.State == Idle:
		return ""
	case b.invalid < 0 || b.invalid > b.sent || b.sent > b.told || b.told > b.received || b.received > b.invalid+bankBody:
		return "the pointers of a bank are out of order"
	case b.State == Routed && !b.headSent:
		return "a packet is routed without its head"
	}
	return ""
}
