package ttlink

import (
	"testing"

	"ttfabric/wire"
)

// TestAnswersByPath owes answers by several paths. Each path must get its own answer, in the order of
// the questions. Of several questions of one peer by one path, the longest gets the answer.
func TestAnswersByPath(t *testing.T) {
	peer := echo{incarnation: 7, training: 1, stamp: 5}
	other := ByChannel(3)
	a := answers{tokens: answerBurst}
	for _, q := range []answer{{other, 900, true, false, peer}, {Own, 800, false, false, peer}, {other, 700, false, false, peer}} {
		if !a.owe(0, q.path, q.room, q.short, q.final, q.echo) {
			t.Errorf("no answer is due to %+v", q)
		}
	}
	if a.tokens != answerBurst-2 {
		t.Errorf("%d tokens are left, want %d", a.tokens, answerBurst-2)
	}
	for _, want := range []answer{{other, 900, true, false, peer}, {Own, 800, false, false, peer}} {
		if got, ok := a.poll(); !ok || got != want {
			t.Errorf("got %+v, %v; want %+v", got, ok, want)
		}
	}
	if got, ok := a.poll(); ok {
		t.Errorf("a third answer: %+v", got)
	}
	for k := range answerBurst - 2 {
		if !a.owe(0, ByChannel(wire.Channel(k)), 100, false, false, peer) {
			t.Errorf("no answer is due by path %d, although tokens are left", k)
		}
	}
	if a.owe(0, Own, 100, false, false, peer) {
		t.Error("an answer is due without a token")
	}
	a.forget(ByChannel(0))
	if got, ok := a.poll(); !ok || got.path != ByChannel(1) {
		t.Errorf("after the first path is forgotten, the first answer is %+v, %v", got, ok)
	}
}
