package fabric

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/traffic"
	"ttfabric/wire"
)

// StarvedRun finds the chips that were starved during a run. A starved chip waited for a processor, or
// was stopped, for at least 100 ms.
type StarvedRun struct {
	cs     []*api.Client // the chips that answered at the beginning
	before map[wire.FabricNodeID]api.ChipView
}

// starvedAsk is the longest time that a chip may take to answer at the beginning of a run.
const starvedAsk = 2 * time.Second

// StarvedFromNow begins a run at the given chips, with one call of each chip. StarvedFromNow leaves out
// chips that do not answer within 2 s.
func StarvedFromNow(ctx context.Context, cs []*api.Client) *StarvedRun {
	s := &StarvedRun{before: map[wire.FabricNodeID]api.ChipView{}}
	for i, a := range Each(ctx, cs, starvedAsk, func(ctx context.Context, c *api.Client) (api.ChipView, error) { return c.Chip(ctx) }) {
		if a.Err == nil {
			s.cs, s.before[a.Chip] = append(s.cs, cs[i]), a.Value
		}
	}
	return s
}

// End lists the chips that were starved since the beginning of the run, with one call of each chip. The
// order of the chips is the order of the clients. End waits at most [AskTime], also if the deadline of
// ctx is over. If ctx was canceled, End returns nothing.
func (s *StarvedRun) End(ctx context.Context) (list []traffic.Starved) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil
	}
	views, _ := Ask(context.WithoutCancel(ctx), s.cs)
	for _, after := range views {
		before := s.before[after.Chip]
		if r := starvedBetween(&before, &after); r.Times > 0 {
			list = append(list, r)
		}
	}
	return list
}

// starvedBetween says how often and how long a chip was starved between two views of the chip. If the
// chip restarted meanwhile, only the times of the later process count.
func starvedBetween(before, after *api.ChipView) traffic.Starved {
	was, is := before.Starved, after.Starved
	if before.Incarnation != after.Incarnation {
		was = api.StarvedView{}
	}
	r := traffic.Starved{Chip: after.Chip, Times: is.Times - was.Times, TotalS: max(0, is.TotalS-was.TotalS)}
	if is.LongestS > was.LongestS {
		r.LongestS = is.LongestS
		return r
	}
	first := 0
	if n := uint64(len(is.LatestS)); n > r.Times {
		first = int(n - r.Times)
	}
	for _, t := range is.LatestS[first:] {
		r.LongestS = max(r.LongestS, t)
	}
	return r
}

// StarvedInAny joins the lists of several runs, one after another, in one list.
func StarvedInAny(runs ...[]traffic.Starved) (all []traffic.Starved) {
	at := map[wire.FabricNodeID]int{}
	for _, run := range runs {
		for _, s := range run {
			k, ok := at[s.Chip]
			if !ok {
				at[s.Chip] = len(all)
				all = append(all, s)
				continue
			}
			a := &all[k]
			a.Times, a.TotalS, a.LongestS = a.Times+s.Times, a.TotalS+s.TotalS, max(a.LongestS, s.LongestS)
		}
	}
	return all
}

// starvedLately is a limit for [StarvedLines], which names a chip for this time after the chip was
// starved.
const starvedLately = time.Minute

// StarvedLines returns a line for each chip that was starved in the last minute. An example of a
// line is "M0D5 was starved for 2.1 s, 3 s ago".
func StarvedLines(views []api.ChipView) (lines []string) {
	for _, v := range views {
		if v.Starved.LastEnd == nil {
			continue
		}
		ago := v.Started.Add(time.Duration(v.UptimeS * float64(time.Second))).Sub(*v.Starved.LastEnd) // by the chip's clock
		if ago > starvedLately {
			continue
		}
		l := fmt.Sprintf("%s was starved for %.1f s, %.0f s ago", v.Chip, v.Starved.LastS, max(0, ago.Seconds()))
		if v.Starved.Times > 1 {
			l += fmt.Sprintf("; %d times since its start, for %.1f s in all", v.Starved.Times, v.Starved.TotalS)
		}
		lines = append(lines, l)
	}
	return lines
}

// SilentLines returns a line for each chip that at least one of the views lists as silent. An
// example of a line is "M0D5 is silent: requests to it wait".
func SilentLines(views []api.ChipView) (lines []string) {
	for _, v := range views {
		for _, n := range v.Silent {
			if l := fmt.Sprintf("%s is silent: requests to it wait", n); !slices.Contains(lines, l) {
				lines = append(lines, l)
			}
		}
	}
	return lines
}
