package kernel

import (
	"encoding/binary"
	"time"

	"ttfabric/node/noc"
	"ttfabric/wire"
)

// The ethernet dataflow API (CCL guide, "End-to-End Flow Control"; tt-metal: ethernet/dataflow_api.h and
// tunneling.h). All calls need a kernel on an ethernet tile. The word of a channel is an
// eth_channel_sync_t of 16 bytes at [EriscChannels]. An update of a channel is a command of one word to
// the same address at the other end of the cable.
const (
	bytesSent   = 0 // offset of bytes_sent in a channel's word
	receiverAck = 4 // offset of receiver_ack
	ethWord     = 16
	userQueue   = 0 // the guide: "only tx_cmd_q 0 is made available for use"
)

// MaxEthWords is the length of the longest command of a transaction command queue, in words of 16 bytes:
// the whole L1 of an ethernet tile of a Blackhole.
const MaxEthWords = 512 << 10 / ethWord

func channelAddr(channel int) uint32 { return EriscChannels + uint32(channel)*ChannelSize }

// ethernet returns the channel of the kernel's tile.
func (k *Context) ethernet(call string) wire.Channel {
	ch, ok := k.Channel()
	if !ok {
		k.fault("%s on tile %s: want an ethernet tile", call, k.Tile())
	}
	return ch
}

func (k *Context) transaction(call string, channel int) uint32 {
	k.ethernet(call)
	if channel < 0 || channel >= NumChannels {
		k.fault("%s on channel %d: want 0 to %d", call, channel, NumChannels-1)
	}
	return channelAddr(channel)
}

// EthTxqIsBusy reports whether a transaction command queue takes no command now (tt-metal:
// eth_txq_is_busy).
func (k *Context) EthTxqIsBusy(queue int) bool {
	k.p.call()
	k.queue("eth_txq_is_busy", queue)
	return k.p.m.cfg.Host.Busy(k.p.tile.channel, queue)
}

func (k *Context) queue(call string, queue int) {
	k.ethernet(call)
	if queue < 0 || queue >= NumQueues {
		k.fault("%s on queue %d: want 0 to %d", call, queue, NumQueues-1)
	}
}

// NumQueues is the number of transaction command queues that the calls of a Context know (CCL guide,
// "Ethernet Transaction Command Queues"). The guide's calls use queue 0. Queue 1 is reserved: a kernel may
// send on queue 1 only if [Job].Queue1 is true.
const NumQueues = 2

// EthSendPacket copies words of 16 bytes over the tile's cable (tt-metal: eth_send_packet). The
// word address src is in the kernel's tile, and dst is in the tile at the other end. EthSendPacket
// waits while the queue is busy. The link reads the source later. Until the other end acknowledges,
// the source must not change.
func (k *Context) EthSendPacket(queue int, src, dst uint32, words int) {
	for {
		busy, ok := k.sendPacket("eth_send_packet", queue, src, dst, words)
		if ok {
			return
		}
		k.p.pause(wait{kind: forQueue, queue: uint8(busy), routing: true})
	}
}

// EthSendPacketUnsafe is EthSendPacket for a queue that is not busy (tt-metal: eth_send_packet_unsafe). If
// the queue takes no command now, the job ends. [Context.EthTxqIsBusy] tells before the call.
func (k *Context) EthSendPacketUnsafe(queue int, src, dst uint32, words int) {
	if _, ok := k.sendPacket("eth_send_packet_unsafe", queue, src, dst, words); !ok {
		k.fault("eth_send_packet_unsafe on queue %d of tile %s: the queue is busy", queue, k.Tile())
	}
}

