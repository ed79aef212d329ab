package ttlink

import (
	"bytes"
	"testing"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

func complianceEnds(t *testing.T) (a, b *Compliance) {
	t.Helper()
	a, err := NewCompliance(portA, portB, 1500)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = NewCompliance(portB, portA, 1500); err != nil {
		t.Fatal(err)
	}
	a.SetPath(true)
	b.SetPath(true)
	return a, b
}

// TestComplianceCarries checks that payloads arrive unchanged in the receive buffer (Spec §2.1).
func TestComplianceCarries(t *testing.T) {
	a, b := complianceEnds(t)
	for n := 1; n <= 1500; n += 37 {
		want := bytes.Repeat([]byte{byte(n)}, n)
		if !a.Send(want) {
			t.Fatalf("Send refuses a payload of %d bytes", n)
		}
		x, ok := a.PollTransmit()
		if !ok || len(x.Data) != x.Seg {
			t.Fatal("nothing to send")
		}
		b.HandleDatagram(x.Data)
		if got, ok := b.Read(); !ok || !bytes.Equal(got, want) {
			t.Fatalf("a payload of %d bytes arrived with %d bytes, or changed", n, len(got))
		}
	}
	if _, ok := b.Read(); ok {
		t.Error("more payloads arrived than were sent")
	}
}

// TestComplianceRepairsNothing checks that compliance mode drops damaged frames, and does not send
// lost frames again.
func TestComplianceRepairsNothing(t *testing.T) {
	a, b := complianceEnds(t)
	m, err := fault.New(1, fault.Options{Loss: 0.2, Corrupt: 0.2, Duplicate: 0.2})
	if err != nil {
		t.Fatal(err)
	}
	got, whole := 0, 0 // whole: frames that came unchanged; two flips of one bit change nothing
	for n := range 2000 {
		a.Send([]byte{byte(n), byte(n >> 8), 3})
		x, _ := a.PollTransmit()
		for _, o := range m.Apply(mono.Time(n), x.Data) {
			if bytes.Equal(o.Data, x.Data) {
				whole++
			}
			b.HandleDatagram(o.Data)
			if p, ok := b.Read(); ok {
				if len(p) != 3 || p[2] != 3 {
					t.Fatalf("damaged payload %x", p)
				}
				got++
			}
		}
	}
	c, did := b.Counters(), m.Counts()
	if did.Lost == 0 || did.Corrupted == 0 || got != whole || c.Received != uint64(got) {
		t.Errorf("%d read; %+v; %+v", got, c, did)
	}
	if _, ok := a.PollTransmit(); ok {
		t.Error("a frame is sent again")
	}
}

func TestComplianceBuffersAreBounded(t *testing.T) {
	a, b := complianceEnds(t)
	for n := range ComplianceBuffer {
		if !a.Send([]byte{byte(n)}) {
			t.Fatalf("Send refuses payload %d", n)
		}
	}
	if a.Send([]byte{1}) {
		t.Error("Send accepts more payloads than the queue holds")
	}
	for x, ok := a.PollTransmit(); ok; x, ok = a.PollTransmit() {
		b.HandleDatagram(x.Data)
	}
	a.Send([]byte{99})
	x, _ := a.PollTransmit()
	b.HandleDatagram(x.Data)
	if c := b.Counters(); c.Overflows != 1 || c.Received != ComplianceBuffer {
		t.Errorf("%+v", c)
	}
	for n := range ComplianceBuffer {
		if p, ok := b.Read(); !ok || len(p) != 1 || p[0] != byte(n) {
			t.Fatalf("payload %d read as %x", n, p)
		}
	}
}

// TestComplianceRefuses checks that each mode drops the frames of the other mode, and that no frame
// is accepted while the path is off.
func TestComplianceRefuses(t *testing.T) {
	a, b := complianceEnds(t)
	w := upWorld(t, 1, nil)
	link := w.ends[1].link
	a.Send(bytes.Repeat([]byte("raw"), 9))
	raw, _ := a.PollTransmit()
	before := stateOf(link)
	if _, ok := link.HandleDatagram(w.now, raw.Data); ok || stateOf(link) != before || link.Counters().Faults[wire.FaultVersion] != 1 {
		t.Error("a link accepted a frame of compliance mode")
	}
	hello := helloFrame(wire.Hello{From: portA, Expected: portB, MaxPayload: 96, Incarnation: 7, Slots: [wire.NumVCs]uint16{1, 1, 1}}, 0, portB.Channel)
	b.HandleDatagram(hello)
	b.HandleDatagram([]byte("garbage"))
	b.HandleDatagram(wire.AppendRaw(nil, portB.Channel+1, []byte{1}))
	b.SetPath(false)
	b.HandleDatagram(raw.Data)
	faults := uint64(0)
	for _, n := range b.Counters().Faults {
		faults += n
	}
	if c := b.Counters(); c.OtherMode != 1 || c.WrongChannel != 1 || c.Off != 1 || faults != 1 || c.Received != 0 {
		t.Errorf("%+v", c)
	}
	if b.Send([]byte{1}) || a.Send(nil) || a.Send(make([]byte, 1501)) {
		t.Error("Send accepts a payload while the path is off, or a payload of a bad size")
	}
	for _, c := range []struct {
		local, peer wire.PortID
		max         int
	}{{portA, portA, 100}, {portA, wire.PortID{Channel: 16}, 100}, {portA, portB, 0}, {portA, portB, wire.MaxRaw + 1}} {
		if _, err := NewCompliance(c.local, c.peer, c.max); err == nil {
			t.Errorf("%+v: taken", c)
		}
	}
}
