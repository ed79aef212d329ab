package main

import (
	"context"
	"fmt"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// drivePatience is the longest time that all commands together may take.
const drivePatience = 30 * time.Second

// drive performs every NoC command in a running fabric, so that a capture holds each command. The
// first chip sends all commands. Two further commands must end with an exception.
func drive(name string) error {
	ctx, stop := context.WithTimeout(context.Background(), drivePatience)
	defer stop()
	f, err := fabric.Open(ctx, name)
	if err != nil {
		return err
	}
	nodes := f.Topology.Nodes()
	last := nodes[len(nodes)-1]
	s, err := f.Session(nodes[0])
	if err != nil {
		return err
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	tile := func(offset uint64) wire.NocAddr { return wire.NewNocAddr(1, 1, offset) }
	rect, _ := wire.NewNocRect(1, 1, 4, 2, 0xc000)
	data := make([]byte, 300)
	all := wire.Ranges{Hops: [wire.NumDirections]uint8{wire.East: 3, wire.South: 1}}
	far := wire.Ranges{Hops: [wire.NumDirections]uint8{wire.East: 3}, Skip: [wire.NumDirections]uint8{wire.East: 1}}
	chunks := []session.Chunk{{Addr: tile(0x5000), Data: data[:40]}, {Addr: tile(0x6000), Data: data[:80]}, {Addr: tile(0x7000), Data: data[:9]}}
	for what, err := range map[string]error{
		"write":                s.Write(ctx, last, tile(0x1000), data, session.Traced()),
		"read":                 s.Read(ctx, last, tile(0x1000), data[:100]),
		"inline write":         s.InlineWrite(ctx, last, tile(0x2000), 0xC0FFEE, session.OnPlane(1)),
		"atomic":               s.AtomicInc(ctx, last, tile(0x2004), 7, true),
		"write, increment":     s.WriteInc(ctx, last, tile(0x3000), data[:64], tile(0x2004), 3, false),
		"scatter":              s.ScatterWrite(ctx, last, chunks),
		"write by NoC 1":       s.Write(ctx, last, wire.NewNocAddr(8, 10, 0xb000)|wire.NocOne, data[:20]),
		"NoC multicast":        s.Write(ctx, last, rect, data),
		"NoC multicast atomic": s.AtomicInc(ctx, last, rect.Add(0x1000), 3, false),
		"multicast write":      s.MulticastWrite(ctx, all, tile(0x8000), data),
		"multicast, skipping":  s.MulticastWrite(ctx, far, tile(0x8000), data[:17]),
		"multicast inline":     s.MulticastInlineWrite(ctx, all, tile(0x9000), 5),
		"multicast atomic":     s.MulticastInc(ctx, all, tile(0x9004), 5, true),
		"multicast, increment": s.MulticastWriteInc(ctx, all, tile(0xa000), data, tile(0x9004), 1, true),
		"multicast scatter":    s.MulticastScatter(ctx, all, chunks),
	} {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	for what, err := range map[string]error{
		"a tile that does not exist": s.Write(ctx, last, wire.NewNocAddr(63, 63, 0), data),
		"a misaligned atomic":        s.AtomicInc(ctx, last, tile(0x2003), 1, false),
	} {
		if err == nil {
			return fmt.Errorf("%s: no exception", what)
		}
	}
	return nil
}
