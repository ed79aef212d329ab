package node

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"ttfabric/node/chip"
	"ttfabric/node/firmware"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Times at which the node looks at L1 that hosts have mapped. A host's store into mapped L1 causes
// no event. Therefore the node polls the indices of the queues, as the base firmware does on
// hardware.
const (
	lookSoon  = 20 * time.Microsecond // time between two looks at the indices, in the time soonFor after a change of an index
	soonFor   = time.Millisecond      // how long the looks come every lookSoon after a change of an index
	lookLater = time.Millisecond      // time between two looks at the indices, at other times
	lookWhole = 10 * time.Millisecond // time between two looks at the whole L1
)

// lookPage is the number of bytes that the node compares at once.
const lookPage = 4096

// indices are the offsets of the read and write indices of both queues.
var indices = [...]int{firmware.SQ + firmware.WrIdx, firmware.SQ + firmware.RdIdx, firmware.CQ + firmware.WrIdx, firmware.CQ + firmware.RdIdx}

// queuesEnd is the offset after the queues, and after the buffers that a host uses.
const queuesEnd = firmware.InternalBuffers

// mappedTile is an ethernet tile whose L1 hosts have mapped. The chip's memory holds the L1 itself,
// and the mapped bytes are a copy. The node copies the chip's stores to the mapped bytes, and hands
// the hosts' stores to the chip.
type mappedTile struct {
	ch     wire.Channel
	addr   wire.NocAddr // first byte of the L1
	mem    []byte       // mapped bytes
	shadow []byte       // the content of the mapped bytes that the chip already knows
	taking bool         // the node is handing a host's stores to the chip now
	soon   mono.Time    // until this time, the node looks every lookSoon
	whole  mono.Time    // when the node next looks at the whole L1
}

// MapTile makes mem a copy of the L1 of a channel's ethernet tile until [Node.UnmapTile]. Other
// processes have mapped mem, too. The chip takes over what these processes store in mem. MapTile
// returns an error if the length of mem is not that of the L1, or if the tile is already mapped.
func (n *Node) MapTile(ch wire.Channel, mem []byte) error {
	x, y, ok := noc.EthernetTile(n.cfg.Topology.Arch, ch)
	if !ok {
		return fmt.Errorf("chip %s has no ethernet tile of channel %d", n.cfg.Node, ch)
	}
	var err error
	closed := n.order(func(now mono.Time) {
		at, _ := n.chip.Memory().TileAt(x, y)
		switch {
		case uint64(len(mem)) != at.Size:
			err = fmt.Errorf("a map of %d bytes for the L1 of tile %d-%d: want %d", len(mem), x, y, at.Size)
			return
		case n.hosts.tile(ch) != nil:
			err = fmt.Errorf("tile %d-%d is mapped already", x, y)
			return
		}
		if n.hosts.looks == nil {
			if n.hosts.looks, err = newClock(); err != nil {
				return
			}
			c := n.hosts.looks
			n.wg.Go(func() { n.lookOften(c) })
		}
		t := &mappedTile{ch: ch, addr: wire.NewNocAddr(x, y, 0), mem: mem, shadow: make([]byte, len(mem)), whole: now.Add(lookWhole)}
		n.chip.Memory().Read(t.addr, t.shadow)
		copy(t.mem, t.shadow)
		n.chip.Memory().Watch(noc.Mapped, x, y, func(off uint64, k int) { n.chipStored(t, int(off), k) })
		n.hosts.tiles = append(n.hosts.tiles, t)
		n.hosts.looks.set(lookLater)
	})
	if closed != nil {
		return closed
	}
	return err
}

// UnmapTile ends the effect of [Node.MapTile]. The chip first takes over what other processes have
// stored.
func (n *Node) UnmapTile(ch wire.Channel) {
	n.step(asked, func(now mono.Time) {
		t := n.hosts.tile(ch)
		if t == nil {
			return
		}
		t.whole = now
		t.look(now, n.chip)
		n.chip.Memory().Watch(noc.Mapped, t.addr.X(), t.addr.Y(), nil)
		n.hosts.tiles = slices.DeleteFunc(n.hosts.tiles, func(o *mappedTile) bool { return o == t })
		if len(n.hosts.tiles) == 0 {
			n.hosts.endLooks()
		}
	})
}

// tile returns the mapped tile of a channel, or nil.
func (h *hosts) tile(ch wire.Channel) *mappedTile {
	for _, t := range h.tiles {
		if t.ch == ch {
			return t
		}
	}
	return nil
}

// endLooks ends the goroutine of lookOften.
func (h *hosts) endLooks() {
	if h.looks != nil {
		h.looks.close()
		h.looks = nil
	}
}

