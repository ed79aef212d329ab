package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// SendType is a NoC command. In JSON, SendType is a name, such as "write".
type SendType wire.NocSendType

// Fate says how a request ended. In JSON, Fate is a name, such as "done".
type Fate flow.Fate

// Outcome says why the destination refused a request. In JSON, Outcome is a name, such as
// "misaligned".
type Outcome wire.Outcome

// DropReason says why a router dropped a packet. In JSON, DropReason is a name, such as
// "next-hop-dead".
type DropReason wire.DropReason

// Doubt says why the source does not know whether a request was performed. In JSON, Doubt is a
// name, such as "no-answer".
type Doubt flow.Doubt

// name is a value of an enumeration, and the value's name in JSON.
type name struct {
	value uint8
	word  string
}

// names are the values of one enumeration, with their names in JSON.
type names struct {
	of  string // what error messages call the enumeration
	all []name
}

// The names of each enumeration. A name must never change, because programs outside this project
// compare the names.
var (
	sendTypeNames = names{"NoC command", []name{
		{uint8(wire.NocUnicastWrite), "write"}, {uint8(wire.NocInlineWrite), "inline-write"}, {uint8(wire.NocAtomicInc), "atomic-inc"},
		{uint8(wire.NocFusedInc), "fused-write-inc"}, {uint8(wire.NocScatterWrite), "scatter-write"},
		{uint8(wire.NocMulticastWrite), "noc-multicast-write"}, {uint8(wire.NocMulticastInc), "noc-multicast-inc"}, {uint8(wire.NocRead), "read"},
		{uint8(wire.NocNone), "none"},
	}}
	fateNames = names{"fate", []name{
		{uint8(flow.FateDone), "done"}, {uint8(flow.FateRefused), "refused"}, {uint8(flow.FateLost), "lost"}, {uint8(flow.FateUnknown), "unknown"},
		{uint8(flow.FatePosted), "posted"},
	}}
	outcomeNames = names{"outcome", []name{
		{uint8(wire.OutcomeDone), "done"}, {uint8(wire.OutcomeBadAddress), "bad-address"}, {uint8(wire.OutcomeMisaligned), "misaligned"},
		{uint8(wire.OutcomeBadCommand), "bad-command"}, {uint8(wire.OutcomeAgain), "again"}, {uint8(wire.OutcomeLost), "lost"},
		{uint8(wire.OutcomeRestarted), "destination-restarted"}, {uint8(wire.OutcomeOverflow), "too-many-exceptions"},
		{uint8(wire.OutcomeNoMemory), "out-of-memory"}, {uint8(wire.OutcomeUnknownFlow), "flow-unknown"},
		{uint8(wire.OutcomeHarvested), "harvested-tile"}, {uint8(wire.OutcomeUntranslated), "untranslated-coordinates"},
		{uint8(wire.OutcomeNoHost), "no-host-memory"}, {uint8(wire.OutcomeHostGone), "host-gone"},
	}}
	dropNames = names{"drop reason", []name{
		{0, "none"}, {uint8(wire.DropNextHopDead), "next-hop-dead"}, {uint8(wire.DropTTL), "ttl-expired"}, {uint8(wire.DropNoRoute), "no-route"},
		{uint8(wire.DropMalformed), "malformed"}, {uint8(wire.DropTimeout), "timeout"}, {uint8(wire.DropUnreachable), "unreachable"},
		{uint8(wire.DropTables), "tables-replaced"}, {uint8(wire.DropDrained), "drained"}, {uint8(wire.DropFlushed), "flushed"},
	}}
	doubtNames = names{"doubt", []name{
		{uint8(flow.DoubtNone), "none"}, {uint8(flow.DoubtRestarted), "destination-restarted"}, {uint8(flow.DoubtRouteDead), "route-died"},
		{uint8(flow.DoubtTimeout), "no-answer"}, {uint8(flow.DoubtUnreachable), "unreachable"}, {uint8(flow.DoubtOlder), "taken-for-former"},
		{uint8(flow.DoubtLate), "not-seen"}, {uint8(flow.DoubtData), "data-lost"}, {uint8(flow.DoubtHost), "host-gone"},
	}}
)