// sendPacket starts a command on a queue. If sendPacket returns false, the queue with the returned number
// takes no command now.
func (k *Context) sendPacket(call string, queue int, src, dst uint32, words int) (busy int, ok bool) {
	k.p.call()
	k.queue(call, queue)
	if queue != userQueue && !k.p.job.spec.Queue1 {
		k.fault("%s on queue %d: the queue is reserved; set Queue1 of the job to use the queue", call, queue)
	}
	size := k.p.tile.tile.Size
	if words < 0 || words > MaxEthWords || (uint64(src)+uint64(words))*ethWord > size || (uint64(dst)+uint64(words))*ethWord > size {
		k.fault("%s of %d words from word 0x%x to word 0x%x: the tile has %d words of %d bytes", call, words, src, dst, size/ethWord, ethWord)
	}
	if words == 0 {
		return queue, true
	}
	return k.p.m.cfg.Host.Send(k.p.m.now, k.p.job.spec.ID, k.p.tile.channel, queue, src*ethWord, dst*ethWord, words)
}

// send is like EthSendPacket, but takes byte addresses, and uses the users' queue.
func (k *Context) send(call string, src, dst uint32, n int) {
	if src%ethWord != 0 || dst%ethWord != 0 || n%ethWord != 0 {
		k.fault("%s of %d bytes from 0x%x to 0x%x: want multiples of %d", call, n, src, dst, ethWord)
	}
	k.EthSendPacket(userQueue, src/ethWord, dst/ethWord, n/ethWord)
}

// EthSendBytes sends n bytes from src to dst at the other end, and adds n to bytes_sent of channel
// 0 (tt-metal: eth_send_bytes). [Context.EthWaitForReceiverDone] sends the channel's word.
func (k *Context) EthSendBytes(src, dst uint32, n int) {
	a := k.transaction("eth_send_bytes", 0)
	k.send("eth_send_bytes", src, dst, n)
	k.Store32(a+bytesSent, k.Load32(a+bytesSent)+uint32(n))
}

// EthWaitForReceiverDone sends the word of channel 0, and waits until the receiver has cleared the
// word (tt-metal: eth_wait_for_receiver_done).
func (k *Context) EthWaitForReceiverDone() {
	a := k.transaction("eth_wait_for_receiver_done", 0)
	k.send("eth_wait_for_receiver_done", a, a, ChannelSize)
	k.waitRouting(a+bytesSent, 0)
}

// EthSendBytesOverChannel sends n bytes from src to dst at the other end, and then the channel's word
// with bytes_sent = n (tt-metal: eth_send_bytes_over_channel).
func (k *Context) EthSendBytesOverChannel(src, dst uint32, n, channel int) {
	k.EthSendBytesOverChannelPayloadOnly(src, dst, n, channel)
	k.EthSendPayloadCompleteSignalOverChannel(channel, n)
}

// EthSendBytesOverChannelPayloadOnly sends n bytes from src to dst at the other end, without a channel's
// word (tt-metal: eth_send_bytes_over_channel_payload_only). The channel's word follows. If the word says
// already that bytes came, the receiver may read the buffer too early, and the machine reports
// [SyncFirst].
func (k *Context) EthSendBytesOverChannelPayloadOnly(src, dst uint32, n, channel int) {
	a := k.transaction("eth_send_bytes_over_channel", channel)
	if k.Load32(a+bytesSent) != 0 {
		k.p.m.violated(k.p.job, k.p.String(), Violation{Rule: SyncFirst, Tile: k.Tile(), Addr: src, Size: uint32(n), Command: "eth_send_bytes_over_channel"})
	}
	k.send("eth_send_bytes_over_channel", src, dst, n)
}

// EthSendPayloadCompleteSignalOverChannel sends the channel's word with bytes_sent = n (tt-metal:
// eth_send_payload_complete_signal_over_channel).
func (k *Context) EthSendPayloadCompleteSignalOverChannel(channel, n int) {
	a := k.transaction("eth_send_payload_complete_signal_over_channel", channel)
	k.Store32(a+bytesSent, uint32(n))
	k.Store32(a+receiverAck, 0)
	k.send("eth_send_payload_complete_signal_over_channel", a, a, ChannelSize)
}

// EthWaitForBytes waits until bytes_sent of channel 0 is n (tt-metal: eth_wait_for_bytes).
func (k *Context) EthWaitForBytes(n int) { k.EthWaitForBytesOnChannel(n, 0) }

