package admin_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestSilentChip asks a chip that accepts connections and never answers, as a paused process does.
// Calls end soon after their context, with the context's error. The context ends after the chip has
// received the beginning of the call. Before the chip has received anything, the chip has started
// nothing, and nothing is unknown.
func TestSilentChip(t *testing.T) {
	t.Parallel()
	machine, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	nodes := machine.Nodes()
	addr := wire.NewNocAddr(1, 1, 0)
	for name, call := range map[string]func(context.Context, *session.Session) error{
		"ping": func(ctx context.Context, s *session.Session) error { _, err := s.Ping(ctx, nodes[1]); return err },
		"read": func(ctx context.Context, s *session.Session) error {
			return s.Read(ctx, nodes[1], addr, make([]byte, 4))
		},
		"write": func(ctx context.Context, s *session.Session) error {
			return s.Write(ctx, nodes[1], addr, make([]byte, 1<<20))
		},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan time.Time, 1)
		go func() {
			defer cancel()
			defer func() { ended <- time.Now() }()
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			_, _ = c.Read(make([]byte, 1))
			time.Sleep(300 * time.Millisecond)
		}()
		err = call(ctx, session.New(api.NewClient(l.Addr().String(), token, nodes[0], machine)))
		end := time.Now()
		l.Close()
		took := end.Sub(<-ended)
		var unknown *session.OutcomeUnknownError
		if !errors.Is(err, context.Canceled) || !errors.As(err, &unknown) || !strings.Contains(err.Error(), "stopped waiting") {
			t.Errorf("%s: %v", name, err)
		}
		if took > 3700*time.Millisecond {
			t.Errorf("%s ends %v after its context", name, took)
		}
	}
}

// TestRefusedDial submits to an address where nobody listens. No request counts as started.
func TestRefusedDial(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	machine, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	nodes := machine.Nodes()
	s := session.New(api.NewClient(l.Addr().String(), token, nodes[0], machine))
	var unknown *session.OutcomeUnknownError
	if err := s.Write(t.Context(), nodes[1], wire.NewNocAddr(1, 1, 0), make([]byte, 1<<20)); err == nil || errors.As(err, &unknown) {
		t.Errorf("a write to nobody: %v", err)
	}
}
