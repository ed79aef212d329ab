package chip

import (
	"fmt"

	"ttfabric/node/firmware/board"
	"ttfabric/router"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// host is what a host sees of the chip besides the chip's memory.
type host struct {
	board *board.Board // words that a host reads when it discovers the chip
	now   mono.Time    // time of the latest input that carries a time
}

// liveBoard implements [board.Live] for the chip.
type liveBoard machine

// Now returns the instant of the chip's present step.
func (l *liveBoard) Now() mono.Time { return l.host.now }

// Link returns the state and the counters of the link of a channel.
func (l *liveBoard) Link(ch wire.Channel) (ttlink.Status, ttlink.Counters, bool) {
	i := l.ports.index(ch)
	if i < 0 {
		return ttlink.Status{}, ttlink.Counters{}, false
	}
	k := l.ports.list[i].link
	return k.Status(), k.Counters(), true
}

// Works reports whether the base firmware of a channel's tile works.
func (l *liveBoard) Works(ch wire.Channel) bool { return (*firmwareHost)(l).Works(ch) }

// addBoard maps the words of the board into the chip's memory.
func (c *machine) addBoard(now mono.Time) error {
	c.host = host{board.New(c.cfg.Topology, c.cfg.Node, (*liveBoard)(c)), now}
	if err := c.host.board.Map(c.memory); err != nil {
		return fmt.Errorf("chip %s: %w", c.cfg.Node, err)
	}
	return nil
}

// Identity returns the names by which a host knows the chip.
func (c *machine) Identity() board.Identity { return c.host.board.Identity() }

// retrainAsked retrains the links for which a host has requested training, by a store to an
// ethernet tile. A link without a path to train on stays as it is. retrainAsked returns true if
// there was a request.
func (c *machine) retrainAsked(now mono.Time) bool {
	asked := c.host.board.TakeRetrains((*firmwareHost)(c).Works)
	for i := range c.ports.list {
		if ch := c.ports.list[i].Local.Channel; asked>>ch&1 != 0 {
			_ = c.Command(now, ch, router.CommandRetrain) // the only error is a link without a path
		}
	}
	return asked != 0
}
