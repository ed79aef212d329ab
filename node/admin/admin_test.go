package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/membership/gossip"
	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/session"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

const token = "secret"

// start starts the chips of an n300 with real gossip, and their APIs; it returns the APIs' addresses.
func start() (machine *topo.Topology, addrs []string, stop func(), err error) {
	machine, _ = topo.Named("n300")
	var seeds []string
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for i, c := range machine.Chips {
		inc := wire.Incarnation(time.Now().UnixNano()) + wire.Incarnation(i)
		n, err := node.Start(context.Background(), node.Config{Node: c.Node, Topology: machine, Incarnation: inc,
			Port: func(a netip.AddrPort) (transport.Port, error) {
				return transport.Listen(transport.Options{Local: a})
			},
			Join: func(ctx context.Context, m membership.Meta) (node.Membership, error) {
				join := append([]string(nil), seeds...)
				return gossip.Start(ctx, gossip.Config{Node: c.Node, Incarnation: inc, Bind: netip.MustParseAddrPort("127.0.0.1:0"), Label: "test", Meta: m, Seeds: func() []string { return join }})
			}})
		if err != nil {
			return nil, nil, stop, err
		}
		seeds = append(seeds, n.GossipAddr().String())
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, stop, err
		}
		srv := admin.NewServer(n, token)
		go srv.Serve(l)
		stops = append(stops, func() { srv.Close(); n.Close() })
		addrs = append(addrs, l.Addr().String())
	}
	return machine, addrs, stop, nil
}

// A program outside the fabric uses a chip through its API, as if it ran inside.
func ExampleClient() {
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		fmt.Println(err)
		return
	}
	left, right := machine.Chips[0].Node, machine.Chips[1].Node
	s := session.New(admin.NewClient(addrs[0], token, left, machine))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	tile := wire.NewNocAddr(1, 1, 0)
	if err := s.Write(ctx, right, tile, []byte("from afar")); err != nil {
		fmt.Println(err)
		return
	}
	b := make([]byte, 9)
	err = s.Read(ctx, right, tile, b)
	fmt.Printf("%s %v\n", b, err)
	// Output: from afar <nil>
}

func TestAPI(t *testing.T) {
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var cs []*admin.Client
	for i, a := range addrs {
		cs = append(cs, admin.NewClient(a, token, machine.Chips[i].Node, machine))
	}
	s := session.New(cs[0])
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	t.Run("errors keep their type", func(t *testing.T) {
		var refused *session.RefusedError
		if err := s.Write(ctx, machine.Chips[1].Node, wire.NewNocAddr(0, 10, 0), []byte("x")); !errors.As(err, &refused) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("large transfer", func(t *testing.T) {
		data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		at := wire.NewNocAddr(0, 0, 12345)
		if err := s.Write(ctx, machine.Chips[1].Node, at, data); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data))
		if err := s.Read(ctx, machine.Chips[1].Node, at, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("read back: %v", err)
		}
	})
	t.Run("token", func(t *testing.T) {
		if _, err := admin.NewClient(addrs[0], "wrong", machine.Chips[0].Node, machine).Chip(ctx); err == nil || !strings.Contains(err.Error(), "token") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("health", func(t *testing.T) {
		for _, path := range []string{"/livez", "/readyz"} {
			resp, err := http.Get("http://" + addrs[0] + path)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: %v %v", path, resp, err)
			}
			resp.Body.Close()
		}
	})
	t.Run("bad bodies", func(t *testing.T) {
		for _, body := range []string{"", "{", `{"dst":"M9999D0"}`, `{"dst":3}`, `{"payload":"%%%"}`, strings.Repeat("x", admin.MaxBody+1)} {
			for _, path := range []string{"/v1/requests", "/v1/traffic"} {
				req, _ := http.NewRequest("POST", "http://"+addrs[0]+path, strings.NewReader(body))
				req.Header.Set("Authorization", "Bearer "+token)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					continue // the server hung up on a body that is too long
				}
				if resp.StatusCode/100 != 4 {
					t.Errorf("%s %.20q: %s", path, body, resp.Status)
				}
				resp.Body.Close()
			}
		}
	})
	t.Run("traffic", func(t *testing.T) { apiTraffic(ctx, t, machine, cs) })
	t.Run("events", func(t *testing.T) {
		one, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		ups := map[string]bool{} // a busy machine may have lost a link for a moment, and found it again
		cs[0].Events(one, func(e admin.EventView) {
			if e.Type == "link" && e.Action == "up" {
				ups[e.Actor] = true
			}
			if _, err := json.Marshal(e); err != nil {
				t.Error(err)
			}
		})
		if len(ups) != 2 {
			t.Errorf("channels %v came up in the history, want 2", ups)
		}
	})
}

func apiTraffic(ctx context.Context, t *testing.T, machine *topo.Topology, cs []*admin.Client) {
	p, _ := traffic.PatternByName("all-to-all")
	pairs := p.Pairs(machine, 1)
	spec := traffic.Spec{Run: 7, Pattern: p.Name, Packets: 2001, Size: 1000, Planes: 2, Window: 16, Seed: 1}
	for _, send := range []bool{false, true} {
		for _, c := range cs {
			if err := c.StartTraffic(ctx, admin.TrafficStart{Spec: spec, Pairs: pairs, Send: send}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for {
		var reports []traffic.Report
		done := true
		for _, c := range cs {
			r, err := c.Traffic(ctx)
			if err != nil {
				t.Fatal(err)
			}
			reports = append(reports, r)
			done = done && r.Finished
		}
		if done {
			if res := traffic.Merge(spec, pairs, reports); !res.OK() {
				t.Errorf("%+v", res.Total)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
