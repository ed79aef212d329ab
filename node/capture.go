package node

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// Limits of captures at one chip.
const (
	MaxCaptures  = 8         // captures that may run at the same time
	captureChunk = 256 << 10 // bytes of one chunk
	chunkFrames  = 1024      // largest number of datagrams in one chunk
)

// CaptureConfig selects what a capture records.
type CaptureConfig struct {
	Channels []wire.Channel  // channels of the ports to capture; empty: all ports
	SnapLen  int             // number of bytes to keep of each datagram, from its start; 0: all bytes
	Filter   *capture.Filter // the datagrams to capture; nil: all datagrams
	Buffer   int             // size of the memory for datagrams that wait to be read, in bytes, captureChunk to [capture.MaxBuffer]; 0: [capture.DefaultBuffer]
}

// Capture records the datagrams that a chip's ports send and receive, for one reader. A chip
// without a Capture does no extra work for a packet. A Capture records a datagram as the chip sent
// it, even if an injected fault then changes or drops the datagram. No packet waits for the reader
// of a Capture. If a Capture has no room for a datagram, the Capture drops the datagram from its
// recording and counts the loss.
type Capture struct {
	n      *Node
	cfg    CaptureConfig
	start  time.Time
	wake   chan struct{}
	chunks int // number of chunks that the capture may make

	mu      sync.Mutex
	tracker capture.Tracker
	ports   map[wire.Channel]*capturedPort
	full    []*chunk // chunks that wait for Read, oldest first; take adds datagrams to the last chunk
	free    []*chunk
	made    int // number of chunks made so far
	closed  bool
}

// CapturedPort is a port whose datagrams a capture records.
type CapturedPort struct {
	Local, Peer wire.PortID
	Plane       wire.Plane
	Transport   string // name of the transport that carries the frames, for example "UDP"
}

// capturedPort is the state of a capture at one port.
type capturedPort struct {
	CapturedPort
	stats   capture.Statistics
	lost    uint64   // datagrams that the capture had no room for, since the last recorded datagram
	notes   []string // notes that the capture adds to the next datagram
	unnoted int      // notes dropped because too many notes waited for a datagram
}

// Captured is one recorded datagram. Read hands each Captured to a function. The bytes in Data are
// valid only until this function returns.
type Captured struct {
	Channel  wire.Channel
	At       time.Time
	Sent     bool
	From, To netip.AddrPort
	Data     []byte   // the first bytes of the datagram, as many as the capture keeps
	Length   int      // length of the whole datagram, in bytes
	Sum      uint16   // checksum of the whole datagram, see [capture.Sum]; 0 if Data holds the whole datagram
	Notes    []string // faults injected into the datagram, and events at the port before the datagram
	Dropped  uint64   // datagrams of this port that the capture had no room for, since the port's last recorded datagram
}

// chunk is a piece of a capture's memory, for several datagrams.
type chunk struct {
	frames []Captured
	data   []byte
}

// Capture begins a capture. The caller must read the capture and close it.
func (n *Node) Capture(cfg CaptureConfig) (*Capture, error) {
	if cfg.Buffer == 0 {
		cfg.Buffer = capture.DefaultBuffer
	}
	if cfg.Filter == nil {
		cfg.Filter = &capture.Filter{}
	}
	switch {
	case cfg.Buffer < captureChunk || cfg.Buffer > capture.MaxBuffer:
		return nil, fmt.Errorf("a capture buffer of %d bytes: want %d to %d bytes, or 0 for %d bytes", cfg.Buffer, captureChunk, capture.MaxBuffer, capture.DefaultBuffer)
	case cfg.SnapLen < 0:
		return nil, fmt.Errorf("a capture of %d bytes of each datagram: want a positive number, or 0 for all bytes", cfg.SnapLen)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, ErrClosed
	}
	if len(n.captures) >= MaxCaptures {
		return nil, fmt.Errorf("chip %s has %d captures already, which is the largest number; end another capture first", n.cfg.Node, MaxCaptures)
	}
	c := &Capture{n: n, cfg: cfg, start: n.wall(), wake: make(chan struct{}, 1), chunks: cfg.Buffer / captureChunk, ports: map[wire.Channel]*capturedPort{}}
	for _, ch := range cfg.Channels {
		if int(ch) >= len(n.byCh) || n.byCh[ch] == nil {
			return nil, fmt.Errorf("chip %s has no cable at channel %d", n.cfg.Node, ch)
		}
	}
	for _, p := range n.ports {
		if len(cfg.Channels) > 0 && !slices.Contains(cfg.Channels, p.ch) {
			continue
		}
		x := &capturedPort{CapturedPort: CapturedPort{wire.PortID{Node: n.cfg.Node, Channel: p.ch}, p.peer, p.plane, transportName(p.pipe)}}
		x.stats.Start = c.start
		c.ports[p.ch] = x
		p.captures = append(p.captures, c)
		p.connect()
	}
	n.captures = append(n.captures, c)
	return c, nil
}

