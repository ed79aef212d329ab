package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/dashboard"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/picture/live"
	"ttfabric/router/topo"
)

// made is a source of made-up states.
type made struct {
	*live.Feed
	m   *picture.Machine
	pic *picture.Picture
}

func (s *made) Machine() *picture.Machine         { return s.m }
func (s *made) State() *picture.State             { return s.pic.State() }
func (s *made) Events() []picture.Event           { return []picture.Event{} }
func (s *made) History(cable int) picture.History { return s.pic.History(cable) }

var errMade = errors.New("made-up chips do not answer")

func (s *made) Chip(context.Context, string) (d picture.ChipDetail, err error) { return d, errMade }
func (s *made) Route(string, string, int, bool) (r picture.Route, err error)   { return r, errMade }
func (s *made) Losses(context.Context) (b fabric.Balance, err error)           { return b, errMade }
func (s *made) Do(context.Context, live.Action) (string, error)                { return "", errMade }

// views returns the views of all chips after some seconds of made-up traffic.
func views(t *topo.Topology, seconds float64) (out []api.ChipBrief) {
	dice := rand.New(rand.NewPCG(7, 0))
	for _, c := range t.Chips {
		v := api.ChipBrief{Chip: c.Node, Incarnation: "1", UptimeS: seconds, TableEpoch: "00000001", InFlight: dice.IntN(40)}
		for _, p := range t.Ports(c.Node) {
			l := api.LinkBrief{Channel: p.Local.Channel, State: "up", Router: "running", LastDown: "none",
				Bytes: uint64(seconds * 1e8 * dice.Float64() * dice.Float64()), Packets: uint64(seconds * 1e4)}
			switch k := dice.IntN(200); {
			case k < 2:
				l.State, l.Out = "training", true
			case k < 4:
				l.Held, l.State = true, "training"
			case k < 7:
				by := p.Local.Channel
				l.By = &by
			}
			if l.State == "up" {
				v.LinksUp++
			}
			v.Links = append(v.Links, l)
		}
		out = append(out, v)
	}
	return out
}

// fastest is the longest time of one frame at 128 chips: 50 frames a second.
const fastest = 20.0

// large shows machines of 128 and of 1,024 made-up chips, and measures the time of a frame.
func (b *browser) large() {
	for _, x := range []struct {
		machine func() (*topo.Topology, error)
		chips   int
		limit   float64 // longest time of a frame in milliseconds
	}{{func() (*topo.Topology, error) { return topo.Named("torus:8x16") }, 128, fastest}, {four, 1024, 5 * fastest}} {
		t, err := x.machine()
		b.fail(err)
		l, err := dashboard.Listen("127.0.0.1:0")
		if b.fail(err); b.err != nil {
			return
		}
		s := &made{Feed: live.NewFeed(), m: picture.NewMachine("made-up", t)}
		s.pic = picture.New(s.m)
		for i := range 5 {
			s.pic.Take(time.Now().Add(time.Duration(i-5)*time.Second), picture.Round{Views: views(t, float64(i+1))})
		}
		ctx, cancel := context.WithCancel(context.Background())
		go dashboard.Serve(ctx, l, s, dashboard.Keys{Read: "key"})
		b.open(fmt.Sprintf("http://%s/#read=key", l.Addr()), 1280, 800, false, false)
		b.has(fmt.Sprintf("the page shows %d chips", x.chips), "totals", "chips answer")
		b.shot(fmt.Sprintf("chips-%d", x.chips))
		b.frames(x.chips, x.limit)
		b.click("by-load")
		b.shot(fmt.Sprintf("chips-%d-load", x.chips))
		b.click("zoom-in", "zoom-in", "zoom-in", "zoom-in")
		b.shot(fmt.Sprintf("chips-%d-zoomed", x.chips))
		cancel()
	}
}

// frames measures the time of one frame.
func (b *browser) frames(chips int, limit float64) {
	if b.err != nil {
		return
	}
	ms, err := eval[float64](b, "window.ttfabric.frames(50)")
	b.fail(err)
	fmt.Printf("a frame of %d chips takes %.1f ms, without a graphics processor\n", chips, ms)
	if ms > limit {
		b.fail(fmt.Errorf("a frame of %d chips takes %.1f ms; want at most %.0f ms", chips, ms, limit))
	}
}
