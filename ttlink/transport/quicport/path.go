package quicport

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"ttfabric/ttlink/transport"
)

// This file notices a path that has become narrower. quic-go searches only for a larger MTU of the
// path, and never for a smaller MTU. When a path becomes narrower, the path drops long packets.
// Short packets, such as acknowledgements, still pass. The connection therefore lives and carries
// no data.
//
// For that reason an end that sends long frames asks its peer from time to time. The end sends a
// short question, and a question as long as the longest frame. If the peer answered many short
// questions and no long question, the end closes the connection. The next connection begins with
// small packets (RFC 8899 §4.3 has the same idea). If the kernel refuses packets for their length,
// its route to the peer immediately tells how long packets may be.

const (
	probeEvery  = 100 * time.Millisecond // time between two questions while the peer does not answer long questions
	probeWait   = time.Second            // time between two questions while the peer does not answer short questions either
	probeRest   = 500 * time.Millisecond // time to the next question after the peer answered a long question
	probeDoubt  = 2                      // unanswered long questions after which the port holds the link's datagrams back
	probeMisses = 10                     // answered short questions that show a narrow path while no long question is answered; happens by chance once in a thousand at 30 % loss each way
	probeHeader = 7                      // length of a probe's content, in bytes
	probeShort  = 64                     // length of a short question and of an answer, in bytes; more than a packet has left beside a long question
	maxOwed     = 16                     // answers that wait to be sent

	leastOverhead = 30 // smallest number of bytes of a packet around a DATAGRAM frame's content; quic-go assumes 37
)

// Kinds of probes.
const (
	probeQuestion = 1
	probeAnswer   = 2
)

// probe returns a frame of size bytes without datagrams. The frame begins with zero in place of the
// datagrams' length. A kind, a number, and zeros follow.
func probe(kind byte, n uint32, size int) []byte {
	b := make([]byte, max(size, probeHeader))
	b[2] = kind
	binary.LittleEndian.PutUint32(b[3:], n)
	return b
}

// decodeProbe reads a frame that probe made.
func decodeProbe(d []byte) (kind byte, n uint32, ok bool) {
	if len(d) < probeHeader || d[0]|d[1] != 0 || d[2] != probeQuestion && d[2] != probeAnswer {
		return 0, 0, false
	}
	return d[2], binary.LittleEndian.Uint32(d[3:]), true
}

// prober holds the state of the questions that this end asks and answers.
type prober struct {
	sent    chan struct{} // signals that this end sent a long frame
	answers chan uint32   // numbers of answered questions; odd numbers are long questions

	mu       sync.Mutex
	owed     []uint32
	replying bool
}

func (w *prober) init() {
	w.sent, w.answers = make(chan struct{}, 1), make(chan uint32, maxOwed)
}

// isLong reports whether a frame is longer than the frames that every path carries.
func isLong(n int) bool { return n > minPacket-guessedOverhead }

// watch ends a connection if the connection's path has become narrower.
func (p *port) watch(c *quic.Conn) {
	for number := uint32(0); ; {
		narrow := false
		select {
		case <-c.Context().Done():
			return
		case <-p.sock.tooLong:
			narrow = p.shrunk()
		case <-p.probes.sent:
			narrow = p.measure(c, &number)
		}
		if narrow {
			c.CloseWithError(codeNarrow, "long packets no longer get through")
			return
		}
		select {
		case <-c.Context().Done():
			return
		case <-time.After(probeRest):
		}
	}
}

// shrunk reports whether this machine's route to the peer takes only packets shorter than the
// connection's packets.
func (p *port) shrunk() bool {
	p.mu.Lock()
	peer := p.peer
	p.mu.Unlock()
	n, err := transport.Route(p.local, peer)
	return err == nil && n < int(p.path.Load())+bundleHeader+leastOverhead
}

// measure asks questions until the peer answers a long question. If the peer answers probeMisses
// short questions before that, the path is narrow.
func (p *port) measure(c *quic.Conn, number *uint32) (narrow bool) {
	for len(p.probes.answers) > 0 { // discards late answers
		<-p.probes.answers
	}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var asked time.Time
	rounds, misses, answered := 0, 0, true
	for misses < probeMisses {
		if answered || time.Since(asked) >= probeWait {
			if rounds++; rounds == probeDoubt+1 {
				// quic-go puts several frames into a packet while they fit. measure holds the lock
				// and thereby stops all other sending. For that reason short questions are short
				// packets.
				p.line.Lock()
				defer p.line.Unlock()
			}
			if !p.question(c, number) {
				return false
			}
			asked, answered = time.Now(), false
		}
		for waiting := true; waiting; {
			select {
			case <-c.Context().Done():
				return false
			case <-p.sock.tooLong:
				if p.shrunk() {
					return true
				}
			case n := <-p.probes.answers:
				if n%2 == 1 {
					return false
				}
				misses, answered = misses+1, true
			case <-tick.C:
				waiting = false
			}
		}
	}
	return true
}

// question sends a short question and a long question. If the connection has ended, question
// reports false.
func (p *port) question(c *quic.Conn, number *uint32) bool {
	for range 2 {
		size := probeShort
		if *number%2 == 1 {
			size = int(p.path.Load()) + bundleHeader
		}
		err := c.SendDatagram(probe(probeQuestion, *number, size))
		*number++
		var tooLong *quic.DatagramTooLargeError // quic-go's limit has changed
		if errors.As(err, &tooLong) {
			p.look(c)
		} else if err != nil {
			return false
		}
	}
	return true
}

// probed handles a probe of the peer.
func (p *port) probed(c *quic.Conn, kind byte, n uint32) {
	w := &p.probes
	if kind == probeAnswer {
		select {
		case w.answers <- n:
		default:
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.owed) < maxOwed {
		w.owed = append(w.owed, n)
	}
	if !w.replying {
		w.replying = true
		p.wg.Go(func() { p.reply(c) })
	}
}

// reply sends the answers that this end owes. reply may wait, but the receiving goroutine must not
// wait.
func (p *port) reply(c *quic.Conn) {
	w := &p.probes
	for {
		w.mu.Lock()
		if len(w.owed) == 0 {
			w.replying = false
			w.mu.Unlock()
			return
		}
		n := w.owed[0]
		w.owed = w.owed[1:]
		w.mu.Unlock()
		_ = c.SendDatagram(probe(probeAnswer, n, probeShort)) // if the answer is lost, the peer asks again
	}
}