// transportName returns the name of a pipe's transport.
func transportName(p transport.Port) string {
	if d, ok := p.(transport.Describer); ok {
		return d.Describe()
	}
	return "UDP"
}

// connect chooses the transport by which a port sends. The transport is the port's pipe, or a
// wrapper of the pipe that injects faults or feeds captures. The caller holds the node's lock.
func (p *livePort) connect() {
	var see func(transport.Tapped)
	if len(p.captures) > 0 {
		see = p.seen
	}
	switch {
	case p.fault.wrap != nil:
		p.fault.wrap.Watch(see)
		p.out = p.fault.wrap
	case see != nil:
		p.out = transport.Tap(p.pipe, see)
	default:
		p.out = p.pipe
	}
}

// seen hands a datagram to all captures of the port. The caller holds the node's lock.
func (p *livePort) seen(t transport.Tapped) {
	for _, c := range p.captures {
		c.take(p, &t)
	}
}

// received hands received datagrams to all captures of the port. The caller holds the node's lock.
func (p *livePort) received(b *transport.Batch) {
	now := time.Now()
	b.Each(func(d []byte) { p.seen(transport.Tapped{At: now, Data: d}) })
}

// take records a datagram if the filter accepts the datagram. A closed capture ignores the
// datagram. A capture without room only counts the datagram.
func (c *Capture) take(p *livePort, t *transport.Tapped) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.ports[p.ch]
	if c.closed || x == nil {
		return
	}
	x.stats.Received++
	if !c.cfg.Filter.All() {
		s := capture.Sight{Port: x.Local, Peer: x.Peer, Dir: capture.DirIn, Data: t.Data, Length: len(t.Data), Fault: t.Fate.Any()}
		if t.Sent {
			s.Dir = capture.DirOut
		}
		c.tracker.Look(&s)
		if !c.cfg.Filter.Takes(&s) {
			return
		}
	}
	x.stats.Accepted++
	keep := t.Data
	if c.cfg.SnapLen > 0 {
		keep = keep[:min(len(keep), c.cfg.SnapLen)]
	}
	k := c.room(len(keep))
	if k == nil {
		x.stats.Dropped++
		x.lost++
		return
	}
	f := Captured{Channel: p.ch, At: t.At, Sent: t.Sent, From: c.n.address(p), To: p.to, Length: len(t.Data), Dropped: x.lost, Notes: x.notesFor(&t.Fate)}
	if !t.Sent {
		f.From, f.To = f.To, f.From
	}
	if len(keep) < len(t.Data) {
		f.Sum = capture.Sum(t.Data)
		if !t.Sent && !wire.IsRaw(t.Data) {
			if _, err := wire.DecodeFrame(t.Data); err != nil {
				f.Notes = append(f.Notes, capture.RefusedNote+err.Error())
			}
		}
	}
	start := len(k.data)
	k.data = append(k.data, keep...)
	f.Data = k.data[start:]
	k.frames = append(k.frames, f)
	x.lost = 0
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// address returns the local address and UDP port of a port. If the port listens on all addresses of
// the machine, the result has the chip's address in the gossip pool, once the node knows it. The
// caller holds the node's lock.
func (n *Node) address(p *livePort) netip.AddrPort {
	a := p.pipe.LocalAddr()
	if a.Addr().IsUnspecified() && n.peers.self.IsValid() { // the port listens on all addresses of the machine
		return netip.AddrPortFrom(n.peers.self, a.Port())
	}
	return a
}

