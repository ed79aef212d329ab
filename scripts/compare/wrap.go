package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// wrapAt is the sequence number that the first data frame of each direction gets. A few frames
// later, the sequence number wraps to 0.
const wrapAt = wire.Seq(0xFFFFFFF0)

// end names one direction of a session, by the destination channel of the frames. In the machines
// that this test uses, the two ends of a link have different channels.
type end struct {
	session wire.SessionID
	channel wire.Channel
}

// wrap copies a capture of 'ttfabric capture', and shifts all sequence numbers, except in hellos,
// so that they wrap soon. Apart from the checksums, nothing else changes. The dissector must
// therefore find the same retransmissions and gaps in the capture and in the copy.
func wrap(from, to string) error {
	first, channels := map[end]wire.Seq{}, map[wire.SessionID][]wire.Channel{}
	if err := each(from, nil, func(b []byte) {
		f, err := wire.DecodeFrame(b)
		if err != nil || f.Kind != wire.KindData {
			return
		}
		k := end{f.Session, f.Channel}
		if _, known := first[k]; !known {
			first[k] = f.TxSeq
			channels[f.Session] = append(channels[f.Session], f.Channel)
		}
	}); err != nil {
		return err
	}
	shift := func(k end) wire.Seq { return wrapAt - first[k] }
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	wrapped := 0
	err = each(from, out, func(b []byte) {
		f, err := wire.DecodeFrame(b)
		if err != nil || f.Session == 0 || f.Kind == wire.KindHello { // hellos are not shifted, because the incarnation in a hello gives the first sequence number
			return
		}
		le := binary.LittleEndian
		if f.Kind == wire.KindData {
			seq := f.TxSeq + shift(end{f.Session, f.Channel})
			le.PutUint32(b[16:], uint32(seq))
			if seq < wrapAt {
				wrapped++
			}
		}
		for _, c := range channels[f.Session] {
			if c != f.Channel {
				le.PutUint32(b[20:], uint32(f.RxSeq+shift(end{f.Session, c})))
			}
		}
		le.PutUint32(b[len(b)-wire.TrailerLen:], wire.Checksum(b[:len(b)-wire.TrailerLen]))
	})
	if err == nil && wrapped == 0 {
		err = fmt.Errorf("%s: no sequence number wrapped", from)
	}
	return errors.Join(err, out.Close())
}

// The function "each" calls f with each datagram of a capture, and copies the capture to the writer
// "to", with the datagrams as f changed them. If "to" is nil, each writes nothing.
func each(from string, to io.Writer, f func(datagram []byte)) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := capture.NewReader(in)
	if err != nil {
		return err
	}
	var w *capture.Writer
	if to != nil {
		w = capture.NewWriter(to, r.Section)
	}
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			if w != nil {
				return w.Flush()
			}
			return nil
		} else if err != nil {
			return err
		}
		if b.Interface != nil && w != nil {
			w.AddInterface(*b.Interface)
		}
		if b.Packet == nil {
			continue
		}
		if _, _, payload, ok := capture.Payload(b.Packet.Data); ok {
			f(payload)
		}
		if w != nil {
			if err := w.WritePacket(b.Packet); err != nil {
				return err
			}
		}
	}
}
