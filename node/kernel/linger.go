package kernel

import (
	"slices"
	"time"

	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// After the end of a chip's part of a job, the chip at the other end of a cable may still send L1
// writes of the job. So the L1 of the job on an ethernet tile lingers: no other job gets this L1
// until the other chip has released the ended job. A chip releases a job over queue 0 of the cable.
// Before the release, the chip's own part must have ended, and all frames of the job's commands on
// queue 1 must have their sequence numbers. Frames take effect in the order of their numbers, so
// the release comes after all writes of the job, of both queues.

// ReleaseOffset is the address of the register for the tag of a released job in an ethernet tile. Hardware
// has no such register.
const ReleaseOffset = OwnerOffset + 4

// LingerMost is the longest time for which L1 lingers, our own choice. A cable that is down for
// longer is out of service. The link of the cable then drops the frames that wait to be sent.
const LingerMost = 30 * time.Second

// linger is L1 of a job that has ended, which the chip at the other end of a cable may still change.
type linger struct {
	channel wire.Channel
	tag     uint32
	buffers []Buffer
	until   mono.Time
	early   bool // the job ended early, so the words of its channels may be left over
	tile    Tile
}

// linger keeps the L1 of an ended job on the ethernet tiles of the job's channels. The L1 becomes
// free when the chip at the other end of the channel releases the job, or after [LingerMost].
func (m *Machine) linger(j *job, early bool) {
	for _, ch := range j.spec.Channels {
		t, ok := EthernetTile(m.cfg.Topology.Arch, ch)
		if !ok {
			continue
		}
		l := linger{channel: ch, tag: j.spec.ID.Tag(), until: m.now.Add(LingerMost), early: early, tile: t}
		if m.cfg.Host.Released(ch, l.tag) { // the other chip has released the job first, or the link has no session
			if early {
				m.clearChannels(j, t)
			}
			continue
		}
		l.buffers = append(l.buffers, Buffer{t, EriscChannels, NumChannels * ChannelSize})
		for _, b := range j.buffers {
			if b.Tile == t {
				l.buffers = append(l.buffers, b)
			}
		}
		m.lingers = append(m.lingers, l)
	}
}

// Release releases the job with the given tag. The chip at the other end of the channel will change
// no more L1 of this job. A tag of 0 stands for all jobs: the session of the channel's link has
// ended. Release reports whether a job with this tag runs, or has L1 that lingered on the channel's
// tile.
func (m *Machine) Release(ch wire.Channel, tag uint32) (known bool) {
	m.lingers = slices.DeleteFunc(m.lingers, func(l linger) bool {
		over := l.channel == ch && (tag == 0 || l.tag == tag)
		known = known || over
		if over && l.early {
			m.clearChannels(nil, l.tile)
		}
		return over
	})
	for _, j := range m.jobs {
		known = known || j.spec.ID.Tag() == tag
		if !j.started {
			m.due = mono.Min(m.due, max(j.startAt, m.now))
		}
	}
	return known
}

// clearChannels clears the words of the channels of an ethernet tile, unless a kernel of another job than "ended" runs on
// the tile.
func (m *Machine) clearChannels(ended *job, t Tile) {
	if !slices.ContainsFunc(m.jobs, func(j *job) bool { return j != ended && j.on(t) }) {
		m.cfg.Memory.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: t.Addr(EriscChannels)}, make([]byte, NumChannels*ChannelSize))
	}
}

// wants reports whether a program of the job has a kernel on a tile.
func (j *job) wants(t Tile) bool {
	return slices.ContainsFunc(j.spec.Programs, func(p Program) bool {
		return slices.ContainsFunc(p.Kernels, func(s Start) bool { return s.Tile == t })
	})
}

// lingers reports whether L1 that the job needs still lingers for an earlier job. The time "until"
// is the latest end of this lingering.
func (j *job) lingers() (until mono.Time, ok bool) {
	for _, l := range j.m.lingers {
		if l.until.After(j.m.now) && slices.ContainsFunc(l.buffers, func(b Buffer) bool {
			return slices.ContainsFunc(j.buffers, func(c Buffer) bool { return b.overlaps(&c) }) || l.early && b.Tile == l.tile && j.wants(l.tile)
		}) {
			until, ok = max(until, l.until), true
		}
	}
	return until, ok
}