// notesFor returns the notes on a datagram. The result contains the waiting notes of the port,
// which then no longer wait, and a note on the faults injected into the datagram.
func (x *capturedPort) notesFor(f *transport.Fate) []string {
	notes := x.notes
	if x.unnoted > 0 {
		notes = append(notes, fmt.Sprintf("and %d more notes", x.unnoted))
	}
	if f.Any() {
		notes = append(notes, "injected fault: "+f.String())
	}
	x.notes, x.unnoted = nil, 0
	return notes
}

// room returns a chunk with room for a datagram of n bytes. If the capture's memory is full, room
// returns nil.
func (c *Capture) room(n int) *chunk {
	if l := len(c.full); l > 0 {
		if k := c.full[l-1]; len(k.frames) < chunkFrames && len(k.data)+n <= cap(k.data) {
			return k
		}
	}
	var k *chunk
	switch l := len(c.free); {
	case l > 0:
		k, c.free = c.free[l-1], c.free[:l-1]
	case c.made < c.chunks:
		c.made++
		k = &chunk{data: make([]byte, 0, captureChunk)}
	default:
		return nil
	}
	c.full = append(c.full, k)
	return k
}

// maxPortNotes is the largest number of notes that may wait for the next datagram of a port.
const maxPortNotes = capture.MaxComments - 2

// note makes every capture of a port add a text about an event to the port's next recorded
// datagram. If maxPortNotes texts wait already, the capture only counts the text. The caller holds
// the node's lock.
func (n *Node) note(ch wire.Channel, text string) {
	if int(ch) >= len(n.byCh) || n.byCh[ch] == nil {
		return
	}
	for _, c := range n.byCh[ch].captures {
		c.mu.Lock()
		if x := c.ports[ch]; len(x.notes) < maxPortNotes {
			x.notes = append(x.notes, text)
		} else {
			x.unnoted++
		}
		c.mu.Unlock()
	}
}

// Ports returns the ports whose datagrams the capture records, sorted by channel.
func (c *Capture) Ports() []CapturedPort {
	var out []CapturedPort
	for ch := range wire.Channel(wire.MaxChannels) {
		if x := c.ports[ch]; x != nil {
			out = append(out, x.CapturedPort)
		}
	}
	return out
}

// Statistics returns the capture's counts so far for a port that the capture records. The field
// Comments holds the notes that wait for the port's next datagram.
func (c *Capture) Statistics(ch wire.Channel) capture.Statistics {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.ports[ch].stats
	s.End = c.n.wall()
	s.Comments = slices.Clone(c.ports[ch].notes)
	return s
}

// Read waits until the capture holds a datagram that was not read yet. Read then calls f for each
// such datagram, in the order of recording, and returns nil. If ctx ends first, Read returns the
// error of ctx. Once the capture is closed and all datagrams have been read, Read returns [io.EOF].
func (c *Capture) Read(ctx context.Context, f func(*Captured)) error {
	for {
		c.mu.Lock()
		take, closed := c.full, c.closed
		c.full = nil
		c.mu.Unlock()
		for _, k := range take {
			for i := range k.frames {
				f(&k.frames[i])
			}
			clear(k.frames)
			k.frames, k.data = k.frames[:0], k.data[:0]
			c.mu.Lock()
			c.free = append(c.free, k)
			c.mu.Unlock()
		}
		switch {
		case len(take) > 0:
			return nil
		case closed:
			return io.EOF
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.wake:
		}
	}
}

// Close ends the recording. The caller can still read the datagrams that were recorded before
// Close.
func (c *Capture) Close() {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.close()
}

// close does the work of [Capture.Close]. The caller holds the node's lock.
func (c *Capture) close() {
	c.n.captures = slices.DeleteFunc(c.n.captures, func(x *Capture) bool { return x == c })
	for _, p := range c.n.ports {
		if i := slices.Index(p.captures, c); i >= 0 {
			p.captures = slices.Delete(p.captures, i, i+1)
			p.connect()
		}
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
