package chip

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// A chip ends a job when a link of the job ends its session. If the tables lead round the link, the
// chip does not know why the link is down. Either a cable failed, or the chip at the other end died
// or restarted. The chip then stops the job's kernels at once, and reports the end of the job when
// it knows the reason. To find the reason, the chip reads the life register of the other chip by
// another route. If the register shows the same [wire.Life] as in the ended session, the chip still
// runs, and the link has failed. If the tables lose their last route to the other chip, that chip
// has died.

// Limits of the search for the reason, our own choices.
const (
	verdictGraces = 2                     // number of grace periods after which the chip reports the end without knowing whether the other chip lives
	verdictEvery  = 20 * time.Millisecond // shortest time between two reads of the life register
	maxVerdicts   = kernel.MaxJobs        // number of ends whose reason the chip searches for; the chip reports further ends at once
	verdictBit    = 1 << 62               // bit in the tokens of these reads, beside noticeBit
)

// verdict is the end of a job whose reason the chip does not know yet.
type verdict struct {
	event  kernel.Event // the end of the job as a failure of the link
	peer   wire.PortID  // port at the other end of the link
	life   wire.Life    // life of the other chip in the session that ended
	until  mono.Time    // when the chip reports the end even without the reason
	next   mono.Time    // when the chip may read the life register again
	token  uint64       // token of the read under way; 0: none
	absent bool         // no answer has come yet
}

// sessionEnded ends the jobs that use a link whose session has ended. If the chip at the other end
// has restarted, sessionEnded also ends the other jobs that run on that chip.
func (c *machine) sessionEnded(now mono.Time, p *port, e *ttlink.Event) {
	if e.End == ttlink.EndPeerRestarted {
		c.endJobsWith(now, p.Peer.Node, kernel.End{Why: kernel.EndAnew, By: p.Peer.Node})
	}
	if c.kernels.Idle() {
		return
	}
	end := kernel.End{Why: kernel.EndLink, By: c.cfg.Node, Text: cableName(p) + e.End.String()}
	if e.End == ttlink.EndForsaken {
		v := verdict{peer: p.Peer, life: e.Peer.Life(), until: now.Add(verdictGraces * GraceDeadTimes * c.cfg.Profile.DeadTraffic), next: now, absent: true}
		c.kernels.doubt = &v
	}
	c.endJobsOn(now, p, end)
	c.kernels.doubt = nil
}

// cableName names the link of a port, at the beginning of a reason.
func cableName(p *port) string {
	return fmt.Sprintf("link %s:%d to %s:%d: ", p.Local.Node, p.Local.Channel, p.Peer.Node, p.Peer.Channel)
}

// sessionStarted uses what the start of a session says about the chip at the other end of a link.
func (c *machine) sessionStarted(now mono.Time, p *port, e *ttlink.Event) {
	if e.Anew {
		c.endJobsWith(now, p.Peer.Node, kernel.End{Why: kernel.EndAnew, By: p.Peer.Node})
	}
	c.source.HandlePeer(now, flow.Life{Node: p.Peer.Node, Life: e.Peer.Life()})
	c.judge(now, func(v *verdict) bool { return v.heard(p.Peer.Node, e.Peer.Life()) })
}

// endJobsWith ends the jobs that run on another chip, too, because that chip has died or restarted.
func (c *machine) endJobsWith(now mono.Time, n wire.FabricNodeID, end kernel.End) {
	if c.kernels.Idle() {
		return
	}
	for _, id := range c.kernels.Uses(func(wire.Channel) bool { return false }, func(x wire.FabricNodeID) bool { return x == n }) {
		c.EndJob(now, id, end)
	}
}

// endJobsOn ends the jobs that use the link of a port.
func (c *machine) endJobsOn(now mono.Time, p *port, end kernel.End) {
	for _, id := range c.kernels.Uses(func(ch wire.Channel) bool { return ch == p.Local.Channel }, func(wire.FabricNodeID) bool { return false }) {
		c.EndJob(now, id, end)
	}
}

