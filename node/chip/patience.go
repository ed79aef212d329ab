package chip

import (
	"slices"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// tickFlows probes flows that have stalled, and gives up those that have for too long.
func (c *Chip) tickFlows(now mono.Time) {
	c.nextFlows = now.Add(flowTick)
	for _, f := range c.outOrder {
		if len(f.openOps()) == 0 {
			continue
		}
		quiet := now.Sub(f.progress)
		if quiet > FlowTimeout {
			c.giveUp(now, f, DoubtTimeout)
			continue
		}
		if f.moving && now.Sub(f.moved) >= lastWords && now.Sub(f.progress) >= lastWords && !c.way(f.key, wire.ClassRequest).ok {
			c.giveUp(now, f, DoubtUnreachable)
			continue
		}
		wait := ProbeAfter << min(f.probes, 4)
		if quiet < ProbeAfter || (f.probes > 0 && now.Sub(f.probed) < wait) {
			continue
		}
		w := c.departure(f)
		if f.moving { // behind what is under way by the old one, or instead of what is lost there
			w = c.way(f.key, wire.ClassRequest)
		}
		if !w.ok || len(f.openOps()) >= MaxOutstanding+16 || !c.router.CanInject(w.port, w.vc) {
			continue
		}
		if c.inject(f, w, &Request{Dst: f.key.node, Plane: f.key.plane, Probe: true}, &op{sent: now, probe: true}) {
			f.probed = now
			f.probes++
			c.counters.Probes++
		}
	}
	c.tickGroups(now)
	c.expireReads(now)
}

// expireReads gives up reads that were performed but whose data was lost on its way home.
func (c *Chip) expireReads(now mono.Time) {
	var late []uint64
	for id, ref := range c.reads {
		if now.Sub(ref.op.sent) > FlowTimeout {
			late = append(late, id)
		}
	}
	slices.Sort(late)
	for _, id := range late {
		ref := c.reads[id]
		if !ref.openIn() {
			delete(c.reads, id)
			c.open--
			ref.flow.fates[FateUnknown]++
			c.finish(now, ref.flow.key.node, &ref.op, Result{Fate: FateUnknown, Doubt: DoubtTimeout})
		}
	}
}

// openIn reports whether the read is still an open request of its flow, which then settles it.
func (r *readRef) openIn() bool {
	for _, o := range r.flow.openOps() {
		if o.id == r.op.id {
			return !o.settled
		}
	}
	return false
}

// renew begins a new life of a flow; nothing of it is open.
func (f *outFlow) renew() {
	f.epoch, f.next, f.base, f.probes, f.life = nextLife(f.epoch), 0, 0, 0, life{}
}

// giveUp ends all requests of a flow and begins a new life of it.
func (c *Chip) giveUp(now mono.Time, f *outFlow, why Doubt) {
	for seq := f.base; seq != f.next; seq++ {
		c.settle(now, f, seq, Result{Fate: FateUnknown, Doubt: why})
	}
	f.advance()
	f.renew()
	f.progress = now
	c.counters.FlowResets++
}
