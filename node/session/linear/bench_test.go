package linear_test

import (
	"testing"

	"ttfabric/node/flow"
	"ttfabric/node/session/device"
	"ttfabric/node/session/linear"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// nowhere is a Sender that builds the packet of each command, and drops the packet.
type nowhere struct {
	t *topo.Topology
	b []byte
}

func (n *nowhere) Self() wire.FabricNodeID  { return wire.FabricNodeID{} }
func (n *nowhere) Topology() *topo.Topology { return n.t }
func (n *nowhere) Wait() error              { return nil }
func (n *nowhere) Poll() (bool, error)      { return true, nil }

func (n *nowhere) Start(h *flow.Request, payload []byte) (device.Pending, error) {
	if n.b != nil {
		p := wire.Packet{Type: wire.PacketRequest, Dst: h.Dst, Command: h.Command, Payload: payload, Route: n.b[:3]}
		n.b = p.Append(n.b[:0])
	}
	return n, nil
}

// BenchmarkHeader compares calls that build their header with calls that use a prepared header. The
// rows "call" measure the call alone, and the rows "packet" the call and the encoding of its packet.
func BenchmarkHeader(b *testing.B) {
	t, err := topo.Named("line:8")
	if err != nil {
		b.Fatal(err)
	}
	at, data := wire.NewNocAddr(1, 1, 0), make([]byte, 64)
	for name, n := range map[string]*nowhere{"call": {t: t}, "packet": {t: t, b: make([]byte, 8192)}} {
		ls, err := linear.Connect(n, linear.To{Dir: wire.East})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/at-once", func(b *testing.B) {
			for b.Loop() {
				if err := linear.UnicastWrite(ls, data, at, 3); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/with-state", func(b *testing.B) {
			if err := linear.UnicastWriteSetState(ls, at, 3); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := linear.UnicastWriteWithState(ls, device.DstAddr, data, at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
