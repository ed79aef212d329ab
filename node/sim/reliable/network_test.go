package reliable

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// words returns the data of a packet, which the tests can compute again at the destination.
func words(src Place, seq uint64, n int) []uint64 {
	rng := rand.New(rand.NewPCG(uint64(src.X)<<8|uint64(src.Y), seq))
	out := make([]uint64, n)
	for i := range out {
		out[i] = rng.Uint64()
	}
	return out
}

func packet(src, dst Place, seq uint64, n int) *Packet {
	return &Packet{Src: src, Dst: dst, Seq: seq, Words: words(src, seq, n)}
}

// TestEveryPair sends a packet from each node to each node, with each policy, with and without
// tokens.
func TestEveryPair(t *testing.T) {
	for _, cfg := range []Config{
		{Mesh: Mesh{W: 4, H: 4}, Seed: 1}, {Mesh: Mesh{W: 5, H: 3}, Seed: 2, Drift: 100}, {Mesh: Mesh{W: 4, H: 4}, Policy: Ordered, Seed: 3},
		{Mesh: Mesh{W: 4, H: 4}, Policy: OrderedIn, Phase: OnePhase}, {Mesh: Mesh{W: 4, H: 4}, NoTokens: true, Seed: 4}, {Mesh: Mesh{W: 1, H: 6}, Seed: 5},
	} {
		t.Run(fmt.Sprintf("%v %v tokens %v", cfg.Mesh, cfg.Policy, !cfg.NoTokens), func(t *testing.T) {
			n, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := map[uint64]*Packet{}
			for i := range cfg.Mesh.Nodes() {
				for k := range cfg.Mesh.Nodes() {
					p := packet(cfg.Mesh.Place(i), cfg.Mesh.Place(k), uint64(k), (i+k)%40)
					p.Priority, p.Diagnostic = uint8(k%2), k%5 == 3
					if err := n.Send(p); err != nil {
						t.Fatal(err)
					}
					want[p.ID()] = p
				}
			}
			if err := settle(n, settleLimit); err != nil {
				t.Fatal(err)
			}
			compare(t, n, want)
			if c := n.Total(); c.Dropped+c.Backups+c.Generated+c.ParityErrors != 0 {
				t.Errorf("without a fault: %+v", c)
			}
		})
	}
}

// settle runs the network until it is idle, for at most the given number of flit times, and checks
// the invariants on the way. In the idle network, all channels must be free.
func settle(n *Network, limit int) error {
	for k := 0; !n.Idle(); k++ {
		if k >= limit {
			return fmt.Errorf("packets are still under way after %d flit times: %+v", limit, n.Total())
		}
		n.RunUntil(n.Now() + FlitTime)
		if k%16 == 0 {
			if err := n.Check(); err != nil {
				return err
			}
		}
	}
	n.RunUntil(n.Now() + 32*FlitTime) // the last acknowledgements arrive
	for i := range n.nodes {
		x := &n.nodes[i]
		for p := range x.outs {
			for v := range x.outs[p] {
				if o := &x.outs[p][v]; !x.dead && (o.owner != nil || o.count != 0) {
					return fmt.Errorf("node %v: channel %d of port %d is not free in an idle network: %d flits", x.at, v, p, o.count)
				}
			}
		}
	}
	return n.Check()
}

// compare finds that each packet in "want" was delivered once, with its words.
func compare(t *testing.T, n *Network, want map[uint64]*Packet) (deliveries []Delivery) {
	t.Helper()
	seen := map[uint64]bool{}
	for d, ok := n.PollDelivery(); ok; d, ok = n.PollDelivery() {
		deliveries = append(deliveries, d)
		id := d.ID()
		p := want[id]
		if p == nil || seen[id] || d.Dst != p.Dst || d.Priority != p.Priority || d.Diagnostic != p.Diagnostic || fmt.Sprint(d.Words) != fmt.Sprint(p.Words) {
			t.Fatalf("packet %d of %v arrived twice or changed: %+v, want %+v", d.Seq, d.Src, d, p)
		}
		seen[id] = true
	}
	for id, p := range want {
		if !seen[id] {
			t.Fatalf("packet %d from %v to %v was lost", p.Seq, p.Src, p.Dst)
		}
	}
	return deliveries
}
