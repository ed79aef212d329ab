package noc

import (
	"bytes"
	"testing"

	"ttfabric/wire"
)

// The life register can only be read, and only as a whole. The life register takes no
// page.
func TestLifeRegister(t *testing.T) {
	for _, arch := range []wire.Arch{wire.Wormhole, wire.Blackhole} {
		m, err := New(arch, 0)
		if err != nil {
			t.Fatal(err)
		}
		a, ok := LifeRegister(arch)
		if !ok {
			t.Fatal("no register")
		}
		m.SetLife(0x0807060504030201)
		b := make([]byte, LifeSize)
		if o := m.Read(a, b); o != wire.OutcomeDone || !bytes.Equal(b, []byte{1, 2, 3, 4, 5, 6, 7, 8}) || m.Check(a, LifeSize) != wire.OutcomeDone {
			t.Errorf("%s: read %x, %s", arch, b, o)
		}
		for _, o := range []wire.Outcome{m.Read(a, b[:4]), m.Read(a.Add(4), b[:4]),
			m.Check(a, 12), m.Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: a}, b)} {
			if o != wire.OutcomeBadAddress {
				t.Errorf("%s: %s, want %s", arch, o, wire.OutcomeBadAddress)
			}
		}
		if o := m.Execute(&wire.Command{Type: wire.NocAtomicInc, Addr: a, Value: 1}, nil); o != wire.OutcomeBadCommand {
			t.Errorf("%s: increment of the register: %s", arch, o)
		}
		if m.Resident() != 0 {
			t.Errorf("%s: %d bytes held", arch, m.Resident())
		}
	}
	if _, ok := LifeRegister(wire.ArchUnknown); ok {
		t.Error("a register of no architecture")
	}
}
