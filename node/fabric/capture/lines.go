package capture

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"ttfabric/wire/capture"
)

// lines is a [Sink] that writes one line of text per frame.
type lines struct {
	w       *bufio.Writer
	tracker capture.Tracker
}

// Lines returns a sink that writes one line of text per frame to w. [capture.Line]
// describes the lines.
func Lines(w io.Writer) Sink { return &lines{w: bufio.NewWriter(w)} }

// AddInterface implements [Sink].
func (*lines) AddInterface(capture.Interface) error { return nil }

// Packet implements [Sink].
func (l *lines) Packet(p *capture.Packet) error {
	from, to, _ := capture.PortsOf(p.Data)
	_, _, payload, _ := capture.Payload(p.Data)
	s := capture.Sight{Port: to, Peer: from, Dir: p.Dir, Data: payload, Length: len(payload) + p.Length - len(p.Data)}
	if p.Dir == capture.DirOut {
		s.Port, s.Peer = from, to
	}
	l.tracker.Look(&s)
	notes := p.Comments
	if p.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("the capture left out %d frames before this frame", p.Dropped))
	}
	_, err := fmt.Fprintln(l.w, capture.Line(p.At, &s, notes))
	return err
}

// Keys implements [Sink]. Keys does nothing, because lines of text do not contain keys.
func (*lines) Keys([]byte) error { return nil }

// Flush implements [Sink].
func (l *lines) Flush() error { return l.w.Flush() }

// Size implements [Sink].
func (*lines) Size() int64 { return 0 }

// Close implements [Sink]. Close does not write the statistics.
func (l *lines) Close([]capture.Statistics) error { return l.w.Flush() }

// Files implements [Sink].
func (*lines) Files() []string { return nil }

// objects is a [Sink] that writes one JSON object per frame.
type objects struct {
	lines
	item    string   // text before each object: "- " makes the object an item of a YAML list
	ports   []string // names of the interfaces
	decoder capture.Decoder
}

// Objects returns a sink that writes one [Frame] per captured frame to w, as a line of
// JSON. If yaml is true, each line is an item of a YAML list.
func Objects(w io.Writer, yaml bool) Sink {
	s := &objects{lines: lines{w: bufio.NewWriter(w)}}
	if yaml {
		s.item = "- "
	}
	return s
}

// Frame is the JSON object that [Objects] writes for a captured frame.
type Frame struct {
	Time      time.Time           `json:"time"`                     // time at which the port sent or received the frame, by the clock of the chip's machine
	Port      string              `json:"port"`                     // name of the port, such as M0D3/eth8
	Direction string              `json:"direction"`                // in: the port received the frame; out: the port sent the frame
	Length    int                 `json:"length"`                   // length of the whole Ethernet frame, in bytes
	Comments  []string            `json:"comments,omitempty"`       // faults that were injected into the frame, and events at the port before the frame
	Dropped   uint64              `json:"dropped_before,omitempty"` // number of frames that the capture left out between the port's last captured frame and this frame, because of lack of room
	Fields    map[string][]string `json:"fields"`                   // fields of the frame, by the names of the Wireshark dissector; see package wire/capture
}

// AddInterface implements [Sink].
func (s *objects) AddInterface(i capture.Interface) error {
	s.ports = append(s.ports, i.Name)
	return nil
}

// Packet implements [Sink].
func (s *objects) Packet(p *capture.Packet) error {
	from, to, payload, _ := capture.Payload(p.Data)
	v := Frame{p.At, s.ports[p.Interface], p.Dir.String(), p.Length, p.Comments, p.Dropped, map[string][]string{}}
	for _, f := range capture.Fields(s.decoder.Datagram(v.Port+from.String()+to.String(), payload)) {
		v.Fields[f.Name] = append(v.Fields[f.Name], f.Value)
	}
	if _, err := s.w.WriteString(s.item); err != nil {
		return err
	}
	return json.NewEncoder(s.w).Encode(v)
}
