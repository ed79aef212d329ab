package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"ttfabric/node/session"
	"ttfabric/wire"
)

// lineProgram is a program for a 1D fabric of four chips, written like a program for tt-metal's
// linear API. lineProgram names chips only by their distance in one direction. lineProgram writes
// to each chip, and returns the data that it reads back from each chip.
func lineProgram(ctx context.Context, s *session.Session, forward wire.Direction, at wire.NocAddr) (seen []string, err error) {
	for hops := 1; hops <= 3; hops++ { // unicast, by number of hops
		dst, err := s.Away(forward, hops)
		if err != nil {
			return nil, err
		}
		if err := s.Write(ctx, dst, at, []byte{'u', byte('0' + hops)}); err != nil {
			return nil, err
		}
	}
	for start := 1; start <= 3; start++ { // multicast, by start and range
		for n := 1; start+n <= 4; n++ {
			if err := s.MulticastInc(ctx, session.Line(forward, start, n), at.Add(4), 1, false); err != nil {
				return nil, err
			}
		}
	}
	if err := s.MulticastWrite(ctx, session.Line(forward, 2, 2), at.Add(2), []byte("m2")); err != nil {
		return nil, err
	}
	for hops := range 4 {
		dst, _ := s.Away(forward, hops)
		b := make([]byte, 5)
		if err := s.Read(ctx, dst, at, b); err != nil {
			return nil, err
		}
		seen = append(seen, fmt.Sprintf("%q", b))
	}
	return seen, nil
}

// TestLineProgramsRunOnAMesh runs a program for a 1D fabric along a row and along a column of a 2D
// fabric.
func TestLineProgramsRunOnAMesh(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	want := `["\x00\x00\x00\x00\x00" "u1\x00\x00\x03" "u2m2\x04" "u3m2\x03"]`
	at := wire.NewNocAddr(1, 1, 0)
	run := func(name string, s *session.Session, forward wire.Direction) {
		t.Helper()
		if seen, err := lineProgram(ctx, s, forward, at); err != nil || fmt.Sprint(seen) != want {
			t.Errorf("%s: %v, %v; want %s", name, seen, err, want)
		}
		at = at.Add(64) // use another address, because the next line may contain the same chip
	}
	_, _, line := fabric(t, "line:4")
	run("a line", session.New(line[0]), wire.East)
	_, _, mesh := fabric(t, "mesh:4x4")
	run("a row", session.New(mesh[4]), wire.East)           // the second row, from its western end
	run("a column", session.New(mesh[14]), wire.North)      // the third column, from its southern end
	run("a row backwards", session.New(mesh[3]), wire.West) // the first row, from its eastern end
}

// TestMulticastOverRealSockets multicasts every command to all chips of a mesh. The error of a
// refused multicast must name the chips that refused.
func TestMulticastOverRealSockets(t *testing.T) {
	_, _, ns := fabric(t, "mesh:2x3")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := session.New(ns[1])
	all := wire.Ranges{Hops: [wire.NumDirections]uint8{wire.East: 1, wire.West: 1, wire.South: 1}}
	data := bytes.Repeat([]byte("multicast"), 30000)
	at := wire.NewNocAddr(2, 2, 0x100)
	if err := s.MulticastWrite(ctx, all, at, data); err != nil {
		t.Fatal(err)
	}
	if err := s.MulticastWriteInc(ctx, all, at, []byte("M"), at.Add(1<<19), 7, true); err != nil {
		t.Fatal(err)
	}
	if err := s.MulticastInlineWrite(ctx, all, at.Add(1<<19+4), 9); err != nil {
		t.Fatal(err)
	}
	if err := s.MulticastScatter(ctx, all, []session.Chunk{{Addr: at.Add(1), Data: []byte("U")}, {Addr: at.Add(2), Data: []byte("L")}}, session.OnPlane(1)); err != nil {
		t.Fatal(err)
	}
	copy(data, "MUL")
	for i := range 6 {
		got, words := make([]byte, len(data)), make([]byte, 8)
		if err := errors.Join(s.Read(ctx, chipID(i), at, got), s.Read(ctx, chipID(i), at.Add(1<<19), words)); err != nil {
			t.Fatal(err)
		}
		if member := i != 1; bytes.Equal(got, data) != member || (string(words) == "\x07\x00\x00\x00\x09\x00\x00\x00") != member {
			t.Errorf("chip %d holds %q… and %q", i, got[:9], words)
		}
	}
	var many *session.MulticastError
	var refused *session.RefusedError
	err := s.MulticastInc(ctx, all, at.Add(2), 1, false)
	if !errors.As(err, &many) || len(many.Errors) != 5 || !errors.As(err, &refused) || refused.Outcome != wire.OutcomeMisaligned || refused.Dst != chipID(0) {
		t.Errorf("a misaligned increment: %v", err)
	}
	if err := s.MulticastWrite(ctx, wire.Ranges{}, at, data); err == nil {
		t.Error("a multicast to no chips was taken")
	}
	if err := s.MulticastWrite(ctx, session.Line(wire.North, 1, 1), at, data); err == nil || !bytes.Contains([]byte(err.Error()), []byte("leave mesh 0")) {
		t.Errorf("a multicast beyond the edge of the mesh: %v", err)
	}
	if err := s.MulticastInc(ctx, all, at, 1, false, session.Via(wire.East)); err == nil {
		t.Error("a multicast by hops was taken")
	}
}

// TestAway checks that Away finds chips by direction and number of hops on a ring, and returns an
// error beyond the edge of a mesh.
func TestAway(t *testing.T) {
	_, _, ns := fabric(t, "ring:4")
	s := session.New(ns[1])
	for hops, want := range []int{1, 2, 3, 0, 1} {
		if n, err := s.Away(wire.East, hops); err != nil || n != chipID(want) {
			t.Errorf("%d hops: %s, %v", hops, n, err)
		}
	}
	if _, err := s.Away(wire.North, 1); err == nil {
		t.Error("Away found a chip north of a ring")
	}
	if r := session.Line(wire.East, 1, 256); r.Any() {
		t.Errorf("a line of 256 chips: %s", r)
	}
}
