package attach

import (
	"io"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// A program that makes one request after the other waits for each answer. Waking up a sleeping
// process takes 5 to 50 µs, and both ends sleep in each round trip. Both ends therefore poll for
// pollTime, if the previous bytes came within this time. If all cores are busy, the two ends share a
// core, and an end that polls keeps the other end from this core. The bytes then come only after
// pollTime, so that most of the next reads do not poll. The value of pollTime is a choice of this project.
const pollTime = 40 * time.Microsecond // longest time for which a Poller polls before it sleeps

// Poller reads from a connection. A Poller polls before it sleeps, if the bytes before came within
// pollTime. If they came later, every [tryEvery]-th read polls. A Poller is for one goroutine.
type Poller struct {
	raw     syscall.RawConn
	try     func(fd uintptr) bool // the method attempt
	once    func(fd uintptr) bool // the method attemptOnce
	several bool                  // this machine has several processors; with one processor, polling would keep the other end from working
	soon    bool                  // the bytes before came within pollTime
	late    uint                  // reads before which the bytes came later
	rests   atomic.Bool           // between Rest and Wake

	b     []byte
	n     int
	err   error
	begin time.Time
	polls bool // the present read may still poll
}

// NewPoller returns a Poller of a connection.
func NewPoller(raw syscall.RawConn) *Poller {
	p := &Poller{raw: raw, several: runtime.NumCPU() > 1}
	p.try, p.once = p.attempt, p.attemptOnce
	return p
}

// Read implements io.Reader.
func (p *Poller) Read(b []byte) (int, error) {
	try := p.soon
	if !try {
		p.late++
		try = p.late%tryEvery == 0
	}
	p.b, p.begin, p.polls = b, time.Now(), try && p.several && !p.rests.Load()
	err := p.raw.Read(p.try)
	p.b = nil
	if err == nil {
		p.soon = time.Since(p.begin) < pollTime
	}
	return p.result(err)
}

// Rest makes reads sleep at once, until [Poller.Wake]. The caller knows that the other end waits for an
// answer that takes long.
func (p *Poller) Rest() { p.rests.Store(true); p.soon = true }

// Wake ends the effect of [Poller.Rest], because the answer has left. Any goroutine may call Wake. If Wake
// returns true, a Read may still sleep. The caller then makes this Read return by a deadline, and calls
// Read anew.
func (p *Poller) Wake() bool { return p.rests.CompareAndSwap(true, false) }

// readNow does what Read does, but returns errNotYet if no byte has come.
func (p *Poller) readNow(b []byte) (int, error) {
	p.b = b
	err := p.raw.Read(p.once)
	p.b = nil
	if err == nil && p.err == syscall.EAGAIN {
		return 0, errNotYet
	}
	return p.result(err)
}

// result returns the result of an attempt. The argument is the error of the connection.
func (p *Poller) result(err error) (int, error) {
	switch {
	case err != nil:
		return 0, err
	case p.err != nil:
		return 0, p.err
	case p.n == 0:
		return 0, io.EOF
	}
	return p.n, nil
}

// attempt reads what has come. attempt returns false if the goroutine shall sleep until bytes come.
func (p *Poller) attempt(fd uintptr) bool {
	for {
		p.n, p.err = syscall.Read(int(fd), p.b)
		switch {
		case p.err == syscall.EINTR:
			continue
		case p.err != syscall.EAGAIN:
			return true
		case !p.polls:
			return false
		}
		runtime.Gosched()
		p.polls = time.Since(p.begin) < pollTime
	}
}

// attemptOnce reads what has come, and never makes the goroutine sleep.
func (p *Poller) attemptOnce(fd uintptr) bool {
	for p.n, p.err = syscall.Read(int(fd), p.b); p.err == syscall.EINTR; {
		p.n, p.err = syscall.Read(int(fd), p.b)
	}
	return true
}
