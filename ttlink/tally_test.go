package ttlink

import (
	"testing"

	"ttfabric/wire"
)

// TestHistoryIsBounded checks that a link keeps the counts of MaxEndedSessions ended sessions
// separately, and adds the counts of older sessions together.
func TestHistoryIsBounded(t *testing.T) {
	var l Link
	const n = 3 * MaxEndedSessions
	for i := range uint64(n) {
		l.books.all[wire.ClassReply].Sent += i
		l.books.all[wire.ClassReply].Received += 2 * i
		l.books.close(wire.SessionID(i+1), wire.Incarnation(i))
	}
	l.books.all[wire.ClassReply].Sent += 5
	h := l.History()
	if len(h.Ended) != MaxEndedSessions || h.Olders != n-MaxEndedSessions || h.Ended[0].ID != n-MaxEndedSessions+1 {
		t.Fatalf("%+v", h)
	}
	for i, s := range h.Ended {
		if want := uint64(n - MaxEndedSessions + i); s.Packets[wire.ClassReply] != (Tally{Sent: want, Received: 2 * want}) {
			t.Errorf("session %d: %+v", s.ID, s.Packets)
		}
	}
	sent, received := h.All()
	if sum := uint64(n * (n - 1) / 2); sent[wire.ClassReply] != sum+5 || received[wire.ClassReply] != 2*sum || h.Now.Packets[wire.ClassReply].Sent != 5 {
		t.Errorf("sent %v, received %v, now %+v", sent, received, h.Now)
	}
}
