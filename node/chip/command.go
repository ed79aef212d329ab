package chip

import (
	"fmt"

	"ttfabric/router"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// PortEvent is a command or a flush that a port has carried out.
type PortEvent struct {
	Command router.Command
	Flush   bool         // true: the port was flushed, and Command has no meaning
	Was     router.State // state before the command
	State   router.State // state after the command
	Flushed int          // number of packets that a flush dropped
}

// Action returns a word for what the port did, for example "paused".
func (e *PortEvent) Action() string {
	switch {
	case e.Flush:
		return "flushed"
	case e.Command == router.CommandPause:
		return "paused"
	case e.Command == router.CommandDrain:
		return "draining"
	case e.Command == router.CommandRetrain:
		return "retraining"
	case e.Command == router.CommandRaw:
		return "in compliance mode"
	case e.Command == router.CommandTTLink:
		return "in TT-link mode"
	}
	return "resumed"
}

// Command orders a port to run, pause, drain or retrain, or changes the mode of the port. If the port
// already has this mode, or already runs, pauses or drains as ordered, Command does nothing. A port
// always carries out an order to retrain.
func (c *machine) Command(now mono.Time, ch wire.Channel, cmd router.Command) error {
	i := c.ports.index(ch)
	switch {
	case i < 0:
		return fmt.Errorf("chip %s has no cable at channel %d", c.cfg.Node, ch)
	case !cmd.Valid():
		return fmt.Errorf("router command %d: want 0 (run), 1 (pause), 3 (drain), 4 (retrain), 64 (raw) or 65 (ttlink)", uint32(cmd))
	}
	e := &PortEvent{Command: cmd, Was: c.router.State(i)}
	if cmd == router.CommandRetrain {
		if p := &c.ports.list[i]; p.raw.on {
			return fmt.Errorf("chip %s channel %d: the port is in compliance mode, and has no link to train; 'router ttlink' ends this mode", c.cfg.Node, ch)
		} else if !p.link.Retrain(now) {
			return fmt.Errorf("chip %s channel %d: the link is %s and has no path to train on; does chip %s run?", c.cfg.Node, ch, p.link.Status().State, p.Peer.Node)
		}
	}
	if cmd.OfChip() {
		if !c.setRaw(now, i, cmd == router.CommandRaw) {
			return nil // the port is already in this mode
		}
	} else if !c.router.Order(now, i, cmd) && cmd != router.CommandRetrain {
		return nil // the port is already in this state
	}
	c.tell(now, i, e)
	c.linkEvents(now, i)
	e.State = c.router.State(i)
	return nil
}

// Flush drops the packets that wait in the sender channels of a port, and returns their
// number.
func (c *machine) Flush(now mono.Time, ch wire.Channel) (int, error) {
	i := c.ports.index(ch)
	if i < 0 {
		return 0, fmt.Errorf("chip %s has no cable at channel %d", c.cfg.Node, ch)
	}
	e := &PortEvent{Flush: true, Was: c.router.State(i), State: c.router.State(i), Flushed: c.router.Flush(i)}
	c.tell(now, i, e)
	c.abandon(now)
	return e.Flushed, nil
}

// tell adds an event for a command or a flush that port i carries out.
func (c *machine) tell(now mono.Time, i int, e *PortEvent) {
	c.events.add(Event{At: now, Local: c.ports.list[i].Local, Peer: c.ports.list[i].Peer, Port: e})
}
