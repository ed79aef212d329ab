package linktest

import (
	"bytes"
	"net/netip"
	"sync"
	"testing"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
)

// local is the address at which the scenarios open their sockets.
var local = netip.MustParseAddrPort("127.0.0.1:0")

// cable is a relay between the UDP sockets of two ports. The relay injects the faults of a bad
// network into the UDP datagrams, after the ports have encrypted them.
type cable struct {
	t    testing.TB
	seed uint64

	mu      sync.Mutex
	ports   [2]*transport.Impaired // ports[i] exchanges datagrams with end i, and impairs the datagrams that it sends to end i
	options [2]fault.Options
	ends    [2]netip.AddrPort // addresses of the two ends
	past    fault.Counts      // faults that the ports before the last rebind counted
	longest int               // longest datagram that the relay passes on, in bytes; 0: no limit
	long    int               // number of datagrams dropped because of longest
	keep    bool              // the relay records the datagrams that it passes on
	record  [2][][]byte       // record[i] holds the recorded datagrams that end i sent
}

func newCable(t testing.TB, seed uint64, o fault.Options) *cable {
	c := &cable{t: t, seed: seed, options: [2]fault.Options{o, o}}
	c.rebind()
	t.Cleanup(func() { c.ports[0].Close(); c.ports[1].Close() })
	return c
}

// rebind replaces the relay's ports by new ports with new addresses.
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

// addr returns the relay's address to which end i must send.
func (c *cable) addr(i int) netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ports[i].LocalAddr()
}

// The method "at" tells the relay the address of end i.
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

// deliver sends a datagram to an end as if the other end had sent the datagram.
func (c *cable) deliver(to int, d []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports[to].Send(d, len(d))
}

// set changes the impairment of the datagrams that some ends send. The argument "from" lists these
// ends.
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

// If "on" is true, cut drops all later datagrams that the ends in the list "from" send. If "on" is
// false, cut passes them on again.
func (c *cable) cut(on bool, from ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range from {
		c.ports[1-i].Cut(on)
	}
}

// narrow makes the relay silently drop datagrams of more than longest bytes. If "longest" is 0, the
// relay passes on datagrams of every length.
func (c *cable) narrow(longest int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = longest
}

// recorded starts or stops the recording of datagrams, and returns all datagrams recorded so far.
func (c *cable) recorded(on bool) [2][][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep = on
	return c.record
}

// struck returns the number of faults that the relay has injected.
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