// EthWaitForBytesOnChannel waits until bytes_sent of the channel is n (tt-metal:
// eth_wait_for_bytes_on_channel).
func (k *Context) EthWaitForBytesOnChannel(n, channel int) {
	k.waitRouting(k.transaction("eth_wait_for_bytes_on_channel", channel)+bytesSent, uint32(n))
}

// EthBytesAreAvailableOnChannel reports whether bytes_sent of the channel is not 0 (tt-metal:
// eth_bytes_are_available_on_channel).
func (k *Context) EthBytesAreAvailableOnChannel(channel int) bool {
	return k.Load32(k.transaction("eth_bytes_are_available_on_channel", channel)+bytesSent) != 0
}

// EthWaitForBytesAvailableOnChannel waits until bytes_sent of the channel is not 0. On the chip, a
// kernel polls eth_bytes_are_available_on_channel.
func (k *Context) EthWaitForBytesAvailableOnChannel(channel int) {
	k.WaitWord(k.transaction("eth_bytes_are_available_on_channel", channel)+bytesSent, Differs, 0)
}

// EthReceiverChannelAck tells the sender that the bytes came: the sender may use its buffer again
// (tt-metal: eth_receiver_channel_ack). The link reads the update from a separate word at ackAddr,
// because the channel's word is about to change (CCL guide, "End-to-End Flow Control").
func (k *Context) EthReceiverChannelAck(channel int, ackAddr uint32) {
	a := k.transaction("eth_receiver_channel_ack", channel)
	k.Store32(a+receiverAck, 1)
	k.Store32(ackAddr+bytesSent, 1)
	k.Store32(ackAddr+receiverAck, 1)
	k.send("eth_receiver_channel_ack", ackAddr, a, ChannelSize)
}

// EthReceiverChannelDone tells the sender that the receiver's buffer is free (tt-metal:
// eth_receiver_channel_done).
func (k *Context) EthReceiverChannelDone(channel int) {
	a := k.transaction("eth_receiver_channel_done", channel)
	k.Store32(a+bytesSent, 0)
	k.Store32(a+receiverAck, 0)
	k.send("eth_receiver_channel_done", a, a, ChannelSize)
}

// EthIsReceiverChannelSendAcked reports whether the receiver has acknowledged (tt-metal:
// eth_is_receiver_channel_send_acked).
func (k *Context) EthIsReceiverChannelSendAcked(channel int) bool {
	return k.Load32(k.transaction("eth_is_receiver_channel_send_acked", channel)+receiverAck) != 0
}

// EthIsReceiverChannelSendDone reports whether the receiver is done (tt-metal:
// eth_is_receiver_channel_send_done).
func (k *Context) EthIsReceiverChannelSendDone(channel int) bool {
	return k.Load32(k.transaction("eth_is_receiver_channel_send_done", channel)+bytesSent) == 0
}

// EthWaitForReceiverChannelDone waits until the receiver is done (tt-metal:
// eth_wait_for_receiver_channel_done).
func (k *Context) EthWaitForReceiverChannelDone(channel int) {
	k.waitRouting(k.transaction("eth_wait_for_receiver_channel_done", channel)+bytesSent, 0)
}

// EthWaitForReceiverChannelAck waits until the receiver has acknowledged.
func (k *Context) EthWaitForReceiverChannelAck(channel int) {
	k.WaitWord(k.transaction("eth_is_receiver_channel_send_acked", channel)+receiverAck, Differs, 0)
}

// EthClearSenderChannelAck clears receiver_ack of the channel (tt-metal: eth_clear_sender_channel_ack).
func (k *Context) EthClearSenderChannelAck(channel int) {
	k.Store32(k.transaction("eth_clear_sender_channel_ack", channel)+receiverAck, 0)
}

