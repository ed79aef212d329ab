package admin

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"time"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// Times of a capture over the API.
const (
	captureBeat  = 200 * time.Millisecond // shortest time between two statistics blocks of a port; only the last block may come sooner
	captureSlack = 20 * time.Millisecond  // longest time from sending or receiving a datagram until the datagram is in the capture's buffer
)

// parseCapture reads the query q of a call that begins a capture. The error names the wrong
// parameter.
func parseCapture(q url.Values) (b api.CaptureBody, err error) {
	number := func(name string, high int) int {
		v := q.Get(name)
		if v == "" {
			return 0
		}
		n, e := strconv.Atoi(v)
		if (e != nil || n < 0 || n > high) && err == nil {
			err = fmt.Errorf("%s=%s: want 0 to %d", name, v, high)
		}
		return n
	}
	b.SnapLen, b.BufferMiB = number("snaplen", api.MaxSnapLen), number("buffer", capture.MaxBuffer>>20)
	b.Filter, b.ID, b.Keys = q.Get("filter"), q.Get("id"), number("keys", 1) == 1
	for p := range strings.SplitSeq(q.Get("ports"), ",") {
		if p == "" {
			continue
		}
		n, e := strconv.ParseUint(p, 10, 8)
		if e != nil || n >= wire.MaxChannels {
			return b, fmt.Errorf("ports=%s: want numbers of channels from 0 to %d, separated by commas", q.Get("ports"), wire.MaxChannels-1)
		}
		b.Channels = append(b.Channels, wire.Channel(n))
	}
	if len(b.ID) > api.MaxID {
		return b, fmt.Errorf("the id has %d bytes; want at most %d bytes", len(b.ID), api.MaxID)
	}
	return b, err
}

// The method "capture" handles a call that begins a capture. The answer is a pcapng file with the
// datagrams of the ports. The file ends when the caller disconnects, when another call ends the
// capture, or when the node is closed.
func (s *Server) capture(w http.ResponseWriter, r *http.Request) {
	b, err := parseCapture(r.URL.Query())
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	f, err := capture.ParseFilter(b.Filter)
	if err != nil {
		problem(w, http.StatusBadRequest, err.Error())
		return
	}
	if !s.capturing.take(w, "captures") {
		return
	}
	defer s.capturing.leave()
	c, err := s.n.Capture(node.CaptureConfig{Channels: b.Channels, SnapLen: b.SnapLen, Filter: f, Buffer: b.BufferMiB << 20})
	if err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	defer c.Close()
	if b.ID != "" {
		if _, twice := s.captures.LoadOrStore(b.ID, c); twice {
			problem(w, http.StatusConflict, fmt.Sprintf("there is already a capture with the id %q", b.ID))
			return
		}
		defer s.captures.Delete(b.ID)
	}
	w.Header().Set("Content-Type", api.MediaCapture)
	k := s.newCaptureStream(w, c, &b)
	defer k.http.Flush()
	for k.out.Flush() == nil && k.http.Flush() == nil {
		ctx, cancel := context.WithTimeout(r.Context(), captureBeat)
		k.past = time.Now()
		err := c.Read(ctx, k.packet)
		cancel()
		k.writeKeys()
		switch {
		case errors.Is(err, io.EOF):
			k.past = time.Now().Add(captureSlack)
			k.statistics()
			_ = k.out.Flush() // an error means that the caller has disconnected
			return
		case r.Context().Err() != nil:
			return
		}
		if time.Since(k.told) >= captureBeat {
			k.statistics()
		}
	}
}

// captureStream writes the datagrams of a capture to a caller, as a pcapng file.
type captureStream struct {
	out     *capture.Writer
	http    *http.ResponseController
	c       *node.Capture
	ports   map[wire.Channel]int               // number of each port's interface in the file
	peers   map[wire.Channel]node.CapturedPort // the captured ports
	stats   map[wire.Channel]uint64            // number of datagrams that each port's last statistics block gives
	told    time.Time                          // time of the last call of the method "statistics"; before the first call: time of the stream's start
	past    time.Time                          // time just before the last read from the capture; at the end of the capture, the present time plus captureSlack
	snapLen int                                // largest number of bytes of each Ethernet frame that the stream writes; 0: all bytes
	log     *transport.KeyLog                  // secrets of the ports' connections; nil: the caller wants no secrets
	keysAt  int                                // number of bytes of the field "log" that the stream has written
	frame   []byte                             // memory for the next Ethernet frame
	number  uint16                             // identification in the IP header of the last Ethernet frame
}

