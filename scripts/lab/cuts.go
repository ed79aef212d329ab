package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/ttlink"
)

// Times of the trials with cuts.
const (
	idleBefore   = 2 * time.Second        // the fabric is idle for this time before a cut
	tablesWithin = 250 * time.Millisecond // longest time from the last link that goes down to the new tables
	cutsPerKind  = 2                      // number of cuts of each kind and profile that must be noticed in time
)

// noticedWithin returns the longest time in which a link of an idle fabric may notice a cut.
func noticedWithin(profile string) time.Duration {
	if profile == ttlink.ProfileLAN.Name {
		return 250 * time.Millisecond
	}
	return 650 * time.Millisecond
}

// cut is one way to cut cables of an idle fabric without a word to the chips.
type cut struct {
	name   string
	chips  []int // the chips that must notice the cut
	cables int   // number of cables that the cut takes away, starting with the first cable
	make   func(l *lab) error
	mend   func(l *lab) error // puts the cables back
}

// silentCuts are the cuts that any Linux kernel can make.
var silentCuts = []cut{
	{"nftables drops all datagrams of one cable", []int{0, 1}, 1,
		func(l *lab) error {
			return l.both(func(i int) []string {
				return []string{"nft add table inet lab", "nft add chain inet lab in { type filter hook input priority 0 ; }",
					fmt.Sprintf("nft add rule inet lab in udp dport %d drop", cablePort(i))}
			})
		},
		func(l *lab) error { return l.tableless() }},
	{"nftables drops all datagrams of both cables", []int{0, 1}, 2,
		func(l *lab) error {
			return l.both(func(i int) []string {
				return []string{"nft add table inet lab", "nft add chain inet lab in { type filter hook input priority 0 ; }",
					fmt.Sprintf("nft add rule inet lab in udp dport %d-%d drop", cablePort(i), cablePort(i)+1)}
			})
		},
		func(l *lab) error { return l.tableless() }},
	{"the network is taken away from chip M0D1", []int{0, 1}, 2,
		func(l *lab) error { return l.script(1, "ip link set eth0 down") },
		func(l *lab) error { return l.script(1, "ip link set eth0 up") }},
	{"chip M0D1 is killed", []int{0}, 2,
		func(l *lab) error { l.kill(1); return nil },
		func(l *lab) error { return l.startChip(1) }},
}

// netemCuts is the cut that needs a kernel with netem.
var netemCuts = []cut{
	{"netem drops all frames of one cable", []int{0, 1}, 1,
		func(l *lab) error {
			_, err := l.run("netem", "set", "M0D0:8", "--loss", "100%", "--backend", "kernel")
			return err
		},
		func(l *lab) error { _, err := l.run("netem", "reset", "--backend", "kernel"); return err }},
}

// both runs commands in the namespace of each chip.
func (l *lab) both(commands func(chip int) []string) error {
	for i := range l.spaces {
		if err := l.script(i, commands(i)...); err != nil {
			return err
		}
	}
	return nil
}

// idleCuts cuts cables of the idle fabric in each way, and checks how soon the chips notice the cuts.
// The kernel makes the cuts, so the chips learn of a cut by the silence of their links alone.
func (l *lab) idleCuts(kinds []cut) error {
	for _, c := range kinds {
		var times []string
		for range cutsPerKind {
			took, err := l.inTime(c)
			if err != nil {
				return fmt.Errorf("profile %s: %s: %w", profile, c.name, err)
			}
			times = append(times, took.Round(time.Millisecond).String())
		}
		say("ok: profile %s: %s: noticed after %s", profile, c.name, strings.Join(times, ", "))
	}
	return nil
}

// errLate says that a chip noticed a cut too late.
var errLate = errors.New("too late")

// inTime repeats a cut until all chips notice the cut in time, at most "tries" times. On a busy
// machine, a chip may also publish its events late.
func (l *lab) inTime(c cut) (took time.Duration, err error) {
	for range tries {
		if took, err = l.cutOnce(c); !errors.Is(err, errLate) {
			return took, err
		}
		say("   again, as %v", err)
	}
	return took, err
}

