// Package socket sends streams of bytes between programs of two chips, with flow control over writes of
// the fabric (Spec §5). The receiver has a FIFO in the L1 of a tile of its chip. Package fifo has the
// protocol, and says what the memory of both chips holds.
//
//	snd, err := socket.Dial(ctx, s, socket.Options{Peer: receiver})  // in a program on one chip
//	err = snd.Send(ctx, data)
//	err = snd.Close(ctx)                                             // returns when the receiver has read all bytes
//
//	rcv, err := socket.Listen(ctx, s, socket.Options{Peer: sender})  // in a program on the other chip
//	n, err := rcv.Recv(ctx, buffer)                                  // io.EOF after the last byte
//	err = rcv.Close(ctx)
//
// Dial and Listen wait for each other. Both ends name the chip of the other end, and the same
// [Options.Number], size, page and plane. If the two ends have different configurations, both calls
// return a [fifo.MismatchError]. Two chips can have several sockets, with different numbers. For
// each number, a chip has at most one sender and one receiver at a time. A second call with the
// same number returns [ErrInUse].
//
// A socket keeps the order of its bytes. A socket survives lost packets, retrained links, fallbacks
// to other cables and new routes. If no route to the other chip is left, a socket ends with an
// error. If a chip restarts, or a program ends, the error is a [fifo.PeerError]. After an error, a
// socket moves no more bytes. The program must still call Close, which frees the memory.
//
// Send returns when the sender has taken the bytes. [Sender.Flush] waits until the bytes are in the
// receiver's FIFO. [Sender.Close] waits until the other program has read the bytes.
package socket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ttfabric/node/fifo"
	"ttfabric/node/noc"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Defaults and limits of sockets.
const (
	DefaultSize = 1 << 20 // size of the FIFO in bytes, if [Options] has no size
	DefaultPage = 1       // size of a page in bytes, if [Options] has no page: a stream of bytes
	MaxOpen     = 1024    // largest number of sends or receives of one end that have not ended
)

// Offsets of the blocks of a socket in the L1 of the socket's tile. ttfabric chose these values,
// because buffers of kernels begin at the lower end of L1. The receiver's FIFO follows its block.
const (
	SenderOffset   = 0x20000 // offset of the sender's block, in bytes
	ReceiverOffset = 0x200A0 // offset of the receiver's block, in bytes
)

// Options describe one end of a socket.
type Options struct {
	Peer   wire.FabricNodeID // chip of the other end
	Number int               // number of the socket, from 0; each number has a tile of its own, see [Place]
	Size   uint32            // size of the FIFO in bytes, a multiple of Page; 0: DefaultSize rounded down to whole pages
	Page   uint32            // the unit of sending in bytes; 0: DefaultPage
	Plane  wire.Plane        // plane of all packets of the socket
	Force  bool              // take the memory even if another end uses the memory; for memory that a program has left behind

	At, PeerAt wire.NocAddr // addresses of this end's and the other end's block; 0: those of Place. A kernel chooses the address of its own end
}

// ErrInUse is the error of an end whose memory another end uses.
var ErrInUse = errors.New("another program uses this end of the socket")

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the socket is closed")

// Place returns the address of the block of an end, for the socket of a number. The socket's tile
// is a Tensix tile that works on all chips of the topology. Number 0 has the last of these tiles,
// because kernels mostly use the first tiles. Place returns an error if no tile is left for the
// number.
func Place(t *topo.Topology, number int, r fifo.Role) (wire.NocAddr, error) {
	var all noc.Harvested
	for i := range t.Chips {
		all |= noc.Harvested(t.Chips[i].Harvested)
	}
	xs, ys := noc.Shared(t.Arch, all)
	n := len(xs) * len(ys)
	if number < 0 || number >= n {
		return 0, fmt.Errorf("socket %d: topology %s has sockets 0 to %d, one for each Tensix tile that works on all chips", number, t.Name, n-1)
	}
	i, off := n-1-number, uint64(SenderOffset)
	if r == fifo.ReceiverRole {
		off = ReceiverOffset
	}
	return wire.NewNocAddr(xs[i%len(xs)], ys[i/len(xs)], off), nil
}

// fill sets the defaults of the options, and checks the options.
func (o *Options) fill(s *session.Session, r fifo.Role) error {
	if o.Page == 0 {
		o.Page = DefaultPage
	}
	if o.Size == 0 {
		o.Size = max(DefaultSize/o.Page, 1) * o.Page
	}
	if err := (fifo.Config{Size: o.Size, Page: o.Page}).Check(); err != nil {
		return err
	}
	for _, p := range []struct {
		at   *wire.NocAddr
		chip wire.FabricNodeID
		role fifo.Role
	}{{&o.At, s.Self(), r}, {&o.PeerAt, o.Peer, r.Other()}} {
		if *p.at == 0 {
			var err error
			if *p.at, err = Place(s.Topology(), o.Number, p.role); err != nil {
				return err
			}
		}
		if err := o.fits(s.Topology(), p.chip, *p.at, p.role); err != nil {
			return err
		}
	}
	return nil
}

