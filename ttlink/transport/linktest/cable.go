package linktest

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
)

// local is the address of the scenarios' sockets.
var local = netip.MustParseAddrPort("127.0.0.1:0")

// cable is a relay between two UDP ports, with its own sockets. The relay injects the faults of a
// bad network into the datagrams that cross it, beneath QUIC and beneath the seal.
type cable struct {
	t    testing.TB
	seed uint64

	mu      sync.Mutex
	ports   [2]*transport.Impaired // ports that face either end; each impairs what the other end sends
	options [2]fault.Options
	ends    [2]netip.AddrPort // addresses of the ends
	past    fault.Counts      // faults counted by earlier ports
	longest int               // longest datagram that gets through, in bytes; 0: any
	long    int               // datagrams that were longer than longest
	keep    bool              // record the datagrams that cross
	record  [2][][]byte       // recorded datagrams, by the end that sent them
}

func newCable(t testing.TB, seed uint64, o fault.Options) *cable {
	c := &cable{t: t, seed: seed, options: [2]fault.Options{o, o}}
	c.rebind()
	t.Cleanup(func() { c.ports[0].Close(); c.ports[1].Close() })
	return c
}

// rebind gives the relay other addresses on both sides.
func (c *cable) rebind() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, old := range c.ports {
		p, err := transport.Listen(transport.Options{Local: local})
		if err != nil {
			c.t.Fatal(err)
		}
		if c.ends[i].IsValid() {
			p.SetPeer(c.ends[i])
		}
		c.seed++
		if c.ports[i], err = transport.Impair(p, c.seed, c.options[1-i]); err != nil {
			c.t.Fatal(err)
		}
		if old != nil {
			n, _ := old.Counts()
			c.past = sum(c.past, n)
			old.Close()
		}
		go c.read(i, p)
	}
}

// addr returns the address at which an end reaches the other end.
func (c *cable) addr(i int) netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ports[i].LocalAddr()
}

// at sets the address of an end.
func (c *cable) at(i int, a netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends[i] = a
	if err := c.ports[i].SetPeer(a); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cable) read(i int, p transport.Port) {
	var b transport.Batch
	for p.Recv(&b) == nil {
		c.mu.Lock()
		b.Each(func(d []byte) {
			if c.longest > 0 && len(d) > c.longest {
				c.long++
				return
			}
			if c.keep {
				c.record[i] = append(c.record[i], bytes.Clone(d))
			}
			c.ports[1-i].Send(d, len(d))
		})
		c.mu.Unlock()
	}
}

// deliver hands an end a datagram as if the other end had sent it.
func (c *cable) deliver(to int, d []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports[to].Send(d, len(d))
}

// set changes the impairment of the datagrams that the given ends send.
func (c *cable) set(o fault.Options, from ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range from {
		c.options[i] = o
		if err := c.ports[1-i].Set(o); err != nil {
			c.t.Fatal(err)
		}
	}
}

// cut cuts off the datagrams that the given ends send, or lets them through again.
func (c *cable) cut(on bool, from ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range from {
		c.ports[1-i].Cut(on)
	}
}

// narrow makes the relay drop datagrams longer than the given number of bytes, without telling
// anybody. With 0, the relay drops no datagram for its length.
func (c *cable) narrow(longest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = longest
}

// recorded begins or ends the recording of datagrams, and returns the datagrams recorded up to now.
func (c *cable) recorded(on bool) [2][][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep = on
	return c.record
}

// struck returns how many datagrams suffered any fault.
func (c *cable) struck() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.past
	for _, p := range c.ports {
		k, _ := p.Counts()
		n = sum(n, k)
	}
	return n.Lost + n.BurstLost + n.CutOff + n.Duplicated + n.Reordered + n.Corrupted + uint64(c.long)
}

func sum(a, b fault.Counts) fault.Counts {
	return fault.Counts{Passed: a.Passed + b.Passed, Lost: a.Lost + b.Lost, BurstLost: a.BurstLost + b.BurstLost, CutOff: a.CutOff + b.CutOff,
		Overflowed: a.Overflowed + b.Overflowed, Duplicated: a.Duplicated + b.Duplicated, Reordered: a.Reordered + b.Reordered, Corrupted: a.Corrupted + b.Corrupted}
}
