package quicport_test

import (
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/quicport"
)

// BenchmarkGoodput measures the bit rate of received datagrams, in one direction over loopback,
// over QUIC and over plain UDP. Each datagram has 1,376 bytes, the size of a link's frame in a QUIC
// packet. Results of different machines or runs cannot be compared.
func BenchmarkGoodput(b *testing.B) {
	x, y := ends(b)
	quic := [2]transport.Keyed{x(b, quicport.Options{}), y(b, quicport.Options{})}
	join(b, quic[0], quic[1])
	b.Run("QUIC", func(b *testing.B) { goodput(b, quic[0], quic[1]) })
	var udp [2]transport.Port
	for i := range udp {
		p, err := transport.Listen(transport.Options{Local: loopback})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { p.Close() })
		udp[i] = p
	}
	udp[0].SetPeer(udp[1].LocalAddr())
	udp[1].SetPeer(udp[0].LocalAddr())
	b.Run("UDP", func(b *testing.B) { goodput(b, udp[0], udp[1]) })
}

func goodput(b *testing.B, x, y transport.Port) {
	const seg, per = 1376, 40
	var received atomic.Uint64
	go func() {
		var batch transport.Batch
		for y.Recv(&batch) == nil {
			n := 0
			batch.Each(func(d []byte) { n += len(d) })
			received.Add(uint64(n))
		}
	}()
	data := make([]byte, per*seg)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		for rest := data; len(rest) > 0; {
			n, err := x.Send(rest, seg)
			if err != nil {
				b.Fatal(err)
			}
			if rest = rest[n*seg:]; len(rest) > 0 {
				time.Sleep(20 * time.Microsecond)
			}
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(received.Load())*8/1e9/b.Elapsed().Seconds(), "Gbit/s")
	b.ReportMetric(0, "ns/op")
}
