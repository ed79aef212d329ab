package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// TestKilledChipOverQUIC kills a chip of an idle ring again and again, without a goodbye. The links
// run over QUIC, with the profile paced. Both neighbours must notice the death within DeadIdle of
// the profile, and must have tables without the chip 250 ms later. If a neighbour's process waited
// for a processor, its limit is longer by that time. On a busy machine, the test tries several times.
// Only Linux tells QUIC ports that no process has the peer's socket.
func TestKilledChipOverQUIC(t *testing.T) {
	t.Parallel()
	const tries, tablesWithin = 8, 250 * time.Millisecond
	c := newCLI(t)
	c.must("up", "ring:4", "-d", "--transport", "quic")
	victim := wire.FabricNodeID{Chip: 1}
	neighbours := []wire.FabricNodeID{{Chip: 0}, {Chip: 2}}
	for k := 1; ; k++ {
		c.intact()
		stood, begin := stalls(), time.Now()
		c.must("chip", "kill", "M0D1")
		killed := time.Now()
		for _, n := range neighbours {
			for end := killed.Add(soon); !slices.Contains(read[struct{ Chips []api.ChipView }](c, "inspect", n.String()).Chips[0].Unreachable, victim); {
				if time.Sleep(50 * time.Millisecond); time.Now().After(end) {
					t.Fatalf("M0D1 is dead, but chip %s can still reach it", n)
				}
			}
		}
		still := stood()
		late := ""
		for _, n := range neighbours {
			down, tables, wait := c.noticed(n, begin)
			for end := time.Now().Add(soon); down.IsZero() || tables.IsZero(); down, tables, wait = c.noticed(n, begin) {
				if time.Sleep(50 * time.Millisecond); time.Now().After(end) {
					t.Fatalf("chip %s: the links went down at %v, and the tables changed at %v", n, down, tables)
				}
			}
			t.Logf("chip %s noticed the death after %v, had new tables after %v, and was late by %v", n, down.Sub(killed), tables.Sub(killed), wait)
			if down.Sub(killed) > ttlink.ProfilePaced.DeadIdle+wait || tables.Sub(killed) > ttlink.ProfilePaced.DeadIdle+wait+tablesWithin {
				late += fmt.Sprintf("chip %s noticed the death after %v, and had new tables after %v; ", n, down.Sub(killed), tables.Sub(killed))
			}
		}
		if late == "" {
			break
		}
		if k == tries {
			t.Fatalf("%swant at most %v, and %v more for the tables; the machine delayed timers by %v", late, ttlink.ProfilePaced.DeadIdle, tablesWithin, still)
		}
		c.must("chip", "start", "M0D1")
		c.must("up", "-d")
	}
	if _, errs, code := c.run("ping", "M0D0", "M0D1", "-c", "1"); code != exitAssert {
		t.Errorf("a ping to the dead chip: exit code %d: %s", code, errs)
	}
	c.must("ping", "M0D0", "M0D2", "-c", "1")
	c.must("down")
}

// noticed reads the events of a neighbour of M0D1 since an instant. The results are the time when the
// last link to M0D1 went down, the time when the tables first said that M0D1 is unreachable, and the
// longest time for which a link that went down had waited for a processor.
func (c *cli) noticed(n wire.FabricNodeID, since time.Time) (down, tables time.Time, wait time.Duration) {
	c.t.Helper()
	for d := json.NewDecoder(strings.NewReader(c.must("events", "--since", since.UTC().Format(time.RFC3339Nano), "--follow=false", "-o", "json"))); ; {
		var e api.EventView
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return down, tables, wait
		} else if err != nil {
			c.t.Fatal(err)
		}
		switch {
		case e.Chip != n || e.Time.Before(since):
		case e.Type == "link" && e.Action == "down" && strings.HasPrefix(e.Detail["peer"], "M0D1 "):
			down = e.Time
			if text := e.Detail["late"]; text != "" {
				late, err := time.ParseDuration(text)
				if err != nil {
					c.t.Fatal(err)
				}
				wait = max(wait, late)
			}
		case e.Type == "tables" && tables.IsZero() && slices.Contains(strings.Fields(e.Detail["unreachable"]), "M0D1"):
			tables = e.Time
		}
	}
}
