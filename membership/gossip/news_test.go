package gossip

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// TestNewsDespiteSuspicion changes a chip's metadata again and again, while another process suspects
// the chip all the time. Memberlist refutes each suspicion with the metadata that it knows and a
// higher number. An announcement of new metadata that memberlist has numbered before such a
// refutation is dropped. The pool must announce these metadata again.
func TestNewsDespiteSuspicion(t *testing.T) {
	t.Parallel()
	s := &swarm{t: t, pace: quick}
	pools := []*Pool{s.start(0, 1, ""), s.start(1, 2, "")}
	for _, p := range pools {
		eventually(t, patience, "a pool of two", func() bool { return len(p.View()) == 2 })
	}
	text := func(b []byte, s string) []byte { // a text in msgpack
		return append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(s))), s...)
	}
	suspect := func(number uint32) []byte { // memberlist's message of type 3: a map with three entries
		b := text([]byte{3, 0x83}, "Incarnation")
		b = binary.BigEndian.AppendUint32(append(b, 0xce), number)
		b = text(text(b, "Node"), pools[0].cfg.Meta.Name())
		return text(text(b, "From"), pools[1].cfg.Meta.Name())
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for number := uint32(1000); ; number += 10 {
			select {
			case pools[0].net.packets <- &memberlist.Packet{Buf: suspect(number), From: net.UDPAddrFromAddrPort(pools[1].Addr()), Timestamp: time.Now()}:
			case <-over:
				return
			}
		}
	}()
	defer func() { close(over); <-ended }()
	m := pools[0].cfg.Meta
	for k := range 10 {
		m.InService, m.LinkVersion = uint16(k), m.LinkVersion+1
		pools[0].UpdateMeta(m)
		eventually(t, soon, "the other chip hears the news", func() bool {
			for _, x := range pools[1].View() {
				if x.Meta.Node == m.Node {
					return x.Meta == m
				}
			}
			return false
		})
	}
}
