package device

import (
	"errors"
	"testing"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// The type "none" is a Sender on which no command may start.
type none struct{ t *testing.T }

// Self returns M0D0.
func (n none) Self() wire.FabricNodeID { return wire.FabricNodeID{} }

// Topology returns the topology n300.
func (n none) Topology() *topo.Topology {
	m, err := topo.Named("n300")
	if err != nil {
		n.t.Fatal(err)
	}
	return m
}

// Start fails the test.
func (n none) Start(*flow.Request, []byte) (Pending, error) {
	n.t.Error("a command was started")
	return nil, nil
}

// TestWithChangesAllOrNothing calls With on two links. The header of the second link was prepared
// for another command, so the first header does not change either.
func TestWithChangesAllOrNothing(t *testing.T) {
	ls, err := NewLinks(none{t}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []wire.Command{Write(64), InlineWrite(64, 1)} {
		if err := ls[i:i+1].Set(c, func(int, *Link, *flow.Request) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	c := Write(128)
	if err := ls.With(DstAddr, c, false, nil); !errors.Is(err, ErrNoState) || ls[0].Header.Command != Write(64) {
		t.Errorf("%v; the first header has %+v", err, ls[0].Header.Command)
	}
}
