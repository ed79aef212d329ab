package ttlink

import "ttfabric/wire"

// MaxEndedSessions is the number of ended sessions that a link remembers separately. Of older
// sessions, the link keeps only the sum.
const MaxEndedSessions = 16

// Tally counts the packets of one class. Sent is the sum of Acked and of the packets whose fate is
// open. While the session runs, the packets whose fate is open are under way. When the session has
// ended, only a peer that still lives knows which of them it received.
type Tally struct {
	Sent     uint64 `json:"sent"`     // packets that Send took
	Acked    uint64 `json:"acked"`    // packets of Sent that the peer is known to have received
	Received uint64 `json:"received"` // packets that the link delivered whole to this end
}

// Tallies holds a Tally for each class: requests, replies, control.
type Tallies [wire.NumClasses]Tally

// Total returns the sum over the classes.
func (t *Tallies) Total() (sum Tally) {
	for _, c := range t {
		sum = Tally{sum.Sent + c.Sent, sum.Acked + c.Acked, sum.Received + c.Received}
	}
	return sum
}

func (t *Tallies) minus(o *Tallies) (d Tallies) {
	for i := range t {
		d[i] = Tally{t[i].Sent - o[i].Sent, t[i].Acked - o[i].Acked, t[i].Received - o[i].Received}
	}
	return d
}

// SessionTally counts the packets that crossed a link in one session. Both ends know a session by
// the same id. With the id, a reader can compare the packets that one end sent with the packets
// that the other end received, however often either end has restarted.
type SessionTally struct {
	ID      wire.SessionID   `json:"session"` // 0: the link has had no session yet
	Peer    wire.Incarnation `json:"peer_incarnation"`
	Packets Tallies          `json:"packets"` // requests, replies, control
}

// History counts what has crossed a link since the link was made.
type History struct {
	Now    SessionTally   `json:"now"`    // the session that runs, or that waits until the path works again
	Ended  []SessionTally `json:"ended"`  // ended sessions, at most MaxEndedSessions, newest last
	Older  Tallies        `json:"older"`  // the sum of the sessions that ended before the sessions in Ended
	Olders int            `json:"olders"` // the number of sessions in Older
}

// books counts the packets of all sessions.
type books struct {
	all    Tallies // packets since the link was made
	before Tallies // value of all when the session began
	ended  []SessionTally
	older  Tallies // sum of the sessions that are no longer in ended
	olders int
}

// close ends a session's account.
func (b *books) close(id wire.SessionID, peer wire.Incarnation) {
	t := SessionTally{id, peer, b.all.minus(&b.before)}
	b.before = b.all
	if len(b.ended) == MaxEndedSessions {
		for i, c := range b.ended[0].Packets {
			o := &b.older[i]
			*o = Tally{o.Sent + c.Sent, o.Acked + c.Acked, o.Received + c.Received}
		}
		b.olders++
		b.ended = b.ended[:copy(b.ended, b.ended[1:])]
	}
	b.ended = append(b.ended, t)
}

// History returns the packets that have crossed the link, session by session.
func (l *Link) History() History {
	b := &l.books
	return History{Now: SessionTally{l.sess.id, l.sess.peer, b.all.minus(&b.before)},
		Ended: append([]SessionTally{}, b.ended...), Older: b.older, Olders: b.olders}
}

// All returns the packets that the link has sent and received since it was made, by class.
func (h *History) All() (sent, received [wire.NumClasses]uint64) {
	for k := range wire.NumClasses {
		sent[k], received[k] = h.Older[k].Sent+h.Now.Packets[k].Sent, h.Older[k].Received+h.Now.Packets[k].Received
		for i := range h.Ended {
			sent[k] += h.Ended[i].Packets[k].Sent
			received[k] += h.Ended[i].Packets[k].Received
		}
	}
	return sent, received
}