// fits returns an error if an end's memory goes beyond the memory of its tile.
func (o *Options) fits(t *topo.Topology, n wire.FabricNodeID, at wire.NocAddr, r fifo.Role) error {
	tiles, err := session.Tiles(t, n)
	if err != nil {
		return err
	}
	need := uint64(fifo.BlockSize)
	if r == fifo.ReceiverRole {
		need += uint64(o.Size)
	}
	for _, x := range tiles {
		if x.X == at.X() && x.Y == at.Y() && !x.Harvested && at.Offset()+need > x.Size {
			return fmt.Errorf("a socket with a FIFO of %d bytes at %s of chip %s: the %s needs %d bytes there, and the tile has %d bytes after this address", o.Size, at, n, r, need, x.Size-min(x.Size, at.Offset()))
		}
	}
	return nil
}

// meetFirst and meetMost are the first and the longest wait between two looks at the other end's block, while
// the ends have not met.
const (
	meetFirst = time.Millisecond
	meetMost  = 50 * time.Millisecond
)

// open claims this end's memory, and waits until the ends have met.
func open(ctx context.Context, s *session.Session, o Options, r fifo.Role) (*end, error) {
	if err := o.fill(s, r); err != nil {
		return nil, err
	}
	e := newEnd(s, o, r)
	own, err := e.lifeOf(ctx, s.Self())
	if err == nil {
		err = e.claim(ctx)
	}
	if err != nil {
		return nil, err
	}
	e.meet.Own = fifo.Block{Role: r, Nonce: rand.Uint64() | 1, Life: own, Peer: o.Peer, Beat: 1,
		Config: fifo.Config{Size: o.Size, Page: o.Page, Plane: o.Plane}}
	block := make([]byte, fifo.BlockSize)
	copy(block, e.meet.Own.Append(nil))
	if err := s.Write(ctx, s.Self(), o.At, block); err != nil {
		return nil, fmt.Errorf("the socket's memory on chip %s: %w", s.Self(), err)
	}
	e.wg.Go(e.beat)
	if err := e.wait(ctx); err != nil {
		if bad := (*fifo.MismatchError)(nil); errors.As(err, &bad) {
			select { // after a mismatch, the other end must also see this end's configuration
			case <-time.After(fifo.RefuseLinger):
			case <-ctx.Done():
			}
		}
		return nil, errors.Join(err, e.free())
	}
	return e, nil
}

// claim returns nil if no end uses this end's memory, or if [Options.Force] is set. An end with a
// beat that has not changed for [fifo.Silence] no longer uses its memory. An end without a beat
// counts as an end that uses its memory.
func (e *end) claim(ctx context.Context) error {
	begin, first := time.Now(), uint32(0)
	for i := 0; ; i++ {
		var b [fifo.OwnerSize]byte
		if err := e.s.Read(ctx, e.s.Self(), e.o.At, b[:]); err != nil {
			return fmt.Errorf("the socket's memory on chip %s: %w", e.s.Self(), err)
		}
		k, err := fifo.ParseBlock(b[:])
		if err != nil || e.o.Force {
			return nil
		}
		if i == 0 {
			first = k.Beat
		}
		if k.Beat == 0 || k.Beat != first {
			return fmt.Errorf("chip %s, the %s at %s: %w, with chip %s at its other end", e.s.Self(), k.Role, e.o.At, ErrInUse, k.Peer)
		}
		if time.Since(begin) > fifo.Silence {
			return nil
		}
		select {
		case <-time.After(fifo.CheckEvery / 4):
		case <-ctx.Done():
			return fmt.Errorf("chip %s, the %s at %s: a program has left this end behind, or uses it: %w", e.s.Self(), k.Role, e.o.At, ctx.Err())
		}
	}
}

// wait waits until the ends have met.
func (e *end) wait(ctx context.Context) error {
	var last error
	for d := meetFirst; ; d = min(2*d, meetMost) {
		fare, err := e.word(ctx, fifo.FareOffset)
		if err != nil {
			return err
		}
		var b [fifo.OwnerSize]byte
		err = e.s.Read(ctx, e.o.Peer, e.o.PeerAt, b[:], session.OnPlane(e.o.Plane))
		if err == nil || fare != 0 {
			publish, met, err := e.meet.Look(fifo.Farewell(fare), b[:])
			if err != nil {
				return err
			}
			if publish {
				var nonce [8]byte
				binary.LittleEndian.PutUint64(nonce[:], e.meet.Own.Met)
				if err := e.s.Write(ctx, e.s.Self(), e.o.At.Add(fifo.MetOffset), nonce[:]); err != nil {
					return err
				}
			}
			if met {
				return nil
			}
		}
		if errors.As(err, new(*session.RefusedError)) || errors.As(err, new(*session.NoRouteError)) {
			return err // for example: the address is wrong, or there is no route even without faults
		}
		last = err
		select {
		case <-time.After(d):
		case <-e.ctx.Done():
			return e.failure()
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("no %s at chip %s, %s, has come: %w", e.role.Other(), e.o.Peer, e.o.PeerAt, ctx.Err()), last)
		}
	}
}

// lifeOf reads the incarnation of a chip.
func (e *end) lifeOf(ctx context.Context, n wire.FabricNodeID) (wire.Incarnation, error) {
	at, ok := noc.LifeRegister(e.s.Topology().Arch)
	if !ok {
		return 0, fmt.Errorf("chips of architecture %s have no life register", e.s.Topology().Arch)
	}
	var b [noc.LifeSize]byte
	err := e.s.Read(ctx, n, at, b[:], session.OnPlane(e.o.Plane))
	return wire.Incarnation(binary.LittleEndian.Uint64(b[:])), err
}
