package transport_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ttfabric/ttlink/transport"
)

// BenchmarkGoodput measures the bit rate of received datagrams, in one direction over loopback,
// between two goroutines. The metric %lost is the share of bytes that did not arrive. Results of
// different machines or runs cannot be compared.
func BenchmarkGoodput(b *testing.B) {
	for _, seg := range []int{64, 1500, 4224} {
		b.Run(fmt.Sprintf("%d/plain", seg), func(b *testing.B) { goodputPlain(b, seg) })
		for _, m := range []struct {
			name string
			o    transport.Options
		}{
			{"one per call", transport.Options{GSO: transport.Off, GRO: transport.Off, Batch: transport.Off}},
			{"batch", transport.Options{GSO: transport.Off, GRO: transport.Off}},
			{"GSO alone", transport.Options{GRO: transport.Off}},
			{"GSO and GRO", transport.Options{}},
		} {
			b.Run(fmt.Sprintf("%d/%s", seg, m.name), func(b *testing.B) { goodput(b, seg, m.o) })
		}
	}
}

// goodput sends runs through two ports, 8 runs of the largest size per call.
func goodput(b *testing.B, seg int, o transport.Options) {
	x, y := joined(b, o)
	runs := make([]transport.Run, 8)
	per := min(transport.MaxSegments, transport.MaxDatagram/seg)
	for i := range runs {
		runs[i] = transport.Run{Data: make([]byte, per*seg), Seg: seg}
	}
	var received atomic.Uint64
	go func() {
		var batch transport.Batch
		for y.Recv(&batch) == nil {
			n := 0
			batch.Each(func(d []byte) { n += len(d) })
			received.Add(uint64(n))
		}
	}()
	report(b, len(runs)*per*seg, &received, func() {
		if _, err := x.SendBatch(runs); err != nil {
			b.Fatal(err)
		}
	})
}

// goodputPlain sends the same amount through the standard library, one datagram per call.
func goodputPlain(b *testing.B, seg int) {
	x, y := plainPair(b)
	var received atomic.Uint64
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, err := y.Read(buf)
			if err != nil {
				return
			}
			received.Add(uint64(n))
		}
	}()
	data := make([]byte, seg)
	report(b, 64*seg, &received, func() {
		for range 64 {
			if _, err := x.Write(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func report(b *testing.B, bytes int, received *atomic.Uint64, send func()) {
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		send()
	}
	b.StopTimer()
	got := float64(received.Load())
	b.ReportMetric(got*8/1e9/b.Elapsed().Seconds(), "Gbit/s")
	b.ReportMetric(100*max(0, 1-got/float64(b.N*bytes)), "%lost")
	b.ReportMetric(0, "ns/op")
}

// plainPair returns two UDP sockets of the standard library that are connected to each other. The
// sockets' buffers have the size of a port's buffers.
func plainPair(b *testing.B) (x, y *net.UDPConn) {
	ports := [2]netip.AddrPort{}
	for i := range ports { // find two free port numbers, because each socket must know the other's number when it is opened
		p := open(b, transport.Options{})
		ports[i] = p.LocalAddr()
		p.Close()
	}
	var conns [2]*net.UDPConn
	for i := range conns {
		c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(ports[i]), net.UDPAddrFromAddrPort(ports[1-i]))
		if err != nil {
			b.Fatal(err)
		}
		_ = c.SetReadBuffer(transport.DefaultBuffer)
		_ = c.SetWriteBuffer(transport.DefaultBuffer)
		b.Cleanup(func() { c.Close() })
		conns[i] = c
	}
	return conns[0], conns[1]
}

// BenchmarkRoundTrip measures the round-trip time of a datagram of 64 bytes between two goroutines.
// Only one datagram is under way at a time.
func BenchmarkRoundTrip(b *testing.B) {
	ping := make([]byte, 64)
	b.Run("plain", func(b *testing.B) {
		x, y := plainPair(b)
		go func() {
			buf := make([]byte, 1<<16)
			for {
				n, err := y.Read(buf)
				if err != nil {
					return
				}
				y.Write(buf[:n])
			}
		}()
		buf := make([]byte, 1<<16)
		roundTrips(b, func() {
			x.Write(ping)
			if _, err := x.Read(buf); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("port", func(b *testing.B) {
		x, y := joined(b, transport.Options{})
		go func() {
			var batch transport.Batch
			for y.Recv(&batch) == nil {
				batch.Each(func(d []byte) { y.Send(d, len(d)) })
			}
		}()
		var batch transport.Batch
		roundTrips(b, func() {
			x.Send(ping, len(ping))
			if err := x.Recv(&batch); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func roundTrips(b *testing.B, once func()) {
	times := make([]time.Duration, 0, 1<<20)
	for b.Loop() {
		start := time.Now()
		once()
		if len(times) < cap(times) {
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2])/1e3, "p50-µs")
	b.ReportMetric(float64(times[len(times)*99/100])/1e3, "p99-µs")
	b.ReportMetric(0, "ns/op")
}
