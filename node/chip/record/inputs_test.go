package record_test

import (
	"reflect"
	"slices"
	"testing"

	"ttfabric/node/chip"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// readOnly are the methods of a chip that change nothing in it: a recording
// need not know of them.
var readOnly = map[string]string{
	"Node": "", "Incarnation": "", "Channels": "", "Status": "", "LinksUp": "", "Quiet": "", "Open": "", "Sightings": "",
	"CheckInvariants": "", "Intact": "", "Account": "", "Ends": "", "Moment": "", "Carries": "", "Up": "", "LinkState": "", "Plan": "", "Unreachable": "", "CheckMulticast": "",
	"Memory": "whoever changes a chip's memory from outside breaks the recording",
	"SetTap": "is the tap",
}

// heard is a tap that notes which calls it hears of.
type heard struct{ ops []chip.Op }

func (h *heard) add(o chip.Op) { h.ops = append(h.ops, o) }

func (h *heard) Call(o chip.Op, _ mono.Time, _ wire.Channel, _ int, _ []byte) { h.add(o) }
func (h *heard) Request(mono.Time, chip.Request)                              { h.add(chip.OpHandleRequest) }
func (h *heard) Admission(chip.Admission)                                     {}
func (h *heard) Size(error)                                                   {}
func (h *heard) Transmit(mono.Time, wire.Channel, ttlink.Transmit, bool)      { h.add(chip.OpPollTransmit) }
func (h *heard) Result(chip.Result, bool)                                     { h.add(chip.OpPollResult) }
func (h *heard) Event(chip.Event, bool)                                       { h.add(chip.OpPollEvent) }
func (h *heard) Deadline(mono.Time, bool)                                     {}
func (h *heard) Client(c chip.Client) chip.Client                             { return c }

// TestEveryInputIsRecorded finds methods of a chip that a recording would not know of.
func TestEveryInputIsRecorded(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	c, err := chip.New(0, chip.Config{Node: m.Chips[0].Node, Incarnation: 1, Topology: m, MaxPayload: 1024})
	if err != nil {
		t.Fatal(err)
	}
	h := &heard{}
	c.SetTap(h)
	ops := map[string]chip.Op{}
	for o := chip.Op(1); o < chip.NumOps; o++ {
		ops[o.String()] = o
	}
	v := reflect.ValueOf(c)
	for i := range v.NumMethod() {
		name, f := v.Type().Method(i).Name, v.Method(i)
		if _, ok := readOnly[name]; ok {
			continue
		}
		op, ok := ops[name]
		if !ok {
			t.Errorf("chip.Chip.%s is neither recorded nor known to change nothing, so that recordings of live chips would no longer replay. "+
				"If it changes the chip: give it an Op in node/chip/tap.go, call the chip's tap in it, and teach package record the call "+
				"(encoder.call, decoder.call, replayer.call, and the table of kinds in doc.go). If it only reads: name it in readOnly in this test.", name)
			continue
		}
		delete(ops, name)
		h.ops = nil
		args := make([]reflect.Value, f.Type().NumIn())
		for k := range args {
			args[k] = reflect.Zero(f.Type().In(k))
		}
		f.Call(args)
		if !slices.Contains(h.ops, op) {
			t.Errorf("chip.Chip.%s does not tell the chip's tap of the call; it heard %v", name, h.ops)
		}
	}
	for name := range ops {
		t.Errorf("chip.Op %s is no method of chip.Chip", name)
	}
}

// TestFieldsAreKnown fails where a struct that a recording holds in binary
// form has got a field that the form doesn't have.
func TestFieldsAreKnown(t *testing.T) {
	for _, c := range []struct {
		of     any
		fields []string
	}{
		{chip.Request{}, []string{"Token", "Dst", "Plane", "Probe", "Command", "Payload", "Trace", "Via", "Ranges", "Other"}},
		{chip.Result{}, []string{"Token", "Dst", "Fate", "Outcome", "Drop", "At", "Doubt", "Data", "Err", "Members", "Sent", "Done"}},
		{wire.Command{}, []string{"Type", "Addr", "Sem", "Value", "Flush", "Size", "Chunks", "Scatter", "Sizes"}},
		{wire.Ranges{}, []string{"Hops", "Skip"}},
		{ttlink.Transmit{}, []string{"Data", "Seg", "Path"}},
	} {
		tt := reflect.TypeOf(c.of)
		for i := range tt.NumField() {
			if name := tt.Field(i).Name; !slices.Contains(c.fields, name) {
				t.Errorf("%s.%s is not in recordings: add it to encode.go, decode.go and doc.go of package record, with a new version of the format, and name it here", tt, name)
			}
		}
	}
}
