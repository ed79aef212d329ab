package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
	"ttfabric/node/session"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// pingRow is one pair's result. P50 and Max are the times of the pings that were
// answered. Error is the error of the last lost ping.
type pingRow struct {
	Src     wire.FabricNodeID `json:"src"`               // chip that sent the probes
	Dst     wire.FabricNodeID `json:"dst"`               // chip that answered
	Plane   wire.Plane        `json:"plane"`             // routing plane
	Sent    int               `json:"sent"`              // number of probes
	Lost    int               `json:"lost"`              // number of probes without an answer
	P50     float64           `json:"p50_microseconds"`  // median round trip, in microseconds
	Max     float64           `json:"max_microseconds"`  // longest round trip, in microseconds
	Error   string            `json:"error,omitempty"`   // error of the last probe without an answer; absent if all probes were answered
	Starved []traffic.Starved `json:"starved,omitempty"` // chips of the fabric that were starved while the command ran; all rows have the same list
}

func newPing() *cobra.Command {
	var all bool
	var count, plane int
	var timeout time.Duration
	c := &cobra.Command{Use: "ping [SRC DST]", Short: "Time round trips through the fabric", Args: cobra.MaximumNArgs(2),
		Long: `The command sends empty packets from one chip to another through the fabric, and
times each packet until the packet's completion. With --all the command pings every
ordered pair of chips between which the fabric has a route. While answers arrive
within 10 ms, the command has one ping under way for every two processors of this
machine, so that pings do not slow each other down. If answers take longer, the
command pings up to 128 pairs at the same time.

If the process of a chip waited for a processor, or was stopped, for at least 100 ms
during the pings, the chip was starved. The command names the starved chips.

After Ctrl-C, the command prints the results of the pings so far.

Exit code 5 if a ping is lost.`,
		Example: "  ttfabric ping M0D0 M0D7\n  ttfabric ping --all",
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			if all == (len(args) == 2) || len(args) == 1 {
				return spec.Usagef("%s: want a source and a destination, such as M0D0 M0D7, or --all alone", topo.Count(len(args), "chip"))
			}
			if count < 1 || count > 100000 {
				return spec.Usagef("--count %d: want 1 to 100000", count)
			}
			pairs, cs, err := pingPairs(c, args, plane)
			if err != nil {
				return err
			}
			starved := fabric.StarvedFromNow(c.Context(), slices.Collect(maps.Values(cs)))
			bar := screen.NewProgress(c.ErrOrStderr(), "pairs", len(pairs))
			defer bar.Stop()
			turns := fabric.NewTurns()
			rows, err := fabric.EachPair(c.Context(), pairs, bar.Set, func(ctx context.Context, p fabric.Pair) pingRow {
				return pingPair(ctx, turns, session.New(cs[p.Src]), p, wire.Plane(plane), count, timeout)
			})
			bar.Stop()
			rows = slices.DeleteFunc(rows, func(r pingRow) bool { return r.Sent == 0 }) // pairs that an interrupted command did not ping
			if err != nil && !cutShort(c, len(rows), len(pairs), "pair") {
				return err
			}
			late := starved.End(c.Context())
			lost := 0
			for i := range rows {
				rows[i].Starved = late
				lost += rows[i].Lost
			}
			if f == "json" {
				err = errors.Join(err, printJSON(c, rows))
			} else {
				printPings(c, rows)
			}
			tellStarved(c, rows[:min(1, len(rows))], func(r pingRow) []traffic.Starved { return r.Starved })
			if err == nil && lost > 0 {
				err = assertf("%d of %d pings got no answer", lost, count*len(pairs))
			}
			return err
		}}
	c.Flags().BoolVarP(&all, "all", "a", false, "ping every ordered pair of chips")
	c.Flags().IntVarP(&count, "count", "c", 4, "pings per pair")
	c.Flags().IntVar(&plane, "plane", 0, "routing plane")
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "wait at most this long for the answer to a ping")
	return c
}

// pingPairs returns the pair of chips in args. If args is empty, pingPairs returns all
// ordered pairs with a running source and a route on the plane. cs maps each running chip
// to its client.
func pingPairs(c *cobra.Command, args []string, plane int) (pairs []fabric.Pair, cs map[wire.FabricNodeID]*api.Client, err error) {
	f, err := openFabric(c)
	if err != nil {
		return nil, nil, err
	}
	t := f.Topology
	list, _, err := f.Clients()
	if err != nil {
		return nil, nil, err
	}
	pl, err := spec.Plane(t, plane)
	if err != nil {
		return nil, nil, err
	}
	cs = map[wire.FabricNodeID]*api.Client{}
	for _, cl := range list {
		cs[cl.Self()] = cl
	}
	if len(args) == 2 {
		src, err := chipOf(t, args[0])
		if err != nil {
			return nil, nil, err
		}
		dst, err := chipOf(t, args[1])
		if err != nil {
			return nil, nil, err
		}
		if cs[src] == nil {
			return nil, nil, fmt.Errorf("chip %s is not running; 'ttfabric chip start %s' starts the chip", src, src)
		}
		return []fabric.Pair{{Src: src, Dst: dst}}, cs, nil
	}
	routes, err := f.Plan()
	if err != nil {
		return nil, nil, err
	}
	apart := 0
	for _, a := range t.Chips {
		for _, b := range t.Chips {
			if a.Node == b.Node || cs[a.Node] == nil {
				continue
			}
			if _, ok := routes.Walk(wire.ClassRequest, pl, a.Node, b.Node); !ok {
				apart++
				continue
			}
			pairs = append(pairs, fabric.Pair{Src: a.Node, Dst: b.Node})
		}
	}
	if apart > 0 {
		fmt.Fprintf(c.ErrOrStderr(), leftOut, topo.Count(apart, "pair"))
	}
	return pairs, cs, nil
}

// pingPair pings a pair's destination from the chip of the session, count times, one ping after
// another. If ctx ends, the row covers only the pings so far.
func pingPair(ctx context.Context, turns fabric.Turns, s *session.Session, p fabric.Pair, plane wire.Plane, count int, timeout time.Duration) pingRow {
	r := pingRow{Src: p.Src, Dst: p.Dst, Plane: plane}
	var us []float64
	for range count {
		leave, err := turns.Take(ctx)
		if err != nil {
			return r
		}
		one, cancel := context.WithTimeout(ctx, timeout)
		d, err := s.Ping(one, p.Dst, session.OnPlane(plane))
		cancel()
		leave()
		if err != nil && ctx.Err() != nil {
			return r // nobody knows whether the answer would have come
		}
		r.Sent++
		if err != nil {
			r.Lost++
			r.Error = strings.ReplaceAll(err.Error(), "\n", "; ")
			continue
		}
		us = append(us, float64(d.Nanoseconds())/1e3)
	}
	if slices.Sort(us); len(us) > 0 {
		r.P50, r.Max = us[len(us)/2], us[len(us)-1]
	}
	return r
}

func printPings(c *cobra.Command, rows []pingRow) {
	tw := newTable(c, "Src", "Dst", "Plane", "Sent", "Lost", "p50 µs", "max µs", "Error")
	tw.Least("Plane", "max µs")
	for _, r := range rows {
		tw.AppendRow(table.Row{r.Src, r.Dst, r.Plane, r.Sent, r.Lost, fmt.Sprintf("%.1f", r.P50), fmt.Sprintf("%.1f", r.Max), r.Error})
	}
	tw.Render()
}
