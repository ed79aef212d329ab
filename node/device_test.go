package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/node/session/device"
	"ttfabric/node/session/linear"
	"ttfabric/node/session/mesh"
	"ttfabric/wire"
)

// form is one way to send a command: at once, or by a prepared header.
type form struct {
	name  string
	write func(ls device.Links, data []byte, to wire.NocAddr) error
	word  func(ls device.Links, to wire.NocAddr, v uint32) error
	inc   func(ls device.Links, to wire.NocAddr, v uint32) error
	fused func(ls device.Links, data []byte, to, counter wire.NocAddr, v uint32) error
	parts func(ls device.Links, chunks []device.Chunk) error
}

// elsewhere is an address that no command may write, because the update replaces it.
var elsewhere = wire.NewNocAddr(1, 1, 0x8000)

// forms returns the forms of calls to one kind of destinations: each function of the device API with
// this destination, first at once, then by SetState and WithState.
func forms[T any](dst T, write func(device.Links, []byte, wire.NocAddr, ...T) error, writeSet func(device.Links, wire.NocAddr, ...T) error, writeWith func(device.Links, device.Update, []byte, wire.NocAddr) error,
	word func(device.Links, wire.NocAddr, uint32, ...T) error, wordSet func(device.Links, wire.NocAddr, uint32, ...T) error, wordWith func(device.Links, device.Update, wire.NocAddr, uint32) error,
	inc func(device.Links, wire.NocAddr, uint32, bool, ...T) error, incSet func(device.Links, wire.NocAddr, uint32, bool, ...T) error, incWith func(device.Links, device.Update, wire.NocAddr, uint32, bool) error,
	fused func(device.Links, []byte, wire.NocAddr, wire.NocAddr, uint32, bool, ...T) error, fusedSet func(device.Links, wire.NocAddr, wire.NocAddr, uint32, bool, ...T) error, fusedWith func(device.Links, device.Update, []byte, wire.NocAddr, wire.NocAddr, uint32, bool) error,
	parts func(device.Links, []device.Chunk, ...T) error, partsSet func(device.Links, []device.Chunk, ...T) error, partsWith func(device.Links, device.Update, []device.Chunk) error) []form {
	return []form{
		{"at once", func(ls device.Links, d []byte, to wire.NocAddr) error { return write(ls, d, to, dst) },
			func(ls device.Links, to wire.NocAddr, v uint32) error { return word(ls, to, v, dst) },
			func(ls device.Links, to wire.NocAddr, v uint32) error { return inc(ls, to, v, true, dst) },
			func(ls device.Links, d []byte, to, c wire.NocAddr, v uint32) error {
				return fused(ls, d, to, c, v, false, dst)
			},
			func(ls device.Links, k []device.Chunk) error { return parts(ls, k, dst) }},
		{"by a prepared header", func(ls device.Links, d []byte, to wire.NocAddr) error {
			return errors.Join(writeSet(ls, elsewhere, dst), writeWith(ls, device.DstAddr, d, to))
		}, func(ls device.Links, to wire.NocAddr, v uint32) error {
			return errors.Join(wordSet(ls, elsewhere, v, dst), wordWith(ls, device.DstAddr, to, v+1))
		}, func(ls device.Links, to wire.NocAddr, v uint32) error {
			return errors.Join(incSet(ls, to, v+1, false, dst), incWith(ls, device.Value|device.Flush, elsewhere, v, true))
		}, func(ls device.Links, d []byte, to, c wire.NocAddr, v uint32) error {
			return errors.Join(fusedSet(ls, to, elsewhere, v, false, dst), fusedWith(ls, device.SemaphoreAddr, d, elsewhere, c, v+1, true))
		}, func(ls device.Links, k []device.Chunk) error {
			bad := slices.Clone(k)
			bad[0].Addr = elsewhere
			return errors.Join(partsSet(ls, bad, dst), partsWith(ls, device.DstAddr|device.ChunkSizes, k))
		}},
	}
}

// use sends each command of Spec §4 once, and returns the bytes that each destination must then have
// from address at on.
func (f *form) use(ls device.Links, at wire.NocAddr) ([]byte, error) {
	err := errors.Join(f.write(ls, []byte("write"), at), f.word(ls, at.Add(8), 0x64726f77), f.inc(ls, at.Add(12), 0x01010101),
		f.fused(ls, []byte("fused"), at.Add(16), at.Add(12), 0x30303030),
		f.parts(ls, []device.Chunk{{Addr: at.Add(24), Data: []byte("one")}, {Addr: at.Add(28), Data: []byte("two")}}))
	return []byte("write\x00\x00\x00word1111fused\x00\x00\x00one\x00two\x00"), err
}