// cutOnce makes a cut, waits until the chips have noticed the cut and installed new tables, and mends
// the cut. The function returns the time from the cut to the last link that went down.
func (l *lab) cutOnce(c cut) (took time.Duration, err error) {
	time.Sleep(idleBefore)
	at := time.Now()
	if err := c.make(l); err != nil {
		return 0, err
	}
	made := time.Now()
	limit := noticedWithin(profile)
	time.Sleep(time.Until(made.Add(2*limit + tablesWithin)))
	if err := errors.Join(c.mend(l), l.settled()); err != nil { // no command reaches a chip whose network is taken away
		return 0, err
	}
	return l.noticed(c, at, made)
}

// noticed reads the events since the cut, which was made between "at" and "made". If a link of a cut
// cable went down too late or not at all, noticed returns an error. If a chip waited for a processor, its
// links may go down later by this time. The event of the link gives the time. If all cables are cut, the
// chips must also have new tables in time.
func (l *lab) noticed(c cut, at, made time.Time) (took time.Duration, err error) {
	events, err := l.events(at)
	if err != nil {
		return 0, err
	}
	for _, i := range c.chips {
		var last time.Time
		for k := range c.cables {
			down, limit := l.down(events, i, k), noticedWithin(profile)
			for _, x := range []int{i, 1 - i} { // one end takes the other down, so the other end's wait counts too
				if v := l.down(events, x, k); v != nil {
					late, err := time.ParseDuration(cmp.Or(v.Detail["late"], "0s"))
					if err != nil {
						return 0, err
					}
					limit = max(limit, noticedWithin(profile)+late)
				}
			}
			if down == nil || down.Time.Sub(made) > limit {
				return 0, fmt.Errorf("%w: the link at %s channel %d; want %v at most: %+v", errLate, chip(i), channel(i, k), limit, down)
			}
			last = down.Time
			took = max(took, last.Sub(at))
		}
		if c.cables == bothCables && !slices.ContainsFunc(events, func(e api.EventView) bool {
			return e.Chip == chip(i) && e.Type == "tables" && e.Time.Sub(last) <= tablesWithin
		}) {
			return 0, fmt.Errorf("%w: chip %s has no new tables %v after its links went down", errLate, chip(i), tablesWithin)
		}
	}
	return took, nil
}

// channel returns the channel of chip i at which cable k ends.
func channel(i, k int) int { return 8 - 8*i + k }

// down returns the first event that says that the link of cable k went down at chip i.
func (l *lab) down(events []api.EventView, i, k int) *api.EventView {
	actor := fmt.Sprintf("%s channel %d", chip(i), channel(i, k))
	n := slices.IndexFunc(events, func(e api.EventView) bool {
		return e.Chip == chip(i) && e.Type == "link" && e.Action == "down" && e.Actor == actor
	})
	if n < 0 {
		return nil
	}
	return &events[n]
}

// events returns the events of both chips since the instant "at", in order of time.
func (l *lab) events(at time.Time) (list []api.EventView, err error) {
	out, err := l.run("events", "--since", at.UTC().Format("2006-01-02T15:04:05.999999999Z"), "-o", "json")
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var e api.EventView
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if !e.Time.Before(at) {
			list = append(list, e)
		}
	}
	return list, nil
}

// cuts cuts cables of an idle fabric with each of the two profiles for one machine.
func (l *lab) cuts() error {
	kinds := slices.DeleteFunc(slices.Clone(silentCuts), func(c cut) bool { return !strings.Contains(c.name, os.Getenv("ONLY")) })
	for _, p := range []string{ttlink.ProfileLAN.Name, ttlink.ProfileCrowded.Name} {
		profile = p
		l.stop()
		if err := l.start(); err != nil {
			return err
		}
		if err := l.idleCuts(kinds); err != nil {
			return err
		}
	}
	return nil
}
