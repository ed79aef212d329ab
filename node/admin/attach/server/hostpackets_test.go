package server_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"ttfabric/node/firmware/host"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// onHost is the address of byte "off" of host memory.
func onHost(off uint64) wire.NocAddr { return wire.NewNocAddr(0, 3, noc.HostBase+off) }

// TestPacketsToHostFile writes and reads the mapped file by packets of the other chip, and by requests of the
// chip to itself. The chip is recorded, and its recording replays without a host.
func TestPacketsToHostFile(t *testing.T) {
	dir := t.TempDir()
	l := start(t, "n300", dir)
	self := l.nodes[0].Self()
	var refused *session.RefusedError
	for i := range l.nodes {
		s := session.New(l.dial(t, i))
		if err := s.Write(l.ctx, self, onHost(0), []byte{1}); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeNoHost {
			t.Errorf("chip %d, before a host has attached: %v", i, err)
		}
	}
	h, mem := l.mapping(t, 0)
	for i := range l.nodes {
		s := session.New(l.dial(t, i))
		want, at := randomBytes(20<<10+i), uint64(1<<20*(i+1)+3)
		check(t, s.Write(l.ctx, self, onHost(at), want))
		got := make([]byte, len(want))
		if !bytes.Equal(mem[at:][:len(want)], want) {
			t.Errorf("chip %d: the file has other bytes", i)
		}
		if check(t, s.Read(l.ctx, self, onHost(at), got)); !bytes.Equal(got, want) {
			t.Errorf("chip %d read other bytes", i)
		}
		copy(mem[at:], "from the host")
		if check(t, s.Read(l.ctx, self, onHost(at), got[:13])); string(got[:13]) != "from the host" {
			t.Errorf("chip %d read %q", i, got[:13])
		}
		if err := s.AtomicInc(l.ctx, self, onHost(at), 1, false); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeBadCommand {
			t.Errorf("chip %d: an increment: %v", i, err)
		}
		if err := s.Write(l.ctx, self, onHost(1<<30-1), []byte{1, 2}); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeBadAddress {
			t.Errorf("chip %d, beyond the end: %v", i, err)
		}
		if err := s.Write(l.ctx, l.nodes[1].Self(), onHost(0), []byte{1}); !errors.As(err, &refused) || refused.Outcome != wire.OutcomeNoHost {
			t.Errorf("chip %d, to the chip without a host: %v", i, err)
		}
	}
	check(t, h.Close())
	s := session.New(l.dial(t, 1))
	l.eventually(t, "the end of host memory", func() bool {
		err := s.Write(l.ctx, self, onHost(0), []byte{1})
		return errors.As(err, &refused) && refused.Outcome == wire.OutcomeNoHost
	})
	file, err := l.nodes[0].EndRecording()
	check(t, err)
	replays(t, file)
}

// TestQueuesToHostFile writes and reads the mapped file through the firmware's queues of both chips. The chip is
// recorded, and its recording replays without a host.
func TestQueuesToHostFile(t *testing.T) {
	dir := t.TempDir()
	l := start(t, "n300", dir)
	self := l.nodes[0].Self()
	var refused *host.RequestError
	queues := func(i int) *host.Queues {
		q, err := host.Open(session.New(l.dial(t, i)), 8)
		check(t, err)
		return q
	}
	if err := queues(0).Write(l.ctx, self, onHost(0), make([]byte, 4)); !errors.As(err, &refused) {
		t.Errorf("before a host has attached: %v", err)
	}
	h, mem := l.mapping(t, 0)
	for i := range l.nodes {
		q := queues(i)
		for n, at := range map[int]uint64{4: 0x404, 1024: 0x1000, 5000: 0x10000} {
			want, got := randomBytes(n), make([]byte, n)
			if check(t, q.Write(l.ctx, self, onHost(at), want)); !bytes.Equal(mem[at:][:n], want) {
				t.Errorf("chip %d: %d bytes: the file has other bytes", i, n)
			}
			copy(mem[at:], "host")
			copy(want, "host")
			if check(t, q.Read(l.ctx, self, onHost(at), got)); !bytes.Equal(got, want) {
				t.Errorf("chip %d: %d bytes: the queues read other bytes", i, n)
			}
		}
		if err := q.Read(l.ctx, self, onHost(1<<30), make([]byte, 32)); !errors.As(err, &refused) || refused.Unreachable {
			t.Errorf("chip %d, beyond the end: %v", i, err)
		}
		if err := q.Write(l.ctx, l.nodes[1].Self(), onHost(0), make([]byte, 4)); !errors.As(err, &refused) || refused.Unreachable {
			t.Errorf("chip %d, to the chip without a host: %v", i, err)
		}
	}
	check(t, h.Close())
	file, err := l.nodes[0].EndRecording()
	check(t, err)
	replays(t, file)
}

// TestPacketsToLentMemory sends packets to the memory of a client that performs the transfers itself. A write
// ends only after the client has acknowledged its transfer. Nobody knows the outcome of a write if the client
// leaves in the middle.
func TestPacketsToLentMemory(t *testing.T) {
	l := start(t, "n300", "")
	x, self := l.lends(t, 0, 1<<20), l.nodes[0].Self()
	x.frame()
	s := session.New(l.dial(t, 1))
	ended := make(chan error, 1)
	const sem = 0x3000
	go func() {
		ended <- s.WriteInc(l.ctx, self, onHost(64), []byte("fused"), wire.NewNocAddr(1, 2, sem), 1, false)
	}()
	p := x.transfer()
	if !p.Write || p.Addr != 64 || string(p.Data) != "fused" {
		t.Errorf("%+v", p)
	}
	select {
	case err := <-ended:
		t.Fatalf("the write ended before the client's acknowledgement: %v", err)
	default:
	}
	local := session.New(l.dial(t, 0))
	at := wire.NewNocAddr(1, 2, sem)
	if v := word(t, l.ctx, local, self, at); v != 0 {
		t.Errorf("the increment came before the data: %d", v)
	}
	x.perform(p)
	check(t, <-ended)
	if v := word(t, l.ctx, local, self, at); v != 1 || string(x.mem[64:69]) != "fused" {
		t.Errorf("the semaphore is %d, the memory has %q", v, x.mem[64:69])
	}
	var b [4]byte
	go func() { ended <- s.Read(l.ctx, self, onHost(64), b[:]) }()
	x.perform(x.transfer())
	if check(t, <-ended); binary.LittleEndian.Uint32(b[:]) != binary.LittleEndian.Uint32([]byte("fuse")) {
		t.Errorf("read %q", b)
	}
	go func() { ended <- s.Write(l.ctx, self, onHost(0), []byte{1}) }()
	x.transfer()
	x.conn.Close()
	var unknown *session.OutcomeUnknownError
	if err := <-ended; !errors.As(err, &unknown) || unknown.Reason != "host gone" {
		t.Errorf("the client left: %v", err)
	}
}
