package quicport

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"ttfabric/ttlink/transport"
)

// This file detects a path that has become narrower. quic-go can find out that a path takes longer
// packets than before, but not that a path takes only shorter packets. A path that has become
// narrower drops long packets. Short packets, such as acknowledgements, still pass. The connection
// therefore stays open but carries no data.
//
// An end that sends long DATAGRAM frames therefore sends probes from time to time: a short
// question, and a question of the longest length. The peer answers each question with a short
// answer. If the peer has answered many short questions and no long question, the end closes the
// connection. The next connection begins with small packets. RFC 8899 §4.3 describes a similar
// method. If the kernel refuses a packet because of its length, the end asks the kernel for the
// route's MTU instead.

const (
	probeEvery  = 100 * time.Millisecond // time between two pairs of questions if the peer answers the short question only
	probeWait   = time.Second            // time between two pairs of questions if the peer answers neither question
	probeRest   = 500 * time.Millisecond // time between an answer to a long question and the next pair of questions
	probeDoubt  = 2                      // unanswered pairs of questions after which the port stops sending the link's datagrams
	probeMisses = 10                     // this many answered short questions without an answered long question show that the path is narrow; at 30 % loss in each direction, loss alone gives this result in one of 1000 measurements
	probeHeader = 7                      // length of a probe's content, in bytes
	probeShort  = 64                     // length of a short question and of an answer, in bytes; too long to fit into one packet with a long question
	maxOwed     = 16                     // largest number of answers that wait to be sent

	leastOverhead = 30 // smallest number of bytes that a packet adds to a DATAGRAM frame's content; quic-go assumes 37
)

// The kinds of probes.
const (
	probeQuestion = 1
	probeAnswer   = 2
)

// probe returns the content of a DATAGRAM frame that is a probe, of at least size bytes. The
// content is two zero bytes, the kind (1 byte), the number n (4 bytes), and zeros.
func probe(kind byte, n uint32, size int) []byte {
	b := make([]byte, max(size, probeHeader))
	b[2] = kind
	binary.LittleEndian.PutUint32(b[3:], n)
	return b
}

// decodeProbe reads a probe. If the DATAGRAM frame d is not a probe, ok is false.
func decodeProbe(d []byte) (kind byte, n uint32, ok bool) {
	if len(d) < probeHeader || d[0]|d[1] != 0 || d[2] != probeQuestion && d[2] != probeAnswer {
		return 0, 0, false
	}
	return d[2], binary.LittleEndian.Uint32(d[3:]), true
}

// prober holds the state of the questions that this end asks, and of the answers that this end
// sends.
type prober struct {
	sent    chan struct{} // signals that this end sent a long DATAGRAM frame
	answers chan uint32   // numbers of the questions that the peer answered; long questions have odd numbers

	mu       sync.Mutex
	owed     []uint32
	replying bool
}

func (w *prober) init() {
	w.sent, w.answers = make(chan struct{}, 1), make(chan uint32, maxOwed)
}

// isLong reports whether a DATAGRAM frame of n bytes may be too long for some paths.
func isLong(n int) bool { return n > minPacket-guessedOverhead }

// watch closes a connection if its path has become narrower. watch runs until the connection has
// ended.
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

// shrunk reports whether this machine's route to the peer refuses packets as long as the longest
// packets of the connection.
func (p *port) shrunk() bool {
	p.mu.Lock()
	peer := p.peer
	p.mu.Unlock()
	n, err := transport.Route(p.local, peer)
	return err == nil && n < int(p.path.Load())+bundleHeader+leastOverhead
}

// measure sends pairs of questions until the peer answers a long question or the connection ends,
// and then returns false. If the peer has answered probeMisses short questions and no long
// question, measure returns true. If the kernel refuses a packet because of its length, and shrunk
// returns true, measure also returns true.
func (p *port) measure(c *quic.Conn, number *uint32) (narrow bool) {
	for len(p.probes.answers) > 0 { // discards late answers to questions of earlier calls
		<-p.probes.answers
	}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var asked time.Time
	rounds, misses, answered := 0, 0, true
	for misses < probeMisses {
		if answered || time.Since(asked) >= probeWait {
			if rounds++; rounds == probeDoubt+1 {
				// quic-go puts several DATAGRAM frames into one packet if they fit. A short
				// question in a long packet with other frames would be lost on a narrow path.
				// measure therefore holds the lock, which stops the sending of datagrams of the
				// link.
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
// returns false.
func (p *port) question(c *quic.Conn, number *uint32) bool {
	for range 2 {
		size := probeShort
		if *number%2 == 1 {
			size = int(p.path.Load()) + bundleHeader
		}
		err := c.SendDatagram(probe(probeQuestion, *number, size))
		*number++
		var tooLong *quic.DatagramTooLargeError // the size that quic-go takes has become smaller
		if errors.As(err, &tooLong) {
			p.look(c)
		} else if err != nil {
			return false
		}
	}
	return true
}

// probed handles a probe from the peer.
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

// reply sends the answers that wait in p.probes.owed. reply has its own goroutine, because
// SendDatagram may wait and the receiving goroutine must not wait.
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
		_ = c.SendDatagram(probe(probeAnswer, n, probeShort)) // if an answer is not sent, the peer asks again
	}
}
