package board

import "ttfabric/wire"

// Codes of messages to the ARC processor's firmware (tt-umd, arc_message_type and ArcMessageType).
const (
	msgNop         = 0x11
	msgLegacyAt    = 0x2C // address of the old telemetry
	msgClock       = 0x34 // frequency of the AI clock, in MHz
	msgBusy        = 0x52
	msgShortIdle   = 0x53
	msgLongIdle    = 0x54
	msgHarvesting  = 0x57
	msgDRAMTrained = 0x58
	msgTest        = 0x90 // answers its argument plus 1
	msgSetupIATU   = 0x97 // the host maps its own memory; the chip has nothing to do
	msgUnreset     = 0xBA // the processors of the tiles may run
)

// Frequencies of the AI clock, in MHz (tt-umd, AICLK_BUSY_VAL and AICLK_IDLE_VAL).
const (
	busyWormhole  = 1000
	idleWormhole  = 500
	busyBlackhole = 1350
	idleBlackhole = 800
)

// clocks returns the largest and the smallest frequency of the AI clock.
func (b *Board) clocks() (most, least uint32) {
	if b.topology.Arch == wire.Blackhole {
		return busyBlackhole, idleBlackhole
	}
	return busyWormhole, idleWormhole
}

// clock returns the present frequency of the AI clock: the frequency that a host has last asked
// for.
func (b *Board) clock() uint32 {
	most, least := b.clocks()
	if b.arc != nil && b.arc.boosted {
		return most
	}
	return least
}

// message performs a message, and returns its answer. If the firmware does not know the message, message
// returns false.
func (b *Board) message(code, arg uint32) (answer uint32, known bool) {
	switch code {
	case msgTest:
		return arg + 1, true
	case msgBusy, msgShortIdle, msgLongIdle:
		b.state().boosted = code == msgBusy
		return 0, true
	case msgNop:
		return 0, true
	}
	if b.topology.Arch == wire.Blackhole {
		return 0, false
	}
	switch code {
	case msgLegacyAt:
		return csm + smbus, true
	case msgClock:
		return b.clock(), true
	case msgHarvesting:
		return FirmwareMask(b.topology.Arch, b.names().harvested), true
	case msgDRAMTrained, msgSetupIATU, msgUnreset:
		return 0, true
	}
	return 0, false
}

// A message on Wormhole is a scratch register with the code and the prefix, and another one with the
// argument. The answer replaces the argument. The firmware then writes the code without the prefix, with
// the exit code in the upper half, or notKnown.
const (
	msgPrefix   = 0xAA00
	codeMask    = 0xFF
	notKnown    = 0xFFFFFFFF
	firstCode   = 5 // scratch registers of tt-umd's messages
	firstArg    = 3
	secondCode  = 2 // scratch registers of a second sender (luwen, use_second_mailbox)
	secondArg   = 4
	queueOK     = 0
	queueFailed = 0xFF // the firmware does not know the message (tt-umd, BlackholeArcMessageQueue::send_message)
)

// serveScratch performs the messages in the scratch registers.
func (b *Board) serveScratch() {
	s := b.state()
	for _, r := range [][2]int{{firstCode, firstArg}, {secondCode, secondArg}} {
		code := s.scratch[r[0]]
		if code&^codeMask != msgPrefix {
			continue
		}
		answer, known := b.message(code&codeMask, s.scratch[r[1]])
		if !known {
			s.scratch[r[0]] = notKnown
			continue
		}
		s.scratch[r[0]], s.scratch[r[1]] = code&codeMask, answer
	}
}

// Message queues of Blackhole (tt-umd, blackhole_arc_message_queue.hpp). The control block has the address
// of the first queue and the number of entries of each. A queue has a header, the entries of requests, and the
// entries of responses.
const (
	numQueues   = 4
	queueDepth  = 4 // our own choice
	entryWords  = 8
	headerWords = 8
	queueLen    = headerWords + 2*queueDepth*entryWords // in words
	queuesLen   = numQueues * queueLen * 4              // in bytes
)

// Words of a queue's header. The indices count modulo twice queueDepth.
const (
	requestWrite  = 0 // host
	responseRead  = 1 // host
	requestRead   = 4 // firmware
	responseWrite = 5 // firmware
)

// queueMemory returns the words of all queues, to change them.
func (b *Board) queueMemory() []uint32 {
	s := b.state()
	if s.queues == nil {
		s.queues = make([]uint32, numQueues*queueLen)
	}
	return s.queues
}

// queueWord returns a word of the control block or of the queues.
func (b *Board) queueWord(off uint64) uint32 {
	switch {
	case off == queueBlock:
		return csm + queueWords
	case off == queueBlock+4:
		return queueDepth
	case off >= queueWords && off < queueWords+queuesLen && b.arc != nil && b.arc.queues != nil:
		return b.arc.queues[(off-queueWords)/4]
	}
	return 0
}

// serveQueues performs the requests in all queues, as far as the queues have room for the
// responses. If a host has written wrong indices into a queue, the queue keeps its requests.
func (b *Board) serveQueues() {
	const turn = 2 * queueDepth
	all := b.queueMemory()
	for i := range numQueues {
		q := all[i*queueLen:][:queueLen]
		if q[requestWrite] >= turn || q[responseRead] >= turn || q[requestRead] >= turn || q[responseWrite] >= turn {
			continue
		}
		for q[requestRead] != q[requestWrite] && (q[responseWrite]-q[responseRead])%turn < queueDepth {
			request := q[headerWords+q[requestRead]%queueDepth*entryWords:][:entryWords]
			response := q[headerWords+(queueDepth+q[responseWrite]%queueDepth)*entryWords:][:entryWords]
			answer, known := b.message(request[0]&codeMask, request[1])
			clear(response)
			response[0], response[1] = queueOK, answer
			if !known {
				response[0] = queueFailed
			}
			q[requestRead], q[responseWrite] = (q[requestRead]+1)%turn, (q[responseWrite]+1)%turn
		}
	}
}