// newCaptureStream returns a stream that writes the datagrams of the capture c to w.
// newCaptureStream adds the description of the chip and of the captured ports to the stream, and
// the secrets if b asks for them.
func (s *Server) newCaptureStream(w http.ResponseWriter, c *node.Capture, b *api.CaptureBody) *captureStream {
	t := s.n.Topology()
	k := &captureStream{http: http.NewResponseController(w), c: c, snapLen: b.SnapLen, told: time.Now(),
		ports: map[wire.Channel]int{}, peers: map[wire.Channel]node.CapturedPort{}, stats: map[wire.Channel]uint64{}}
	k.out = capture.NewWriter(w, capture.Section{Hardware: t.Arch.String() + ", emulated", OS: runtime.GOOS, Application: "ttfabric",
		Comments: []string{fmt.Sprintf("chip %s of %s", s.n.Self(), t.Name)}})
	for _, p := range c.Ports() {
		k.peers[p.Local.Channel] = p
		k.ports[p.Local.Channel] = k.out.AddInterface(capture.Interface{Name: capture.PortName(p.Local), Description: describePort(&p),
			Filter: b.Filter, MAC: capture.MAC(p.Local), SnapLen: b.SnapLen})
	}
	if b.Keys {
		k.log = s.n.KeyLog()
		k.writeKeys()
	}
	return k
}

// describePort returns the description of a port, which stands in the port's interface block in the
// pcapng file. If the transport encrypts frames, the description says that the file has the frames
// before encryption.
func describePort(p *node.CapturedPort) string {
	d := fmt.Sprintf("to %s, plane %d, %s", capture.PortName(p.Peer), p.Plane, p.Transport)
	if p.Transport != "UDP" {
		d += "; the frames are shown before encryption"
	}
	return d
}

// The method "packet" writes one datagram to the stream.
func (k *captureStream) packet(c *node.Captured) {
	p := k.peers[c.Channel]
	from, to := capture.Endpoint{Port: p.Peer, Addr: c.From}, capture.Endpoint{Port: p.Local, Addr: c.To}
	dir := capture.DirIn
	if c.Sent {
		from.Port, to.Port, dir = p.Local, p.Peer, capture.DirOut
	}
	k.number++
	sum := c.Sum
	if len(c.Data) == c.Length {
		sum = capture.Sum(c.Data)
	}
	var length int
	k.frame, length = capture.AppendFrame(k.frame[:0], from, to, c.Data, c.Length, sum, k.number)
	if k.snapLen > 0 {
		k.frame = k.frame[:min(len(k.frame), k.snapLen)]
	}
	_ = k.out.WritePacket(&capture.Packet{Interface: k.ports[c.Channel], At: c.At, Dir: dir, Data: k.frame, Length: length,
		Comments: c.Notes, Dropped: c.Dropped, ID: packetID(c.Data)}) // Flush returns the error
}

// packetID returns an id of a datagram. The parameter b has the bytes of the datagram that the
// capture keeps. The id is the same in captures at both ends of the cable, if nothing changes the
// datagram on its way. Both captures must also keep equally many bytes.
func packetID(b []byte) uint64 {
	return uint64(crc32.ChecksumIEEE(b))<<32 | uint64(wire.Checksum(b))
}

// writeKeys writes the secrets that came into the key log after the last call of writeKeys. If the
// caller wants no secrets, writeKeys does nothing.
func (k *captureStream) writeKeys() {
	if k.log != nil {
		var lines []byte
		lines, k.keysAt = k.log.Since(k.keysAt)
		_ = k.out.WriteKeys(lines) // Flush returns the error
	}
}

// The method "statistics" writes a statistics block for the first port. Another port gets a block
// if datagrams have passed the port since the port's last block. A port also gets a block if notes
// wait for the port's next datagram. Each block has an end time. All datagrams that
// the capture recorded up to this time are in the stream before the block.
func (k *captureStream) statistics() {
	k.told = time.Now()
	for ch, i := range k.ports {
		if s := k.c.Statistics(ch); i == 0 || s.Received != k.stats[ch] || len(s.Comments) > 0 {
			k.stats[ch] = s.Received
			s.End = k.past.Add(-captureSlack)
			_ = k.out.WriteStatistics(i, s) // Flush returns the error
		}
	}
}

// endCapture handles a call that ends a capture. The query has the id of the capture.
func (s *Server) endCapture(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	c, ok := s.captures.Load(id)
	if !ok {
		problem(w, http.StatusNotFound, fmt.Sprintf("there is no capture with the id %q", id))
		return
	}
	c.(*node.Capture).Close()
	w.WriteHeader(http.StatusNoContent)
}
