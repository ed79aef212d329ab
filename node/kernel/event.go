package kernel

import (
	"fmt"

	"ttfabric/wire"
)

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of events.
const (
	JobStarted   EventKind = iota + 1 // the chip's part of a job has started
	JobEnded                          // the chip's part of a job has ended; End says why
	Violated                          // a kernel broke a rule of the data movement API; Violation says which
	StopIgnored                       // a kernel recovered from being stopped, and returned without passing the panic on
	KernelPrints                      // a kernel printed a line
)

// Event is something that happened to a job or a kernel.
type Event struct {
	Kind      EventKind `json:"kind"`
	Job       JobID     `json:"job"`
	Name      string    `json:"name,omitempty"`   // name of the job
	Kernel    string    `json:"kernel,omitempty"` // name and tile of the kernel, as "name@x-y"
	End       End       `json:"end,omitzero"`
	Violation Violation `json:"violation,omitzero"`
	Text      string    `json:"text,omitempty"` // for KernelPrints: the line

	Chips    []wire.FabricNodeID `json:"-"` // for JobEnded: all chips of the job
	Channels []wire.Channel      `json:"-"` // for JobEnded: links of this chip that the job used
}

// String returns the event as a sentence.
func (e *Event) String() string {
	name := fmt.Sprintf("job %d", e.Job)
	if e.Name != "" {
		name += " (" + e.Name + ")"
	}
	switch e.Kind {
	case JobStarted:
		return name + " started"
	case JobEnded:
		s := fmt.Sprintf("%s ended: %s", name, e.End.Why)
		if e.End.Why != EndDone {
			s += fmt.Sprintf(", first at chip %s", e.End.By)
		}
		if e.End.Kernel != "" {
			s += ", kernel " + e.End.Kernel
		}
		if e.End.Text != "" {
			s += ": " + e.End.Text
		}
		return s
	case Violated:
		if e.Kernel == "" {
			return fmt.Sprintf("%s: %s", name, e.Violation.String())
		}
		return fmt.Sprintf("%s, kernel %s: %s", name, e.Kernel, e.Violation.String())
	case StopIgnored:
		return fmt.Sprintf("%s, kernel %s recovered from being stopped; a kernel must pass on a panic that it did not raise", name, e.Kernel)
	}
	return fmt.Sprintf("%s, kernel %s: %s", name, e.Kernel, e.Text)
}

// tell adds an event. The starts and ends of jobs always find room: a job has one of each.
func (m *Machine) tell(e Event) {
	if len(m.events) >= MaxEvents && e.Kind != JobStarted && e.Kind != JobEnded {
		m.dropped++
		return
	}
	m.events = append(m.events, e)
}

// PollEvent returns the oldest event that waits.
func (m *Machine) PollEvent() (Event, bool) {
	if len(m.events) == 0 {
		return Event{}, false
	}
	e := m.events[0]
	m.events = m.events[1:]
	return e, true
}

// Rule is a rule of the data movement API that a kernel can break.
type Rule uint8

// The rules.
const (
	NocSource   Rule = iota + 1 // a source was overwritten before its NoC command read the source
	EthSource                   // a source was overwritten before the other end acknowledged the command of a transaction command queue (CCL guide, "Ethernet Transaction Command Queues")
	ForeignL1                   // somebody outside of the job wrote into L1 that belongs to the job (CCL guide, "Asynchronous Program Start")
	Outstanding                 // a kernel ended while its channel waits for the receiver (CCL guide, "Ethernet Kernel Teardown")
	SyncFirst                   // a channel's word said that bytes came, before the bytes were sent (CCL guide, "End-to-End Flow Control": the word comes last)
)

// String returns the rule in words.
func (r Rule) String() string {
	names := [...]string{"unknown rule", "the source of a NoC command was overwritten before the command read the source",
		"the source of an ethernet command was overwritten before the other end acknowledged the command",
		"L1 of the job was written from outside of the job", "the kernel ended while the receiver still has to complete a transfer",
		"the payload was sent while the channel's word already says that bytes came"}
	if int(r) >= len(names) {
		return names[0]
	}
	return names[r]
}

// Violation says which rule a kernel broke, and where.
type Violation struct {
	Rule    Rule              `json:"rule"`
	Tile    Tile              `json:"tile"`
	Addr    uint32            `json:"addr"`              // first byte of the range, in the tile
	Size    uint32            `json:"size"`              // length of the range in bytes
	Command string            `json:"command,omitempty"` // the command that the kernel disturbed; for ForeignL1: the command that wrote
	From    wire.FabricNodeID `json:"from"`              // for ForeignL1: the chip that wrote
}

// String returns the violation as a sentence.
func (v *Violation) String() string {
	s := fmt.Sprintf("%s: %d bytes at 0x%x of tile %s", v.Rule, v.Size, v.Addr, v.Tile)
	if v.Command != "" {
		s += ", " + v.Command
	}
	if v.Rule == ForeignL1 {
		s += " of chip " + v.From.String()
	}
	return s
}

// violated reports a violation that concerns job j. The argument "kernel" names the kernel of j
// that broke the rule; "": another job broke it. A job reports at most [MaxViews] violations.
func (m *Machine) violated(j *job, kernel string, v Violation) {
	if j.seen++; j.seen <= MaxViews {
		m.tell(Event{Kind: Violated, Job: j.spec.ID, Name: j.spec.Name, Kernel: kernel, Violation: v})
	}
}