// EthSetupHandshake waits until the kernel at the other end of the cable runs (CCL guide, "Ethernet
// Kernel Setup (Device Side)"). After the handshake, the two kernels may write into each other's
// L1. One of the two kernels is the master. The handshake uses channel 0 and the 16 bytes at
// [HandshakeAddr].
func (k *Context) EthSetupHandshake(master bool) {
	if master {
		k.EthSendBytes(HandshakeAddr, HandshakeAddr, ethWord)
		k.EthWaitForReceiverDone()
		return
	}
	k.EthWaitForBytes(ethWord)
	k.EthReceiverChannelDone(0)
}

// EthTeardown waits until the receivers of the kernel's sender channels are done (CCL guide,
// "Ethernet Kernel Teardown"). Without this wait, the next kernel could take a late word for a word
// of its own peer.
func (k *Context) EthTeardown(channels ...int) {
	for _, c := range channels {
		k.EthWaitForReceiverChannelDone(c)
	}
}

// RunRouting lets the base firmware of the tile work, and yields (CCL guide, "Link Health and Retraining").
// The firmware serves the host's queues, passes requests of other tiles on, and retrains the link when a
// host asks for it.
//
// By default, the firmware works whenever a kernel waits. If the job is strict, the firmware of the
// tile works only inside RunRouting, and inside calls that themselves run the routing. These calls
// are EthWaitForReceiverDone, EthWaitForBytes, EthWaitForBytesOnChannel,
// EthWaitForReceiverChannelDone, EthTeardown, EthNocSemaphoreWait and EthNocAsyncBarrier.
// EthSendPacket, and the calls that use EthSendPacket, run the routing while the queue is busy. A
// link that has lost its path trains again without the firmware.
func (k *Context) RunRouting() { k.RunRoutingFor(PollPause) }

// RunRoutingFor is like RunRouting, for a kernel that has nothing to do until the next store into
// its tile. The kernel continues after the next store into the tile by any chip, kernel or host, or
// after the time d.
func (k *Context) RunRoutingFor(d time.Duration) {
	k.p.call()
	k.p.pause(wait{kind: forTurn, routing: true, until: k.until(d)})
}

// RunRoutingUntilFree is like RunRoutingFor, but the kernel also continues when a transaction command queue takes
// commands.
func (k *Context) RunRoutingUntilFree(queue int, d time.Duration) {
	k.p.call()
	k.queue("run_routing_until_free", queue)
	k.p.pause(wait{kind: forTurn, routing: true, until: k.until(d), queue: uint8(queue), free: true})
}

// EthNocSemaphoreWait waits inside RunRouting until the semaphore at address a of the tile is v (tt-metal:
// eth_noc_semaphore_wait).
func (k *Context) EthNocSemaphoreWait(a, v uint32) {
	k.ethernet("eth_noc_semaphore_wait")
	k.waitRouting(a, v)
}

// EthNocAsyncBarrier waits inside RunRouting until all NoC commands of the kernel have taken effect
// (tt-metal: eth_noc_async_write_barrier and eth_noc_async_read_barrier).
func (k *Context) EthNocAsyncBarrier() {
	k.ethernet("eth_noc_async_barrier")
	k.barrier(true)
}

// waitRouting waits inside RunRouting until the word at address a of the tile is v.
func (k *Context) waitRouting(a, v uint32) {
	k.aligned("wait", a, wordSize)
	if k.Load32(a) != v {
		k.p.pause(wait{kind: forWord, routing: true, addr: a, value: v})
	}
}

// checkTeardown reports the channels whose receiver has not sent its last update when a kernel
// ends.
func (p *process) checkTeardown() {
	if p.tile.tile.Kind != noc.Ethernet {
		return
	}
	for c := range NumChannels {
		var b [ChannelSize]byte
		a := channelAddr(c)
		p.m.cfg.Memory.Read(p.addr(a), b[:])
		if n := binary.LittleEndian.Uint32(b[bytesSent:]); n != 0 {
			p.m.violated(p.job, p.String(), Violation{Rule: Outstanding, Tile: p.start.Tile, Addr: a, Size: ChannelSize})
		}
	}
}