// endLostJobs ends the jobs with a chip that no route leads to.
func (c *machine) endLostJobs(now mono.Time) {
	for _, lost := range c.tables.unreachable {
		c.endJobsWith(now, lost, kernel.End{Why: kernel.EndChip, By: lost})
		c.judge(now, func(v *verdict) bool { return v.peer.Node == lost && v.say(kernel.EndChip, lost, "") })
	}
}

// say gives the verdict a reason. say returns true.
func (v *verdict) say(why kernel.Why, by wire.FabricNodeID, text string) bool {
	v.event.End.Why, v.event.End.By, v.event.End.Text = why, by, text
	return true
}

// heard takes the life that a chip has now. heard returns true if the verdict is about this chip.
func (v *verdict) heard(n wire.FabricNodeID, life wire.Life) bool {
	if v.peer.Node != n {
		return false
	}
	v.absent = false
	return v.life == life || v.say(kernel.EndAnew, n, "")
}

// judge reports the ends of the jobs for which the function "over" returns true.
func (c *machine) judge(now mono.Time, over func(v *verdict) bool) (moved bool) {
	k := &c.kernels
	k.verdicts = slices.DeleteFunc(k.verdicts, func(v verdict) bool {
		if !over(&v) {
			return false
		}
		c.ended(now, &v.event, true)
		moved = true
		return true
	})
	return moved
}

// told takes the end of a job that another chip has reported. The other chip knows the reason.
func (c *machine) told(now mono.Time, n *kernel.Notice) (moved bool) {
	k := &c.kernels
	k.verdicts = slices.DeleteFunc(k.verdicts, func(v verdict) bool {
		if v.event.Job != n.Job {
			return false
		}
		v.event.End = n.End
		c.ended(now, &v.event, false)
		moved = true
		return true
	})
	return moved
}

// ask reads the life registers of the chips whose state the chip does not know, and reports the ends
// whose time is over.
func (c *machine) ask(now mono.Time) (moved bool) {
	k := &c.kernels
	moved = c.judge(now, func(v *verdict) bool {
		if now.Before(v.until) {
			return false
		}
		if v.absent {
			v.event.End.Text += fmt.Sprintf("; chip %s has not answered since", v.peer.Node)
		}
		return true
	})
	at, ok := noc.LifeRegister(c.cfg.Topology.Arch)
	for i := range k.verdicts {
		v := &k.verdicts[i]
		if v.token != 0 || now.Before(v.next) || !ok {
			continue
		}
		v.next = now.Add(verdictEvery)
		k.sent++
		r := flow.Request{Token: noticeBit | verdictBit | k.sent, Dst: v.peer.Node, Plane: wire.Plane(k.sent % uint64(max(c.cfg.Topology.Planes(), 1))),
			Command: wire.Command{Type: wire.NocRead, Addr: at, Size: noc.LifeSize}}
		if c.start(now, &r, flow.Kernel) == flow.Accepted {
			v.token, moved = r.Token, true
		}
	}
	return moved
}

// answered takes the result of a read of a life register. The chip reports the end of the job in its
// next step.
func (p *programs) answered(r *flow.Result) {
	for i := range p.verdicts {
		v := &p.verdicts[i]
		if v.token != r.Token {
			continue
		}
		v.token = 0
		if r.Fate == flow.FateDone && len(r.Data) == noc.LifeSize && v.heard(v.peer.Node, wire.Incarnation(binary.LittleEndian.Uint64(r.Data)).Life()) {
			v.until = r.Done
		}
	}
}

// verdictAt returns the time at which the chip must call "ask" next, or mono.Never.
func (p *programs) verdictAt() mono.Time {
	at := mono.Never
	for i := range p.verdicts {
		v := &p.verdicts[i]
		if at = mono.Min(at, v.until); v.token == 0 {
			at = mono.Min(at, v.next)
		}
	}
	return at
}
