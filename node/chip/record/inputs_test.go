package record_test

import (
	"encoding/binary"
	"reflect"
	"slices"
	"testing"

	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
	"ttfabric/node/firmware"
	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// readOnly lists the methods of a chip that a recorder does not record, because they do
// not change the chip. The value says why, if this is not obvious.
var readOnly = map[string]string{
	"Node": "", "Incarnation": "", "Channels": "", "Status": "", "StatusAt": "", "Waiting": "", "LinksUp": "", "Quiet": "", "Open": "", "Sightings": "",
	"CheckInvariants": "", "Jobs": "", "HasKernel": "", "Intact": "", "Account": "", "Ends": "", "Identity": "", "Moment": "", "Carries": "", "ShortOfCredits": "", "Up": "", "LinkState": "", "Plan": "", "Unreachable": "", "Silent": "", "CheckMulticast": "", "HostQueues": "", "HasTransfer": "",
	"Memory": "whoever changes a chip's memory from outside breaks the recording",
	"Wrap":   "installs the recorder", "Unwrap": "removes the recorder",
	"Save": "only reads", "Options": "only reads", "InFlight": "only reads",
	"CutState":    "only hands over the state that Mark has saved",
	"Restore":     "only for a simulator that loads a snapshot, before the first input",
	"ShareProofs": "only saves work: the result of a proof depends on the two tables alone",
}

// TestEveryInputIsRecorded calls each method of a chip, except the methods in readOnly.
// The test fails for a method that the recorder does not record.
func TestEveryInputIsRecorded(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	c, err := chip.New(0, chip.Config{Node: m.Chips[0].Node, Incarnation: 1, Topology: m, MaxPayload: 1024})
	if err != nil {
		t.Fatal(err)
	}
	var block []byte
	rec := record.NewRecorder(0, func(b []byte) ([]byte, error) {
		block = append(block, b...)
		return b[:0], nil
	})
	c.Wrap(rec.Wrap)
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
				"If it changes the chip: make it one of chip.Inputs with an Op of its name, in node/chip/inputs.go, and teach package record the call "+
				"(wrap.go, encoder.call, decoder.call, replayer.call, and the table of kinds in doc.go). If it only reads: name it in readOnly in this test.", name)
			continue
		}
		delete(ops, name)
		block = nil
		args := make([]reflect.Value, f.Type().NumIn())
		for k := range args {
			args[k] = reflect.Zero(f.Type().In(k))
		}
		f.Call(args)
		rec.Flush()
		if kinds := kindsOf(t, block); !slices.Contains(kinds, record.Kind(op)) {
			t.Errorf("chip.Chip.%s is not recorded: the recorder wrote %v", name, kinds)
		}
	}
	for name := range ops {
		t.Errorf("chip.Op %s is no method of chip.Chip", name)
	}
}

// kindsOf lists the kinds of the records in a block.
func kindsOf(t *testing.T, block []byte) (kinds []record.Kind) {
	t.Helper()
	for len(block) > 0 {
		n, k := binary.Uvarint(block)
		if k <= 0 || n == 0 || int(n) > len(block)-k {
			t.Fatalf("no whole record: %x", block)
		}
		kinds = append(kinds, record.Kind(block[k]))
		block = block[k+int(n):]
	}
	return kinds
}

// TestUnwrap removes the recorder while the chip runs. The recorder must record no
// further call, and the chip must still send.
func TestUnwrap(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	c, err := chip.New(0, chip.Config{Node: m.Chips[0].Node, Incarnation: 1, Topology: m, MaxPayload: 1024})
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	rec := record.NewRecorder(0, func(b []byte) ([]byte, error) {
		written += len(b)
		return b[:0], nil
	})
	c.Wrap(rec.Wrap)
	ch := c.Channels()[0].Local.Channel
	c.SetPath(1, ch, true)
	if rec.Flush(); written == 0 {
		t.Fatal("nothing was recorded")
	}
	written = 0
	c.Unwrap()
	c.Pump(2)
	_, _, sent := c.PollTransmit(2)
	if rec.Flush(); written != 0 || !sent {
		t.Errorf("%d bytes were recorded of a chip without a recorder; it sent a hello: %v", written, sent)
	}
}

// TestFieldsAreKnown fails if a recorded struct has a field that the binary form of
// recordings lacks.
func TestFieldsAreKnown(t *testing.T) {
	for _, c := range []struct {
		of     any
		fields []string
	}{
		{flow.Request{}, []string{"Token", "Dst", "Plane", "Probe", "Command", "Payload", "Trace", "Via", "Ranges", "Members", "Other", "Posted", "Flush",
			"Into"}}, // memory for results, which is no input
		{flow.Result{}, []string{"Token", "Dst", "Fate", "Outcome", "Drop", "At", "Doubt", "Data", "Err", "Members", "Missed", "Sent", "Done"}},
		{wire.Command{}, []string{"Type", "Addr", "Sem", "Value", "Flush", "Size", "Chunks", "Scatter", "Sizes"}},
		{wire.Ranges{}, []string{"Hops", "Skip"}},
		{firmware.Transfer{}, []string{"ID", "Write", "Addr", "Data", "Len"}},
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