func (n *names) words() (all []string) {
	for _, x := range n.all {
		all = append(all, x.word)
	}
	return all
}

// write returns the name of the value v. If v has no name, write returns an error.
func (n *names) write(v uint8) ([]byte, error) {
	k := slices.IndexFunc(n.all, func(x name) bool { return x.value == v })
	if k < 0 {
		return nil, fmt.Errorf("%s %d has no name", n.of, v)
	}
	return []byte(n.all[k].word), nil
}

// read returns the value of a name in JSON. read also accepts the value's number, because clients
// of an earlier version of the API send numbers.
func (n *names) read(b []byte) (uint8, error) {
	var word string
	var number uint8
	known := func(x name) bool { return x.word == word }
	if json.Unmarshal(b, &number) == nil && string(b) != "null" {
		known = func(x name) bool { return x.value == number }
	} else if err := json.Unmarshal(b, &word); err != nil {
		return 0, fmt.Errorf("%s %s: want one of %s", n.of, b, strings.Join(n.words(), ", "))
	}
	k := slices.IndexFunc(n.all, known)
	if k < 0 {
		return 0, fmt.Errorf("%s %s: want one of %s", n.of, b, strings.Join(n.words(), ", "))
	}
	return n.all[k].value, nil
}

// readInto reads a name or a number from JSON, and stores the value in v.
func readInto[T ~uint8](n *names, b []byte, v *T) error {
	got, err := n.read(b)
	if err == nil {
		*v = T(got)
	}
	return err
}

// Names returns the names that a value of the type may have in JSON.
func (SendType) Names() []string { return sendTypeNames.words() }

// MarshalText returns the command's name.
func (t SendType) MarshalText() ([]byte, error) { return sendTypeNames.write(uint8(t)) }

// UnmarshalJSON reads the command's name or number ([wire.NocSendType]).
func (t *SendType) UnmarshalJSON(b []byte) error { return readInto(&sendTypeNames, b, t) }

// Names returns the names that a value of the type may have in JSON.
func (Fate) Names() []string { return fateNames.words() }

// MarshalText returns the fate's name.
func (f Fate) MarshalText() ([]byte, error) { return fateNames.write(uint8(f)) }

// UnmarshalJSON reads the fate's name or number ([flow.Fate]).
func (f *Fate) UnmarshalJSON(b []byte) error { return readInto(&fateNames, b, f) }

// Names returns the names that a value of the type may have in JSON.
func (Outcome) Names() []string { return outcomeNames.words() }

// MarshalText returns the outcome's name.
func (o Outcome) MarshalText() ([]byte, error) { return outcomeNames.write(uint8(o)) }

// UnmarshalJSON reads the outcome's name or number ([wire.Outcome]).
func (o *Outcome) UnmarshalJSON(b []byte) error { return readInto(&outcomeNames, b, o) }

// Names returns the names that a value of the type may have in JSON.
func (DropReason) Names() []string { return dropNames.words() }

// MarshalText returns the reason's name.
func (r DropReason) MarshalText() ([]byte, error) { return dropNames.write(uint8(r)) }

// UnmarshalJSON reads the reason's name or number ([wire.DropReason]).
func (r *DropReason) UnmarshalJSON(b []byte) error { return readInto(&dropNames, b, r) }

// Names returns the names that a value of the type may have in JSON.
func (Doubt) Names() []string { return doubtNames.words() }

// MarshalText returns the doubt's name.
func (d Doubt) MarshalText() ([]byte, error) { return doubtNames.write(uint8(d)) }

// UnmarshalJSON reads the doubt's name or number ([flow.Doubt]).
func (d *Doubt) UnmarshalJSON(b []byte) error { return readInto(&doubtNames, b, d) }
