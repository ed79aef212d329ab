package node

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"ttfabric/wire/mono"
)

// A chip counts as starved if the node's timer is late by StarvedAfter or more. The process then
// waited for a processor, or was stopped.
const StarvedAfter = 100 * time.Millisecond

// starvedKept is the number of starvations whose lengths a node keeps.
const starvedKept = 16

// Starved counts how often and how long a chip was starved since its start. A starved chip sends
// and receives nothing. The node measures how late its timer is. The length of a starvation
// therefore counts from the first deadline that the chip missed. On an idle chip, up to Keepalive
// of the link profile passes between two deadlines.
type Starved struct {
	Times   uint64
	Total   time.Duration
	Longest time.Duration
	LastEnd time.Time       // end of the latest starvation; zero: the chip was never starved
	Latest  []time.Duration // lengths of the latest starvations, at most 16, oldest first
}

// StarvedEvent reports that the chip was starved up to the time of the event.
type StarvedEvent struct{ For time.Duration }

// alarm holds when the node's timer has to run the chip, and how late the timer was so far.
type alarm struct {
	at      mono.Time // when the timer has to run the chip; mono.Never: no deadline
	set     mono.Time // when the node set "at"
	starved Starved   // LastEnd is not set here
	end     mono.Time // end of the latest starvation
}

// arm sets the alarm to an earlier time d, and reports whether the timer has to be told. If the
// alarm is due already, arm does not change the alarm. The timer runs the chip anyway, and the
// lateness counts from the first deadline.
func (a *alarm) arm(now, d mono.Time) bool {
	if !d.Before(a.at) || !now.Before(a.at) {
		return false
	}
	a.at, a.set = d, now
	return true
}

// fire notes that the timer has fired at the time now, and clears the alarm. If the timer is late
// by at least StarvedAfter, fire returns the lateness. Otherwise fire returns 0. A deadline that
// had passed when the node set the alarm does not make the timer late.
func (a *alarm) fire(now mono.Time) time.Duration {
	due := a.at
	if due.Before(a.set) {
		due = a.set
	}
	a.at = mono.Never
	if due == mono.Never || now.Sub(due) < StarvedAfter {
		return 0
	}
	late, s := now.Sub(due), &a.starved
	s.Times++
	s.Total += late
	s.Longest = max(s.Longest, late)
	if len(s.Latest) == starvedKept {
		s.Latest = append(s.Latest[:0], s.Latest[1:]...)
	}
	s.Latest = append(s.Latest, late)
	a.end = now
	return late
}

// fired tells the chip the time, because the timer fired at the time "at". If the timer was late,
// fired publishes an event.
func (n *Node) fired(at mono.Time) {
	n.step(timed, func(now mono.Time) {
		if late := n.alarm.fire(at); late > 0 {
			n.events.publish(Event{Time: n.start.Add(time.Duration(at)), Starved: &StarvedEvent{late}})
		}
		n.chip.Tick(now)
	})
}

// Starved returns how often and how long the chip was starved since its start.
func (n *Node) Starved() Starved {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.alarm.starved
	s.Latest = slices.Clone(s.Latest)
	if s.Times > 0 {
		s.LastEnd = n.start.Add(time.Duration(n.alarm.end))
	}
	return s
}

// Pressure says how long processes of this machine waited for a processor, as the kernel measures.
type Pressure struct {
	Percent float64       // share of the last 10 s in which at least one process waited
	Total   time.Duration // time in which at least one process waited, since the machine's start
}

// CPUPressure returns the machine's pressure on processors. If the kernel does not measure this
// pressure, CPUPressure returns false. Linux measures the pressure since release 4.20.
func CPUPressure() (Pressure, bool) {
	b, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return Pressure{}, false
	}
	return parsePressure(string(b))
}

// parsePressure reads the line "some" of /proc/pressure/cpu, such as
// "some avg10=1.53 avg60=0.42 avg300=0.10 total=123456". The total is in microseconds.
func parsePressure(text string) (p Pressure, ok bool) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "some" {
			continue
		}
		found := 0
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			switch k {
			case "avg10":
				x, err := strconv.ParseFloat(v, 64)
				if err != nil || !(x >= 0 && x <= 100) {
					return Pressure{}, false
				}
				p.Percent, found = x, found+1
			case "total":
				us, err := strconv.ParseInt(v, 10, 64)
				if err != nil || us < 0 {
					return Pressure{}, false
				}
				p.Total, found = time.Duration(us)*time.Microsecond, found+1
			}
		}
		return p, found == 2
	}
	return Pressure{}, false
}
