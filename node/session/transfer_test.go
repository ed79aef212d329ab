package session

import (
	"context"
	"errors"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// TestTornTransfer writes three packets to a chip that restarts. If the chip restarts
// before it performs the first packet, all packets go to the new incarnation. If the chip
// restarts later, the outcome of the write is unknown.
func TestTornTransfer(t *testing.T) {
	done := flow.Result{Fate: flow.FateDone}
	restarted := flow.Result{Fate: flow.FateRefused, Outcome: wire.OutcomeUnknownFlow}
	write := func(ends ...flow.Result) (int, error) {
		f := &scripted{ends: ends}
		err := New(f).Write(context.Background(), at(1), wire.NewNocAddr(1, 1, 0), make([]byte, 3*wire.MaxPayload))
		return len(f.asked), err
	}
	if n, err := write(restarted, restarted, restarted, done, done, done); n != 6 || err != nil {
		t.Errorf("before the first packet: %d packets sent, %v", n, err)
	}
	var unknown *OutcomeUnknownError
	if n, err := write(done, restarted, restarted, done, done); n != 3 || !errors.As(err, &unknown) {
		t.Errorf("behind the first packet: %d packets sent, %v", n, err)
	}
}

// TestLostDataIsReadAgain ends reads because their data was lost. The Session must repeat the read,
// and return the data of the repetition.
func TestLostDataIsReadAgain(t *testing.T) {
	lost := flow.Result{Fate: flow.FateUnknown, Doubt: flow.DoubtData, Drop: wire.DropTimeout}
	f := &scripted{ends: []flow.Result{lost, lost, {Fate: flow.FateDone, Data: []byte("here")}}}
	b := make([]byte, 4)
	if err := New(f).Read(t.Context(), at(1), wire.NewNocAddr(1, 1, 0), b); err != nil || string(b) != "here" || len(f.asked) != 3 {
		t.Errorf("read %q, %v, after %d requests", b, err, len(f.asked))
	}
}
