package node

import (
	"errors"
	"fmt"

	"ttfabric/router"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// Command makes the router run, pause or drain the ports with the given channels, or trains the
// ports' links anew; see [chip.Chip.Command]. If the command fails at one port, Command still
// applies the command to the remaining ports. Command returns the errors of all ports.
func (n *Node) Command(channels []wire.Channel, cmd router.Command) error {
	var errs []error
	closed := n.order(func(now mono.Time) {
		for _, ch := range channels {
			errs = append(errs, n.chip.Command(now, ch, cmd))
		}
	})
	return errors.Join(append(errs, closed)...)
}

// Flush drops the packets that wait to leave by the ports with the given channels. Flush returns
// the number of dropped packets for each port at which the flush succeeded, and the errors of the
// other ports.
func (n *Node) Flush(channels []wire.Channel) (flushed map[wire.Channel]int, err error) {
	flushed = map[wire.Channel]int{}
	var errs []error
	closed := n.order(func(now mono.Time) {
		for _, ch := range channels {
			k, err := n.chip.Flush(now, ch)
			if errs = append(errs, err); err == nil {
				flushed[ch] = k
			}
		}
	})
	return flushed, errors.Join(append(errs, closed)...)
}

// order runs f on the chip. If the node has been closed, order returns an error that wraps
// ErrClosed.
func (n *Node) order(f func(now mono.Time)) error {
	done := false
	n.step(asked, func(now mono.Time) { f(now); done = true })
	if !done {
		return fmt.Errorf("chip %s: %w", n.cfg.Node, ErrClosed)
	}
	return nil
}
