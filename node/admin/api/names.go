package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// SendType is a NoC command in the API: a word in JSON, such as "write".
type SendType wire.NocSendType

// Fate says how a request ended; in JSON it is a word, such as "done".
type Fate flow.Fate

// Outcome says why the destination refused a request; in JSON it is a word, such as "misaligned".
type Outcome wire.Outcome

// DropReason says why a router dropped a packet; in JSON it is a word, such as "next-hop-dead".
type DropReason wire.DropReason

// Doubt says why nobody knows whether a request was performed; in JSON it is a word, such as "no-answer".
type Doubt flow.Doubt

// name is a value and the word that stands for this value in JSON.
type name struct {
	value uint8
	word  string
}

// names are the words of one enumeration.
type names struct {
	of  string // noun for the enumeration in error messages
	all []name
}

// The words of each enumeration. An existing word must never change, because programs
// compare these words.
var (
	sendTypeNames = names{"NoC command", []name{
		{uint8(wire.NocUnicastWrite), "write"}, {uint8(wire.NocInlineWrite), "inline-write"}, {uint8(wire.NocAtomicInc), "atomic-inc"},
		{uint8(wire.NocFusedInc), "fused-write-inc"}, {uint8(wire.NocScatterWrite), "scatter-write"}, {uint8(wire.NocRead), "read"},
		{uint8(wire.NocNone), "none"},
	}}
	fateNames = names{"fate", []name{
		{uint8(flow.FateDone), "done"}, {uint8(flow.FateRefused), "refused"}, {uint8(flow.FateLost), "lost"}, {uint8(flow.FateUnknown), "unknown"},
	}}
	outcomeNames = names{"outcome", []name{
		{uint8(wire.OutcomeDone), "done"}, {uint8(wire.OutcomeBadAddress), "bad-address"}, {uint8(wire.OutcomeMisaligned), "misaligned"},
		{uint8(wire.OutcomeBadCommand), "bad-command"}, {uint8(wire.OutcomeAgain), "again"}, {uint8(wire.OutcomeLost), "lost"},
		{uint8(wire.OutcomeRestarted), "destination-restarted"}, {uint8(wire.OutcomeOverflow), "too-many-exceptions"},
		{uint8(wire.OutcomeNoMemory), "out-of-memory"}, {uint8(wire.OutcomeUnknownFlow), "flow-unknown"},
	}}
	dropNames = names{"drop reason", []name{
		{0, "none"}, {uint8(wire.DropNextHopDead), "next-hop-dead"}, {uint8(wire.DropTTL), "ttl-expired"}, {uint8(wire.DropNoRoute), "no-route"},
		{uint8(wire.DropMalformed), "malformed"}, {uint8(wire.DropTimeout), "timeout"}, {uint8(wire.DropUnreachable), "unreachable"},
		{uint8(wire.DropTables), "tables-replaced"}, {uint8(wire.DropDrained), "drained"}, {uint8(wire.DropFlushed), "flushed"},
	}}
	doubtNames = names{"doubt", []name{
		{uint8(flow.DoubtNone), "none"}, {uint8(flow.DoubtRestarted), "destination-restarted"}, {uint8(flow.DoubtRouteDead), "route-died"},
		{uint8(flow.DoubtTimeout), "no-answer"}, {uint8(flow.DoubtUnreachable), "unreachable"}, {uint8(flow.DoubtOlder), "taken-for-former"},
		{uint8(flow.DoubtLate), "not-seen"},
	}}
)

func (n *names) words() (all []string) {
	for _, x := range n.all {
		all = append(all, x.word)
	}
	return all
}

// write returns the word of a value in JSON. write returns an error for a value without
// a word.
func (n *names) write(v uint8) ([]byte, error) {
	k := slices.IndexFunc(n.all, func(x name) bool { return x.value == v })
	if k < 0 {
		return nil, fmt.Errorf("%s %d has no name", n.of, v)
	}
	return []byte(n.all[k].word), nil
}

// read reads a word from JSON, or the number that the word stands for. An earlier
// version of this API used numbers instead of words.
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

// readInto reads a word, or a number, into v.
func readInto[T ~uint8](n *names, b []byte, v *T) error {
	got, err := n.read(b)
	if err == nil {
		*v = T(got)
	}
	return err
}

// Names lists the words of the type in JSON.
func (SendType) Names() []string { return sendTypeNames.words() }

// MarshalText writes the command's word.
func (t SendType) MarshalText() ([]byte, error) { return sendTypeNames.write(uint8(t)) }

// UnmarshalJSON reads the command's word, or its number ([wire.NocSendType]).
func (t *SendType) UnmarshalJSON(b []byte) error { return readInto(&sendTypeNames, b, t) }

// Names lists the words of the type in JSON.
func (Fate) Names() []string { return fateNames.words() }

// MarshalText writes the fate's word.
func (f Fate) MarshalText() ([]byte, error) { return fateNames.write(uint8(f)) }

// UnmarshalJSON reads the fate's word, or its number ([flow.Fate]).
func (f *Fate) UnmarshalJSON(b []byte) error { return readInto(&fateNames, b, f) }

// Names lists the words of the type in JSON.
func (Outcome) Names() []string { return outcomeNames.words() }

// MarshalText writes the outcome's word.
func (o Outcome) MarshalText() ([]byte, error) { return outcomeNames.write(uint8(o)) }

// UnmarshalJSON reads the outcome's word, or its number ([wire.Outcome]).
func (o *Outcome) UnmarshalJSON(b []byte) error { return readInto(&outcomeNames, b, o) }

// Names lists the words of the type in JSON.
func (DropReason) Names() []string { return dropNames.words() }

// MarshalText writes the reason's word.
func (r DropReason) MarshalText() ([]byte, error) { return dropNames.write(uint8(r)) }

// UnmarshalJSON reads the reason's word, or its number ([wire.DropReason]).
func (r *DropReason) UnmarshalJSON(b []byte) error { return readInto(&dropNames, b, r) }

// Names lists the words of the type in JSON.
func (Doubt) Names() []string { return doubtNames.words() }

// MarshalText writes the doubt's word.
func (d Doubt) MarshalText() ([]byte, error) { return doubtNames.write(uint8(d)) }

// UnmarshalJSON reads the doubt's word, or its number ([flow.Doubt]).
func (d *Doubt) UnmarshalJSON(b []byte) error { return readInto(&doubtNames, b, d) }