// only checks that exactly the given chips have the wanted bytes at an address, and that no chip has
// bytes at the address that updates replace.
func only(t *testing.T, name string, ns []*node.Node, at wire.NocAddr, want []byte, chips ...wire.FabricNodeID) {
	t.Helper()
	for _, n := range ns {
		var got, none [32]byte
		s := session.New(n)
		if err := errors.Join(s.Read(t.Context(), s.Self(), at, got[:]), s.Read(t.Context(), s.Self(), elsewhere, none[:])); err != nil {
			t.Fatal(err)
		}
		w := make([]byte, len(want))
		if slices.Contains(chips, s.Self()) {
			w = want
		}
		if !bytes.Equal(got[:len(want)], w) || none != [32]byte{} {
			t.Errorf("%s: %s has %q and %q, want %q", name, s.Self(), got, none, w)
		}
	}
}

// TestDeviceAPI is about Spec §4. "Unicast: Sends a packet from one node to a specific target node
// across the fabric." "Multicast: Sends a packet from one node to multiple destination nodes
// simultaneously." The NoC commands are unicast write, atomic increment, fused write and increment,
// inline write, and scatter write. Each command goes out with each kind of destination, at once and by
// a prepared header. The fabrics are a line, a row of a mesh, and two meshes. For the row: "1D … APIs
// can be built and executed seamlessly on a 2D (mesh) fabric topology without code changes".
func TestDeviceAPI(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	at := wire.NewNocAddr(1, 1, 0x100)
	all := func(name string, ns []*node.Node, ls device.Links, fs []form, chips ...wire.FabricNodeID) {
		t.Helper()
		for _, f := range fs {
			want, err := f.use(ls, at)
			if err != nil {
				t.Errorf("%s %s: %v", name, f.name, err)
			}
			only(t, name+" "+f.name, ns, at, want, chips...)
			at = at.Add(64)
		}
	}
	row := func(name string, ns []*node.Node, src int) {
		ls, err := linear.Connect(session.New(ns[src]).Sender(ctx), linear.To{Dir: wire.East})
		if err != nil {
			t.Fatal(err)
		}
		all(name+", unicast", ns, ls, linearUnicast(2), chipID(src+2))
		all(name+", multicast", ns, ls, linearMulticast(linear.Range{Start: 2, Count: 2}), chipID(src+2), chipID(src+3))
		all(name+", sparse", ns, ls, linearSparse(0b101), chipID(src+1), chipID(src+3))
		both, err := linear.Connect(session.New(ns[src+1]).Sender(ctx), linear.To{Dir: wire.East}, linear.To{Dir: wire.West})
		if err != nil {
			t.Fatal(err)
		}
		all(name+", two links", ns, both, linearUnicast(1), chipID(src), chipID(src+2))
	}
	_, _, line := fabric(t, "line:4")
	row("line", line, 0)
	_, _, grid := fabric(t, "mesh:3x4")
	row("row of a mesh", grid, 4)

	_, _, two := fabric(t, "2xt3000")
	s := session.New(two[0])
	ls, err := mesh.Connect(s.Sender(ctx), 0)
	if err != nil {
		t.Fatal(err)
	}
	there := func(c int) wire.FabricNodeID { return wire.FabricNodeID{Mesh: 1, Chip: wire.ChipID(c)} }
	all("mesh, unicast", two, ls, meshUnicast(there(5)), there(5))
	all("mesh, around the sender", two, ls, meshMulticast(mesh.Around(wire.Ranges{Hops: [4]uint8{1, 0, 0, 1}})), chipID(1), chipID(4), chipID(5))
	far, err := mesh.From(s.Topology(), there(1), wire.Ranges{Hops: [4]uint8{1, 0, 0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	all("mesh, rectangle of another mesh", two, ls, meshMulticast(far), there(1), there(2), there(5), there(6))
	any, err := mesh.Chips(there(0), there(7), there(2))
	if err != nil {
		t.Fatal(err)
	}
	all("mesh, any chips of another mesh", two, ls, meshMulticast(any), there(0), there(2), there(7))
}

func linearUnicast(hops int) []form {
	return forms(hops, linear.UnicastWrite, linear.UnicastWriteSetState, linear.UnicastWriteWithState,
		linear.UnicastInlineWrite, linear.UnicastInlineWriteSetState, linear.UnicastInlineWriteWithState,
		linear.UnicastAtomicInc, linear.UnicastAtomicIncSetState, linear.UnicastAtomicIncWithState,
		linear.UnicastFusedAtomicInc, linear.UnicastFusedAtomicIncSetState, linear.UnicastFusedAtomicIncWithState,
		linear.UnicastScatterWrite, linear.UnicastScatterWriteSetState, linear.UnicastScatterWriteWithState)
}

func linearMulticast(over linear.Range) []form {
	return forms(over, linear.MulticastWrite, linear.MulticastWriteSetState, linear.MulticastWriteWithState,
		linear.MulticastInlineWrite, linear.MulticastInlineWriteSetState, linear.MulticastInlineWriteWithState,
		linear.MulticastAtomicInc, linear.MulticastAtomicIncSetState, linear.MulticastAtomicIncWithState,
		linear.MulticastFusedAtomicInc, linear.MulticastFusedAtomicIncSetState, linear.MulticastFusedAtomicIncWithState,
		linear.MulticastScatterWrite, linear.MulticastScatterWriteSetState, linear.MulticastScatterWriteWithState)
}

func linearSparse(at linear.Hops) []form {
	return forms(at, linear.SparseMulticastWrite, linear.SparseMulticastWriteSetState, linear.SparseMulticastWriteWithState,
		linear.SparseMulticastInlineWrite, linear.SparseMulticastInlineWriteSetState, linear.SparseMulticastInlineWriteWithState,
		linear.SparseMulticastAtomicInc, linear.SparseMulticastAtomicIncSetState, linear.SparseMulticastAtomicIncWithState,
		linear.SparseMulticastFusedAtomicInc, linear.SparseMulticastFusedAtomicIncSetState, linear.SparseMulticastFusedAtomicIncWithState,
		linear.SparseMulticastScatterWrite, linear.SparseMulticastScatterWriteSetState, linear.SparseMulticastScatterWriteWithState)
}

func meshUnicast(dst wire.FabricNodeID) []form {
	return forms(dst, mesh.UnicastWrite, mesh.UnicastWriteSetState, mesh.UnicastWriteWithState,
		mesh.UnicastInlineWrite, mesh.UnicastInlineWriteSetState, mesh.UnicastInlineWriteWithState,
		mesh.UnicastAtomicInc, mesh.UnicastAtomicIncSetState, mesh.UnicastAtomicIncWithState,
		mesh.UnicastFusedAtomicInc, mesh.UnicastFusedAtomicIncSetState, mesh.UnicastFusedAtomicIncWithState,
		mesh.UnicastScatterWrite, mesh.UnicastScatterWriteSetState, mesh.UnicastScatterWriteWithState)
}

func meshMulticast(to mesh.Target) []form {
	return forms(to, mesh.MulticastWrite, mesh.MulticastWriteSetState, mesh.MulticastWriteWithState,
		mesh.MulticastInlineWrite, mesh.MulticastInlineWriteSetState, mesh.MulticastInlineWriteWithState,
		mesh.MulticastAtomicInc, mesh.MulticastAtomicIncSetState, mesh.MulticastAtomicIncWithState,
		mesh.MulticastFusedAtomicInc, mesh.MulticastFusedAtomicIncSetState, mesh.MulticastFusedAtomicIncWithState,
		mesh.MulticastScatterWrite, mesh.MulticastScatterWriteSetState, mesh.MulticastScatterWriteWithState)
}

// TestLongPayloads writes more than one packet holds, by unicast, by multicast and with an increment,
// which must come last and once.
func TestLongPayloads(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, _, ns := fabric(t, "line:3")
	ls, err := linear.Connect(session.New(ns[0]).Sender(ctx), linear.To{Dir: wire.East})
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // 79 packets
	at, counter := wire.NewNocAddr(1, 1, 0), wire.NewNocAddr(1, 2, 0)
	if err := linear.MulticastFusedAtomicInc(ls, data, at, counter, 1, false, linear.Range{Start: 1, Count: 2}); err != nil {
		t.Fatal(err)
	}
	if err := linear.UnicastWrite(ls, data[1:], at.Add(0x60000), 2); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < 3; i++ {
		got, n := make([]byte, len(data)), make([]byte, 4)
		s := session.New(ns[i])
		if err := errors.Join(s.Read(ctx, s.Self(), at, got), s.Read(ctx, s.Self(), counter, n)); err != nil || !bytes.Equal(got, data) || n[0] != 1 {
			t.Errorf("%s: counter %d, the data is equal: %v, %v", s.Self(), n[0], bytes.Equal(got, data), err)
		}
	}
	if err := linear.UnicastAtomicInc(ls, counter, 1, false, 1); err != nil {
		t.Error(err)
	}
	if err := ls.Send(data); err == nil {
		t.Error("an increment with a payload of 79 packets was sent")
	}
}

// TestCallsThatDoNotWait starts 500 writes, waits for half of them and asks for the other half. A
// read behind the writes finds the data of all.
func TestCallsThatDoNotWait(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, _, ns := fabric(t, "line:3")
	s, at := session.New(ns[0]), wire.NewNocAddr(1, 1, 0)
	var calls []*session.Call
	for i := range 500 {
		c, err := s.StartWrite(ctx, chipID(2), at.Add(2*i), []byte{byte(i), byte(i >> 8)})
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c)
	}
	big := bytes.Repeat([]byte("big "), 300_000) // more packets than one call keeps in flight
	c, err := s.StartWrite(ctx, chipID(2), at.Add(0x1000), big[:1<<20])
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range calls {
		if i%2 == 0 {
			if err := c.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		<-c.Done()
		if ended, err := c.Poll(); !ended || err != nil {
			t.Fatalf("write %d: ended: %v, %v", i, ended, err)
		}
	}
	if err := c.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	small, large := make([]byte, 1000), make([]byte, 1<<20)
	r1, err1 := s.StartRead(ctx, chipID(2), at, small)
	r2, err2 := s.StartRead(ctx, chipID(2), at.Add(0x1000), large)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r1.Wait(ctx), r2.Wait(ctx)); err != nil || !bytes.Equal(large, big[:1<<20]) {
		t.Fatal(err)
	}
	for i := range 500 {
		if small[2*i] != byte(i) || small[2*i+1] != byte(i>>8) {
			t.Fatalf("write %d has not arrived", i)
		}
	}
	bad, err := s.StartWrite(ctx, chipID(1), wire.NewNocAddr(63, 63, 0), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	var refused *session.RefusedError
	if err := bad.Wait(ctx); !errors.As(err, &refused) || refused.Dst != chipID(1) {
		t.Errorf("%v", err)
	}
	short, stop := context.WithCancel(ctx)
	stop()
	if err := bad.Wait(short); err == nil {
		t.Error("no error from a call that has ended with an error")
	}
}

// TestPostedWrites posts writes to a chip and to several chips. After the flush, all data is there. The
// flush reports a posted write that the chip refused.
func TestPostedWrites(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, _, ns := fabric(t, "line:3")
	s, at := session.New(ns[0]), wire.NewNocAddr(1, 1, 0)
	for range 5000 { // more than the window of a flow
		if err := s.AtomicInc(ctx, chipID(2), at, 1, false, session.Posted()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(ctx, chipID(2)); err != nil {
		t.Fatal(err)
	}
	ls, err := linear.Connect(s.Sender(ctx), linear.To{Dir: wire.East})
	if err != nil {
		t.Fatal(err)
	}
	ls.Post(true)
	for range 3000 {
		if err := linear.SparseMulticastAtomicInc(ls, at, 1, false, 0b11); err != nil {
			t.Fatal(err)
		}
	}
	if err := ls.Flush(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 3000, 8000} {
		var b [4]byte
		if err := s.Read(ctx, chipID(i), at, b[:]); err != nil || int(b[0])|int(b[1])<<8 != want {
			t.Errorf("%s has %v, want %d: %v", chipID(i), b, want, err)
		}
	}
	if err := s.AtomicInc(ctx, chipID(1), at.Add(2), 1, false, session.Posted()); err != nil {
		t.Errorf("a posted command that the destination refuses: %v", err)
	}
	var missed *session.MissedError
	if err := s.Flush(ctx, chipID(1)); !errors.As(err, &missed) || missed.Count != 1 {
		t.Errorf("the flush: %v", err)
	}
	if err := s.Flush(ctx, chipID(1)); err != nil {
		t.Errorf("the next flush: %v", err)
	}
	if err := s.Read(ctx, chipID(1), at, make([]byte, 4), session.Posted()); err == nil {
		t.Error("a read was posted")
	}
}

// TestDeviceRefusals checks the errors of calls that cannot be sent.
func TestDeviceRefusals(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, _, ns := fabric(t, "line:3")
	x := session.New(ns[0]).Sender(ctx)
	at := wire.NewNocAddr(1, 1, 0)
	east, _ := linear.Connect(x, linear.To{Dir: wire.East})
	flat, _ := mesh.Connect(x, 0)
	conn := func(_ device.Links, err error) error { return err }
	target := func(_ mesh.Target, err error) error { return err }
	m, _ := mesh.Chips(chipID(0))
	for want, err := range map[string]error{
		"has no cable W on plane 0":         conn(linear.Connect(x, linear.To{Dir: wire.West})),
		"planes 0 to 1":                     conn(mesh.Connect(x, 9)),
		"0 links: want 1 to 16":             conn(mesh.Connect(x)),
		"17 links: want 1 to 16":            conn(mesh.Connect(x, make([]wire.Plane, 17)...)),
		"only 2 hops in this direction":     linear.UnicastWrite(east, nil, at, 3),
		"0 hops: want at least 1":           linear.UnicastWrite(east, nil, at, 0),
		"2 values for 1 links":              linear.UnicastWrite(east, nil, at, 1, 2),
		"a range of 0 chips":                linear.MulticastWrite(east, nil, at, linear.Range{Start: 1}),
		"the hop mask is empty":             linear.SparseMulticastWrite(east, nil, at, 0),
		"a scatter write of 1 chunks":       linear.UnicastScatterWrite(east, make([]device.Chunk, 1), 1),
		"was not prepared for this command": linear.UnicastWriteWithState(east.Clone(), device.None, nil, at),
		"a multicast to no chips":           mesh.MulticastWrite(flat, nil, at, mesh.Target{}),
		"the source is in the set":          mesh.MulticastWrite(flat, nil, at, m),
		"chips of one mesh":                 target(mesh.Chips(chipID(0), wire.FabricNodeID{Mesh: 1})),
		"chip M0D7 is not in the fabric":    target(mesh.From(x.Topology(), chipID(7), wire.Ranges{})),
		"chip M0D2 has no neighbour E":      target(mesh.From(x.Topology(), chipID(1), wire.Ranges{Hops: [4]uint8{2}})),
		"a chip would be named twice":       target(mesh.From(x.Topology(), chipID(1), wire.Ranges{Hops: [4]uint8{2, 1}})),
		"is not in topology":                mesh.UnicastWrite(flat, nil, at, chipID(9)),
		"a scatter write of more than 4096": linear.UnicastScatterWrite(east, []device.Chunk{{Data: make([]byte, 4000)}, {Data: make([]byte, 97)}}, 1),
	} {
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(want)) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	if err := linear.UnicastWriteSetState(east, at, 1); err != nil {
		t.Fatal(err)
	}
	if err := linear.MulticastWriteWithState(east, device.None, nil, at); !errors.Is(err, device.ErrNoState) {
		t.Errorf("a multicast by the header of a unicast: %v", err)
	}
	if err := linear.UnicastWriteWithState(east, device.None, []byte("ok"), wire.NocAddr(0)); err != nil {
		t.Error(err)
	}
	if b := make([]byte, 2); session.New(ns[1]).Read(ctx, chipID(1), at, b) != nil || string(b) != "ok" {
		t.Errorf("%q", b)
	}
	if fmt.Sprint(east[0].Header.Dst) != "M0D1" {
		t.Error(east[0].Header)
	}
}

// BenchmarkPostedWrites posts inline writes from one live chip to its neighbour, with a header
// built for each packet, and with a prepared header.
func BenchmarkPostedWrites(b *testing.B) {
	_, _, ns := fabric(b, "line:2")
	at := wire.NewNocAddr(1, 1, 0)
	ls, err := linear.Connect(session.New(ns[0]).Sender(b.Context()), linear.To{Dir: wire.East})
	if err != nil {
		b.Fatal(err)
	}
	ls.Post(true)
	if err := linear.UnicastInlineWriteSetState(ls, at, 1, 1); err != nil {
		b.Fatal(err)
	}
	for name, send := range map[string]func() error{
		"at-once":    func() error { return linear.UnicastInlineWrite(ls, at, 1, 1) },
		"with-state": func() error { return linear.UnicastInlineWriteWithState(ls, device.Value, at, 2) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := send(); err != nil {
					b.Fatal(err)
				}
			}
			if err := ls.Flush(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
