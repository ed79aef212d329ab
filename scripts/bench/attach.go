package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ttfabric/node/admin/attach"
	"ttfabric/node/fabric"
	"ttfabric/node/flow"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// Constants of the measurement "attach".
const (
	attachSpan  = time.Second // duration of each measurement
	attachBatch = 256         // words of a batch
)

// attached measures a program that is attached to its chip over the Unix socket: words of 4 bytes one
// at a time and in batches, and blocks of 1 MiB, in the chip's own memory and in the neighbour's.
func (b *bench) attached(round int, r *rand.Rand) error {
	if b.ttfabric == "" {
		return errors.New("-only attach needs the program ttfabric; scripts/bench/run builds the program")
	}
	if b.words == "" && round == 0 {
		fmt.Fprintln(os.Stderr, "words one at a time in C are left out, because there is no such program; install a C compiler (cc), and use scripts/bench/run, which builds the program")
	}
	return fabricOf(b.ttfabric, "n300", func(f *fabric.Fabric, _ time.Duration) error {
		nodes := f.Topology.Nodes()
		at, ok := f.Where(nodes[0])
		if !ok || at.Socket == "" {
			return fmt.Errorf("chip %s has no socket", nodes[0])
		}
		c, err := attach.Dial(context.Background(), at.Socket, f.Topology)
		if err != nil {
			return err
		}
		defer c.Close()
		for _, i := range r.Perm(2) {
			where := []string{"own memory", "one hop"}[i]
			if err := b.attachedTo(c, nodes[i], where, round); err != nil {
				return err
			}
			if err := b.attachedC(at.Socket, nodes[i], where, round); err != nil {
				return err
			}
			if err := b.attachedPython(at.Socket, nodes[i], where, round); err != nil {
				return err
			}
		}
		return nil
	})
}

// attachedTo measures the memory of chip dst.
func (b *bench) attachedTo(c *attach.Client, dst wire.FabricNodeID, where string, round int) error {
	ctx, s := context.Background(), session.New(c)
	a := wire.NewNocAddr(1, 1, 0x10000)
	word, block := make([]byte, 4), make([]byte, 16<<20)
	dram := wire.NewNocAddr(0, 0, 0)
	rs := make([]flow.Request, attachBatch)
	for i := range rs {
		rs[i] = flow.Request{Dst: dst, Command: wire.Command{Type: wire.NocInlineWrite, Addr: a.Add(4 * i), Value: uint32(i)}}
	}
	for _, m := range []struct {
		name, unit string
		each       float64 // units of one call
		f          func() error
	}{
		{"words one at a time, write", "/s", 1, func() error { return s.InlineWrite(ctx, dst, a, 7) }},
		{"words one at a time, read", "/s", 1, func() error { return s.Read(ctx, dst, a, word) }},
		{"words in batches of 256, write", "/s", attachBatch, func() error { return batch(ctx, c, rs) }},
		{"blocks of 1 MiB, write", "MB/s", float64(len(block)) / 1e6, func() error { return s.Write(ctx, dst, dram, block) }},
		{"blocks of 1 MiB, read", "MB/s", float64(len(block)) / 1e6, func() error { return s.Read(ctx, dst, dram, block) }},
	} {
		n, begin := 0, time.Now()
		for time.Since(begin) < attachSpan {
			if err := m.f(); err != nil {
				return err
			}
			n++
		}
		b.add(figure("attached: "+m.name, "Go, "+where, m.unit, round, float64(n)*m.each/time.Since(begin).Seconds()))
	}
	return nil
}

// attachedC measures words of a program in C. Without this program, attachedC measures nothing.
func (b *bench) attachedC(socket string, dst wire.FabricNodeID, where string, round int) error {
	if b.words == "" {
		return nil
	}
	a := wire.NewNocAddr(1, 1, 0x10000)
	cmd := exec.Command(b.words, socket, fmt.Sprint(dst.Mesh), fmt.Sprint(dst.Chip), fmt.Sprint(uint64(a)), fmt.Sprint(attachSpan.Milliseconds()))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var v float64
	if err == nil {
		_, err = fmt.Sscan(string(out), &v)
	}
	if err != nil {
		return fmt.Errorf("the attached program in C: %w", err)
	}
	b.add(figure("attached: words one at a time, write", "C, "+where, "/s", round, v))
	return nil
}

// batch performs requests together.
func batch(ctx context.Context, c *attach.Client, rs []flow.Request) error {
	var left sync.WaitGroup
	var mu sync.Mutex
	var first error
	left.Add(len(rs))
	n, err := c.Submit(ctx, rs, func(_ int, r flow.Result) {
		if mu.Lock(); r.Fate != flow.FateDone {
			first = cmp.Or(first, fmt.Errorf("a word of a batch ended as %s", r.Fate))
		}
		mu.Unlock()
		left.Done()
	})
	left.Add(n - len(rs))
	left.Wait()
	return cmp.Or(err, first)
}

// attachPython measures words in Python, and prints words per second one at a time and in batches.
const attachPython = `
import sys, time, ttfabric
c, dst = ttfabric.Chip(sys.argv[1]), sys.argv[2]
a = ttfabric.noc(1, 1, 0x10000)
def words():
    for _ in range(100): c.write_word(dst, a, 7)
    return 100
def batches():
    with c.batch() as b:
        for i in range(256): b.write_word(dst, a + 4 * i, i)
    return 256
for f in words, batches:
    n, begin = 0, time.monotonic()
    while time.monotonic() < begin + 1: n += f()
    print(n / (time.monotonic() - begin))
`

// attachedPython measures the client in Python. On a machine without Python, attachedPython
// measures nothing.
func (b *bench) attachedPython(socket string, dst wire.FabricNodeID, where string, round int) error {
	if _, err := exec.LookPath("python3"); err != nil {
		return nil
	}
	module, err := filepath.Abs("../python")
	if err != nil {
		return err
	}
	cmd := exec.Command("python3", "-B", "-c", attachPython, socket, dst.String())
	cmd.Env, cmd.Stderr = append(os.Environ(), "PYTHONPATH="+module), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the client in Python: %w", err)
	}
	for i, text := range strings.Fields(string(out)) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || i > 1 {
			return fmt.Errorf("the client in Python printed %q", out)
		}
		b.add(figure("attached: words "+[]string{"one at a time", "in batches of 256"}[i]+", write", "Python, "+where, "/s", round, v))
	}
	return nil
}
