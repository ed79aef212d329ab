package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"ttfabric/node"
	"ttfabric/node/session"
	"ttfabric/node/session/socket"
	"ttfabric/router"
	"ttfabric/wire"
)

// socketPairs is the number of times that the measurement changes between writes and sends, and socketSlice
// the time between two changes.
const (
	socketPairs = 10
	socketSlice = 100 * time.Millisecond
)

// sockets measures the goodput of one socket beside that of writes with the same block size. Writes and
// sends take turns in one run. A byte of a socket counts when the program at the other end has read it.
func (b *bench) sockets(round int, _ *rand.Rand) error {
	defer node.ConfigureProcess()()
	base := portBase()
	o, err := spawn("socket-chip", fmt.Sprintf("n300 %s 1 %d", router.SlotFast.Name, base))
	if err != nil {
		return err
	}
	defer o.end()
	if _, err := o.ask(""); err != nil {
		return err
	}
	return nearChip("n300", router.SlotFast, base, func(ctx context.Context, s *session.Session) error {
		far := s.Topology().Chips[1].Node
		x, err := socket.Dial(ctx, s, socket.Options{Peer: far, Size: socketFIFO})
		if err != nil {
			return err
		}
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
			w, g, ratio, err := socketRatio(ctx, s, x, far, make([]byte, size))
			if err != nil {
				return err
			}
			name := fmt.Sprintf("blocks of %d KiB", size>>10)
			b.add(figure(name, "session.Write", "Gb/s", round, w), figure(name, "socket", "Gb/s", round, g), figure(name, "socket / session.Write", "", round, ratio))
		}
		return x.Close(ctx)
	})
}

// socketFIFO is the size of the FIFO of the measured socket, in bytes.
const socketFIFO = 1280 << 10

// socketRatio returns the medians of the goodputs of writes and of a socket, in Gb/s, and the median of
// their ratios.
func socketRatio(ctx context.Context, s *session.Session, x *socket.Sender, far wire.FabricNodeID, block []byte) (write, send, ratio float64, err error) {
	at := wire.NewNocAddr(1, 1, 0)
	var ws, gs, rs []float64
	for range socketPairs {
		bytes, begin := 0, time.Now()
		for ; err == nil && time.Since(begin) < socketSlice; bytes += len(block) {
			err = s.Write(ctx, far, at, block)
		}
		w := float64(bytes) * 8 / 1e9 / time.Since(begin).Seconds()
		before, begin := x.Acked(), time.Now()
		for err == nil && time.Since(begin) < socketSlice {
			err = x.Send(ctx, block)
		}
		if err != nil {
			return 0, 0, 0, err
		}
		g := float64(x.Acked()-before) * 8 / 1e9 / time.Since(begin).Seconds()
		ws, gs, rs = append(ws, w), append(gs, g), append(rs, g/w)
		time.Sleep(10 * time.Millisecond) // the receiver reads the rest of the FIFO
	}
	middle := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	return middle(ws), middle(gs), middle(rs), nil
}

// socketChip runs a chip in a process of its own, and receives what chip 0 sends over a socket, until
// standard input ends.
func socketChip(task string) error {
	var machine, slots string
	var self, base int
	if _, err := fmt.Sscan(task, &machine, &slots, &self, &base); err != nil {
		return err
	}
	node.ConfigureProcess()
	n, err := startChip(machine, router.SlotFast, self, base)
	if err != nil {
		return err
	}
	defer n.Close()
	go func() {
		ctx, s := context.Background(), session.New(n)
		x, err := socket.Listen(ctx, s, socket.Options{Peer: s.Topology().Chips[0].Node, Size: socketFIFO})
		for b := make([]byte, 256<<10); err == nil; {
			_, err = x.Recv(ctx, b)
		}
		if err == io.EOF {
			err = x.Close(ctx)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench: the receiver of the socket:", err)
		}
	}()
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return nil
}
