package linktest

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
)

// local is where the sockets of the scenarios are.
var local = netip.MustParseAddrPort("127.0.0.1:0")

// cable is a relay between two UDP ports, with sockets of its own. It does to
// what crosses it what a bad network does: beneath QUIC and beneath the seal.
type cable struct {
	t    testing.TB
	seed uint64

	mu      sync.Mutex
	ports   [2]*transport.Impaired // facing either end; what they do is done to what the other end sends
	options [2]fault.Options
	ends    [2]netip.AddrPort // where the ends are
	past    fault.Counts      // of the ports that were
	longest int               // bytes of a datagram that gets through; 0: any
	long    int               // datagrams that were longer
	keep    bool              // what crosses is recorded
	record  [2][][]byte       // by the end that sent
}

func newCable(t testing.TB, seed uint64, o fault.Options) *cable {
	c := &cable{t: t, seed: seed, options: [2]fault.Options{o, o}}
	c.rebind()
	t.Cleanup(func() { c.ports[0].Close(); c.ports[1].Close() })
	return c
}

// rebind moves both of the relay's addresses.
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

// addr is where an end finds the other.
func (c *cable) addr(i int) netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ports[i].LocalAddr()
}

// at says where an end is.
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

// deliver hands an end a datagram as if the other had sent it.
func (c *cable) deliver(to int, d []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports[to].Send(d, len(d))
}

// set changes what is done to what some ends send.
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

// cut takes away what some ends send, or lets it through again.
func (c *cable) cut(on bool, from ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range from {
		c.ports[1-i].Cut(on)
	}
}

// narrow lets only datagrams of so many bytes through, and says nothing of the others; 0: any.
func (c *cable) narrow(longest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = longest
}

// recorded begins or ends the recording of what crosses, and returns what there is of it.
func (c *cable) recorded(on bool) [2][][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep = on
	return c.record
}

// struck is how many datagrams suffered, whatever it was.
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
