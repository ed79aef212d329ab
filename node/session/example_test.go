package session_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/process"
	"ttfabric/node/session"
	"ttfabric/node/session/device"
	"ttfabric/node/session/linear"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// TestMain starts a fabric of two chips for the examples, as 'ttfabric up n300' does.
// Each chip is a process of the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		process.Main(nil) // run a chip without a program
	}
	os.Exit(withFabric(m))
}

func withFabric(m *testing.M) int {
	dir, err := os.MkdirTemp("", "session-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_RUNTIME_DIR", dir)
	fabric.ServesChips()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	machine, err := topo.Named("n300")
	if err != nil {
		log.Fatal(err)
	}
	f, err := fabric.Create(ctx, fabric.Wanted{Name: "default", Topology: machine, Spec: spec.Default()})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Remove()
	if _, err := f.Up(ctx, nil, nil); err != nil {
		log.Print(err)
		return 1
	}
	return m.Run()
}

// A program opens a fabric that 'ttfabric up' started. The program writes to a chip's
// memory, and reads the data back.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f, err := fabric.Open(ctx, "default")
	if err != nil {
		log.Fatal(err)
	}
	src, dst := f.Topology.Chips[0].Node, f.Topology.Chips[1].Node
	s, err := f.Session(src)
	if err != nil {
		log.Fatal(err)
	}
	tile, b := wire.NewNocAddr(1, 1, 0x1000), make([]byte, 5)
	if err := s.Write(ctx, dst, tile, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	if err := s.Read(ctx, dst, tile, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s read %q from %s\n", s.Self(), b, dst)
	// Output: M0D0 read "hello" from M0D1
}

// A program written for tt-metal's linear API names chips by their distance. UnicastWriteSetState
// builds the header once, and UnicastWriteWithState sends many packets with this header. The
// posted increments wait for no answer, and Flush waits for all of them.
func Example_linear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f, err := fabric.Open(ctx, "default")
	if err != nil {
		log.Fatal(err)
	}
	s, err := f.Session(f.Topology.Chips[0].Node)
	if err != nil {
		log.Fatal(err)
	}
	ls, err := linear.Connect(s.Sender(ctx), linear.To{Dir: wire.East})
	if err != nil {
		log.Fatal(err)
	}
	at, b := wire.NewNocAddr(1, 1, 0x3000), make([]byte, 9)
	if err := linear.UnicastWriteSetState(ls, at, 1); err != nil {
		log.Fatal(err)
	}
	for i, word := range []string{"abc", "def"} {
		if err := linear.UnicastWriteWithState(ls, device.DstAddr, []byte(word), at.Add(3*i)); err != nil {
			log.Fatal(err)
		}
	}
	ls.Post(true)
	for range 5 {
		if err := linear.UnicastAtomicInc(ls, at.Add(8), 1, false, 1); err != nil {
			log.Fatal(err)
		}
	}
	if err := ls.Flush(); err != nil {
		log.Fatal(err)
	}
	if err := s.Read(ctx, f.Topology.Chips[1].Node, at, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", b)
	// Output: "abcdef\x00\x00\x05"
}

// 'ttfabric up --program ./hello' runs a program as every chip of a fabric. In this
// example, each chip adds 1 to a counter in the memory of the first chip.
func Example_program() {
	hello := func(ctx context.Context, s *session.Session) error {
		if err := s.Ready(ctx); err != nil {
			return err
		}
		first := s.Topology().Chips[0].Node
		return s.AtomicInc(ctx, first, wire.NewNocAddr(1, 1, 0x2000), 1, false)
	}
	_ = hello // func main() { process.Main(hello) }
}
