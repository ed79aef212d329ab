package quicport_test

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
)

// relay is a cable between two UDP ports, of sockets of its own, that does to
// what crosses it what a bad network does: beneath QUIC and beneath the seal.
type relay struct {
	t    testing.TB
	seed uint64

	mu      sync.Mutex
	ports   [2]*transport.Impaired // facing either end; what they do is done to what the other end sends
	options [2]fault.Options
	ends    [2]netip.AddrPort // where the ends are
	longest int               // bytes of a datagram that gets through; 0: any
	keep    bool              // what crosses is recorded
	record  [2][][]byte       // by the end that sent
}

func newRelay(t testing.TB, seed uint64, o fault.Options) *relay {
	r := &relay{t: t, seed: seed, options: [2]fault.Options{o, o}}
	r.rebind()
	t.Cleanup(func() { r.ports[0].Close(); r.ports[1].Close() })
	return r
}

// rebind moves both of the relay's addresses.
func (r *relay) rebind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.ports
	for i := range r.ports {
		p, err := transport.Listen(transport.Options{Local: netip.MustParseAddrPort("127.0.0.1:0")})
		if err != nil {
			r.t.Fatal(err)
		}
		if r.ends[i].IsValid() {
			p.SetPeer(r.ends[i])
		}
		r.seed++
		if r.ports[i], err = transport.Impair(p, r.seed, r.options[1-i]); err != nil {
			r.t.Fatal(err)
		}
		go r.read(i, p)
	}
	for _, p := range old {
		if p != nil {
			p.Close()
		}
	}
}

// addr is where an end finds the other.
func (r *relay) addr(i int) netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ports[i].LocalAddr()
}

// at says where an end is.
func (r *relay) at(i int, a netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends[i] = a
	r.ports[i].SetPeer(a)
}

func (r *relay) read(i int, p transport.Port) {
	var b transport.Batch
	for p.Recv(&b) == nil {
		r.mu.Lock()
		b.Each(func(d []byte) {
			if r.longest > 0 && len(d) > r.longest {
				return
			}
			if r.keep {
				r.record[i] = append(r.record[i], bytes.Clone(d))
			}
			r.ports[1-i].Send(d, len(d))
		})
		r.mu.Unlock()
	}
}

// deliver hands an end a datagram as if the other had sent it.
func (r *relay) deliver(to int, d []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ports[to].Send(d, len(d))
}

// set changes what is done to what some ends send.
func (r *relay) set(o fault.Options, from ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range from {
		r.options[i] = o
		r.ports[1-i].Set(o)
	}
}

func (r *relay) cut(on bool, from ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range from {
		r.ports[1-i].Cut(on)
	}
}
