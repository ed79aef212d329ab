package admin

import (
	"ttfabric/node/admin/api"
	"ttfabric/ttlink/transport"
)

// socketView converts the settings and counters of a port's socket to the type of the API.
func socketView(s transport.Stats) api.SocketView {
	return api.SocketView{
		GSO: s.GSO, GRO: s.GRO, Batching: s.Batching, Largest: s.Largest,
		ReceiveBuffer: s.ReceiveBuffer, ReceiveBufferAsked: s.ReceiveBufferAsked, SendBuffer: s.SendBuffer, SendBufferAsked: s.SendBufferAsked,
		Counters: map[string]uint64{
			"sent": s.Sent, "sent_bytes": s.SentBytes, "send_calls": s.SendCalls,
			"received": s.Received, "received_bytes": s.ReceivedBytes, "receive_calls": s.ReceiveCalls,
			"send_buffer_full": s.SendFull, "no_peer": s.NoPeer, "too_long": s.TooLong, "of_others": s.Foreign, "truncated": s.Truncated,
			"receive_buffer_full": s.Overrun, "times_refused": s.Refused, "times_unreachable": s.Unreachable, "times_gso_given_up": s.GSOGivenUp,
		},
	}
}
