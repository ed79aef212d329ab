package node

import (
	"errors"
	"net"
	"runtime"
	"time"

	"ttfabric/ttlink/transport"
	"ttfabric/wire/mono"
)

// cause says which kind of input made the node run the chip.
type cause int

const (
	received cause = iota
	submitted
	timed
	asked
	numCauses
)

// Work counts the node's steps for one cause, and their time. A step is one input of the chip: a
// batch of received datagrams, a request of a program, the timer, or anything else. After a step,
// the node runs the chip, sends the resulting datagrams, and hands results and events to programs.
// If several ports have received batches, the node runs the chip and sends the datagrams once for
// all these batches.
type Work struct {
	Steps   uint64
	Time    time.Duration
	Sending time.Duration // part of Time for sending datagrams and for handing results and events to programs
}

// Load is the node's work since its start, by cause. Received is work for received datagrams,
// Submitted for requests of programs, Timed for the timer, and Asked for everything else.
type Load struct{ Received, Submitted, Timed, Asked Work }

// Load returns the node's work since its start.
func (n *Node) Load() Load {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Load{n.work[received], n.work[submitted], n.work[timed], n.work[asked]}
}

// step runs f on the chip, runs the chip until nothing moves, and sends the resulting datagrams. A
// closed node ignores f.
func (n *Node) step(why cause, f func(now mono.Time)) {
	n.locked(func(now mono.Time) {
		n.work[why].Steps++
		f(now)
		n.settle(why, now)
		if why != submitted || !n.replying {
			n.send(why)
		}
	})
}

// locked calls f with the time, under the lock. If the node is closed, locked does nothing.
func (n *Node) locked(f func(now mono.Time)) {
	n.mu.Lock()
	panics := true
	defer func() {
		if panics {
			n.record.save()
		}
		n.mu.Unlock()
	}()
	if !n.closed {
		f(n.now())
	}
	panics = false
}

// settle runs the chip until nothing moves. The argument "begun" is the time at which the work began. The caller then
// calls the method "send". If a program submits requests soon, settle returns true, and the caller may let the program
// run before the call.
func (n *Node) settle(why cause, begun mono.Time) (soon bool) {
	if h := n.mu.host; h != nil {
		h.Run()
		return false
	}
	for _, p := range n.ports {
		p.fresh = false
	}
	n.yielded = 0
	now := n.now()
	n.chip.Pump(now)
	for moved, more := 0, true; more; {
		if more = n.feed(now); n.hosts.lender != nil {
			more = n.transfer(now, &moved) || more
		}
		if more {
			n.chip.Pump(now)
		}
	}
	if len(n.waiting.words) > 0 {
		soon = n.lookAtWords() // first, because programs wait for these words, and sending the datagrams takes longer than looking
	}
	n.work[why].Time += n.now().Sub(begun)
	return soon
}

// send sends the chip's datagrams, and hands results and events to programs.
func (n *Node) send(why cause) {
	if n.mu.host != nil {
		return // the host has sent the datagrams
	}
	n.replying = false
	begun := n.now()
	n.drain(begun)
	took := n.now().Sub(begun)
	w := &n.work[why]
	w.Time += took
	w.Sending += took
}

// read passes the datagrams that a port receives to the chip, until the port is closed. If several
// ports have datagrams, the goroutines of these ports are ready to run. Gosched lets these
// goroutines pass their datagrams to the chip, too. Then the first goroutine runs the chip for all.
// Each link can then send the results of all these datagrams in one GSO buffer. If a program waits for the datagrams
// to submit requests, a second Gosched lets the program run before the chip sends.
func (n *Node) read(p *livePort) {
	var b transport.Batch
	for {
		err := p.pipe.Recv(&b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			n.log.Warn("receive failed", "chip", n.cfg.Node, "channel", p.ch, "error", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		n.locked(func(now mono.Time) {
			p.heard, p.fresh = now, true
			if len(p.captures) > 0 {
				p.received(&b)
			}
			b.Each(func(d []byte) { n.chip.HandleDatagram(now, p.ch, d) })
			w := &n.work[received]
			w.Steps++
			w.Time += n.now().Sub(now)
		})
		runtime.Gosched()
		soon := false
		n.locked(func(now mono.Time) {
			if p.fresh && !n.yields(now, p) {
				if soon = n.settle(received, now); soon {
					n.replying = true
				} else {
					n.send(received)
				}
			}
			b.Poll = n.patience(now, p)
		})
		if soon {
			runtime.Gosched()
			n.locked(func(now mono.Time) {
				if n.replying && !n.yields(now, p) {
					n.send(received)
				}
			})
		}
	}
}

const (
	// creditPoll is the time for which a port polls its socket while the port's link is short of
	// credits. On loopback, the peer's datagram takes 10 to 40 µs, and a wake-up 5 to 50 µs.
	creditPoll = 100 * time.Microsecond
	// A port polls if no other port has received a datagram for aloneFor.
	aloneFor = time.Millisecond
)

// patience returns the time for which a port shall poll its socket before its goroutine sleeps.
//
// If a link is short of credits, each end waits for the other end's next datagram, and waking up a
// sleeping process often takes longer than the datagram. The port then polls. If other ports also
// receive datagrams, the port does not poll: while its goroutine sleeps, datagrams of several ports
// come together.
func (n *Node) patience(now mono.Time, p *livePort) time.Duration {
	if !n.chip.ShortOfCredits(now, p.ch) {
		return 0
	}
	for _, q := range n.ports {
		if q != p && q.heard != 0 && now.Sub(q.heard) < aloneFor {
			return 0
		}
	}
	return creditPoll
}

// queue is a port that knows whether a datagram of the port's peer waits in the socket.
type queue interface{ Waiting() bool }

// yields reports whether the goroutine of port p leaves the rest of its step to the goroutine of another port. In the
// socket of this other port, a datagram of the peer waits. The chip's answers to the datagrams of both ports then
// leave together. Between two runs of the chip, the goroutines yield at most once for each port.
func (n *Node) yields(now mono.Time, p *livePort) bool {
	if n.yielded >= len(n.ports) {
		return false
	}
	for _, q := range n.ports {
		if q == p || q.heard == 0 || now.Sub(q.heard) >= aloneFor {
			continue
		}
		if w, ok := q.pipe.(queue); ok && w.Waiting() {
			n.yielded++
			return true
		}
	}
	return false
}
