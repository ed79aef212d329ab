package admin

import "ttfabric/ttlink/transport"

// SocketView is what a port found out about its socket, and what went wrong
// with it; see [transport.Stats].
type SocketView struct {
	GSO                bool `json:"gso"` // super-packets out
	GRO                bool `json:"gro"` // super-packets in
	Batching           bool `json:"batching"`
	ReceiveBuffer      int  `json:"receive_buffer_bytes"` // granted
	ReceiveBufferAsked int  `json:"receive_buffer_asked_bytes"`
	SendBuffer         int  `json:"send_buffer_bytes"`
	SendBufferAsked    int  `json:"send_buffer_asked_bytes"`
	Largest            int  `json:"largest_datagram_bytes"` // that the path takes now

	Counters map[string]uint64 `json:"counters"` // of datagrams, if the name says nothing else
}

func socketView(s transport.Stats) SocketView {
	return SocketView{
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
