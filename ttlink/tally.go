package ttlink

import "ttfabric/wire"

// MaxEndedSessions is the largest number of ended sessions whose packets a link counts separately.
// A link adds the counts of older sessions together.
const MaxEndedSessions = 16

// Tally counts the packets of one class. While a session runs, Sent minus Acked is the number of
// packets under way. After a session has ended, Sent minus Acked is the number of packets that the
// peer may or may not have received.
type Tally struct {
	Sent     uint64 `json:"sent"`     // packets that [Link.Send] accepted
	Acked    uint64 `json:"acked"`    // packets of Sent that the peer has acknowledged
	Received uint64 `json:"received"` // packets of the peer that the link has delivered completely to this end
}

// Tallies holds a Tally for each class, in the order requests, replies, control.
type Tallies [wire.NumClasses]Tally

// Total returns the sum of the tallies of all classes.
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

// SessionTally counts the packets that one end sent and received in one session. A session has the
// same ID at both ends. A reader can therefore compare the packets sent by one end with the packets
// received by the other end, even after restarts.
type SessionTally struct {
	ID      wire.SessionID   `json:"session"` // 0: there is no session now
	Peer    wire.Incarnation `json:"peer_incarnation"`
	Packets Tallies          `json:"packets"` // packets by class: requests, replies, control
}

// History counts the packets that have crossed a link since the link was made, by session.
type History struct {
	Now    SessionTally   `json:"now"`    // the present session, which runs or waits for a path; its ID is 0 if there is no session
	Ended  []SessionTally `json:"ended"`  // the newest ended sessions, at most MaxEndedSessions, the newest last
	Older  Tallies        `json:"older"`  // sum over all sessions that ended before the sessions in Ended
	Olders int            `json:"olders"` // number of sessions in Older
}

// books counts the packets of all sessions of a link.
type books struct {
	all    Tallies // packets of all sessions
	before Tallies // copy of the field "all", taken when the present session began
	ended  []SessionTally
	older  Tallies // sum over the sessions that were removed from ended
	olders int
}

// close adds the present session to the ended sessions. If more than MaxEndedSessions sessions have
// ended, close adds the counts of the oldest session to older.
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

// History returns the numbers of packets that have crossed the link, session by session.
func (l *Link) History() History {
	b := &l.books
	return History{Now: SessionTally{l.sess.id, l.sess.peer, b.all.minus(&b.before)},
		Ended: append([]SessionTally{}, b.ended...), Older: b.older, Olders: b.olders}
}

// All returns the numbers of packets that the link has sent and received in all sessions, by class.
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