// lookOften looks at the mapped tiles until the clock c is closed.
func (n *Node) lookOften(c *clock) {
	for c.wait() {
		n.locked(func(now mono.Time) {
			if n.hosts.looks != c {
				return
			}
			found, next := false, lookLater
			for _, t := range n.hosts.tiles {
				found = t.look(now, n.chip) || found
			}
			if found {
				n.work[asked].Steps++
				n.settle(asked, now)
				n.send(asked)
			}
			for _, t := range n.hosts.tiles {
				if now.Before(t.soon) {
					next = lookSoon
				}
			}
			c.set(next)
		})
	}
}

// chipStored copies what the chip has stored in a tile to the mapped bytes.
func (n *Node) chipStored(t *mappedTile, off, k int) {
	n.chip.Memory().Read(t.addr.Add(off), t.shadow[off:off+k])
	if t.taking {
		return // the host has stored these bytes itself, and may have replaced them meanwhile
	}
	if k == wire.RegisterLen && off%wire.RegisterLen == 0 {
		t.put(off) // stores the word in one atomic store, after all earlier stores
	} else {
		copy(t.mem[off:off+k], t.shadow[off:])
	}
	for _, i := range indices {
		if off < i+wire.RegisterLen && i < off+k {
			t.soon = n.now().Add(soonFor)
			n.hosts.looks.set(lookSoon)
		}
	}
}

// get loads the mapped word at an offset.
func (t *mappedTile) get(off int) uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&t.mem[off])))
}

// put copies the word at an offset from the shadow to the mapped bytes.
func (t *mappedTile) put(off int) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&t.mem[off])), binary.NativeEndian.Uint32(t.shadow[off:]))
}

// look hands to the chip what hosts have stored. look returns true if a host has stored anything.
func (t *mappedTile) look(now mono.Time, c *chip.Chip) (found bool) {
	t.taking = true
	defer func() { t.taking = false }()
	for _, i := range indices {
		v := t.get(i)
		if v == binary.NativeEndian.Uint32(t.shadow[i:]) {
			continue
		}
		if t.soon = now.Add(soonFor); !found { // the host stored the queue's entry before the index, so the chip must get the entry first
			t.take(now, c, firmware.QueueBase, queuesEnd)
			found = true
		}
		t.tell(now, c, i, binary.NativeEndian.AppendUint32(nil, v))
	}
	if now.Before(t.whole) {
		return found
	}
	t.whole = now.Add(lookWhole)
	found = t.take(now, c, 0, len(t.mem)) || found
	t.refresh(c)
	return found
}

// take hands to the chip the bytes that hosts have stored between the offsets "from" and "to",
// without the indices.
func (t *mappedTile) take(now mono.Time, c *chip.Chip, from, to int) (found bool) {
	for page := from; page < to; page += lookPage {
		end := min(page+lookPage, to)
		if bytes.Equal(t.mem[page:end], t.shadow[page:end]) {
			continue
		}
		for off := page; off < end; off += wire.RegisterLen {
			var run []byte
			for first := off; first+len(run) < end && !slices.Contains(indices[:], first+len(run)); off += wire.RegisterLen {
				v := t.get(first + len(run))
				if v == binary.NativeEndian.Uint32(t.shadow[first+len(run):]) {
					break
				}
				run = binary.NativeEndian.AppendUint32(run, v)
			}
			if len(run) > 0 {
				t.tell(now, c, off-len(run), run)
				found = true
			}
		}
	}
	return found
}

// tell hands bytes that a host has stored to the chip. If the chip has no room for the bytes, the
// bytes are lost. A host cannot change some words of the L1, such as the version of the firmware.
// For these words, tell restores the mapped bytes.
func (t *mappedTile) tell(now mono.Time, c *chip.Chip, off int, b []byte) {
	copy(t.shadow[off:], b)
	_ = c.HandleStore(now, t.ch, uint64(off), b)
	for i := 0; i < len(b); i += wire.RegisterLen {
		if !bytes.Equal(t.shadow[off+i:][:wire.RegisterLen], b[i:][:wire.RegisterLen]) {
			t.put(off + i)
		}
	}
}

// refresh copies to the mapped bytes the words that change without a store, such as the heartbeat.
func (t *mappedTile) refresh(c *chip.Chip) {
	now := make([]byte, len(t.mem))
	c.Memory().Read(t.addr, now)
	for page := 0; page < len(now); page += lookPage {
		if bytes.Equal(now[page:page+lookPage], t.shadow[page:page+lookPage]) {
			continue
		}
		for off := page; off < page+lookPage; off += wire.RegisterLen {
			if !bytes.Equal(now[off:off+wire.RegisterLen], t.shadow[off:off+wire.RegisterLen]) {
				copy(t.shadow[off:off+wire.RegisterLen], now[off:])
				t.put(off)
			}
		}
	}
}
