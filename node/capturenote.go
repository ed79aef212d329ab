package node

import (
	"fmt"

	"ttfabric/node/chip"
	"ttfabric/ttlink"
	"ttfabric/ttlink/fault"
)

// A capture shows an event at a port as a comment on the port's next datagram, because no datagram
// belongs to the event itself.

// noteEvent gives captures a note about a link, or about a packet that was dropped or cannot move,
// at one of the chip's ports. Other events get no note. The caller holds the node's lock.
func (n *Node) noteEvent(e *chip.Event) {
	text := ""
	switch l := &e.Link; {
	case e.Drop != 0:
		text = fmt.Sprintf("router dropped %d packets of %s to %s: %s", e.Count, e.Src, e.Dst, e.Drop)
	case e.Stuck != nil:
		text = fmt.Sprintf("packet of %s to %s cannot move on virtual channel %s", e.Src, e.Dst, e.Stuck.VC)
	case e.Tables != nil || e.Port != nil || e.Kernel != nil || e.Firmware != nil:
		return
	case l.Kind == ttlink.EventDown:
		text = fmt.Sprintf("link down: %s", l.Reason)
	case l.Kind == ttlink.EventUp || l.Kind == ttlink.EventSessionStarted:
		text = fmt.Sprintf("link %s: session %08x", l.Kind, uint32(l.Session))
	case l.Kind == ttlink.EventSessionEnded:
		unknown := 0
		for _, n := range l.Unknown {
			unknown += n
		}
		text = fmt.Sprintf("link session ended: %08x, %d packets of unknown fate", uint32(l.Session), unknown)
	case l.Kind == ttlink.EventPath && l.Path != ttlink.Own:
		text = fmt.Sprintf("the link's frames go by the cable of channel %d from now on", l.Path.Channel())
	case l.Kind == ttlink.EventPath:
		text = "the link's frames go by its own cable from now on"
	case l.Kind == ttlink.EventNarrow || l.Kind == ttlink.EventWide:
		text = l.SizeReport()
	default:
		text = fmt.Sprintf("link %s", l.Kind)
	}
	n.note(e.Local.Channel, text)
}

// noteFault gives captures a note that the fault injected at a port has changed. The caller holds
// the node's lock.
func (n *Node) noteFault(p *livePort, e *FaultEvent, o fault.Options) {
	if len(p.captures) == 0 {
		return
	}
	text := fmt.Sprintf("injected fault %s", e.Kind)
	if o != (fault.Options{}) {
		text += ": " + o.String()
	}
	n.note(p.ch, text)
}
