package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/google/gopacket"

	"ttfabric/wire"
	"ttfabric/wire/capture"
)

type options struct {
	lua, tshark string
	twoPass     bool
}

// The method "with" adds the arguments that all calls of tshark have in common. tshark then tries
// our dissector before the dissectors that have fixed ports, because a link may use one of these
// fixed ports. Our Wireshark profile has this setting too.
func (o *options) with(args []string) []string {
	args = append(args, "-o", "udp.try_heuristic_first:TRUE")
	if o.lua != "" {
		args = append(args, "-X", "lua_script:"+o.lua)
	}
	if o.twoPass {
		args = append(args, "-2")
	}
	return args
}

// count holds numbers of compared datagrams, frames, packets and fields. The field "assembled"
// counts the packets of several frames, partial the incomplete packets, and faults the frames with
// a fault.
type count struct {
	datagrams, frames, packets, assembled, partial, fields, faults int
}

// compare runs tshark over a capture, and compares each of tshark's layers with the layer of the Go
// decoder. A capture without a TT-link frame is an error.
func compare(o *options, name string) (n count, err error) {
	cmd := exec.Command(o.tshark, o.with([]string{"-r", name, "-T", "pdml"})...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return n, err
	}
	if err := cmd.Start(); err != nil {
		return n, err
	}
	defer func() { err = errors.Join(err, cmd.Wait()) }()
	var d capture.Decoder
	err = readPDML(out, func(p *packet) error { return n.packet(&d, p) })
	if err != nil {
		_, _ = io.Copy(io.Discard, out)
		return n, err
	}
	if n.frames == 0 {
		return n, errors.New("the capture has no TT-link frame")
	}
	return n, nil
}

// packet compares one captured packet, as tshark shows it, with the result of the Go decoder.
func (n *count) packet(d *capture.Decoder, p *packet) error {
	if p.luaError != "" {
		return fmt.Errorf("packet %s: Lua error: %s", p.number, p.luaError)
	}
	if p.payload == "" || p.quoted {
		return nil
	}
	payload, err := hex.DecodeString(p.payload)
	if err != nil {
		return fmt.Errorf("packet %s: udp.payload: %w", p.number, err)
	}
	if len(p.layers) == 0 {
		if capture.IsTTLink(payload) {
			return fmt.Errorf("packet %s (%s): the Go decoder finds TT-link, but tshark finds %s: %.80s…", p.number, strings.TrimSpace(p.from), strings.Join(p.protos, ", "), p.payload)
		}
		return nil
	}
	n.datagrams++
	layers := d.Datagram(p.from, payload)
	if len(layers) != len(p.layers) {
		return fmt.Errorf("packet %s: tshark shows %d layers, the Go decoder %d", p.number, len(p.layers), len(layers))
	}
	for i, l := range layers {
		want := wanted(l)
		if err := n.layer(want, &p.layers[i]); err != nil {
			return fmt.Errorf("packet %s, layer %d (%s): %w", p.number, i, p.layers[i].name, err)
		}
		switch l := l.(type) {
		case *capture.TTLink:
			if n.frames++; l.Fault != nil {
				n.faults++
			}
		case *capture.Fabric:
			n.packets++
			if l.Partial {
				n.partial++
			} else if l.Pieces > 1 {
				n.assembled++
			}
		}
	}
	return nil
}

// wanted returns the fields that the dissector must show of a layer. The result has the fields of
// the Go decoder, and a few fields that follow from the decoder's fields.
func wanted(l gopacket.Layer) map[string][]string {
	want := map[string][]string{}
	add := func(name, value string) { want[name] = append(want[name], normal(value)) }
	for _, f := range capture.Fields([]gopacket.Layer{l}) {
		add(f.Name, f.Value)
	}
	switch l := l.(type) {
	case *capture.TTLink:
		if l.Whole {
			add("ttlink.frame_len", strconv.Itoa(len(l.Contents)))
			add("ttlink.crc.status", want["ttlink.crc.good"][0])
		} else if l.Head {
			add("ttlink.crc.status", "2")
		}
		if l.Fault == nil && l.Frame.Kind != wire.KindUpdate && l.Frame.Kind != wire.KindHello && len(l.Frame.Payload) > 0 {
			add("ttlink.payload", hex.EncodeToString(l.Frame.Payload))
		}
	case *capture.Fabric:
		switch {
		case l.Fault != nil || l.Partial:
		case !l.Packet.Type.Control() && len(l.LayerPayload()) > 0:
			add("ttfabric.data", hex.EncodeToString(l.LayerPayload()))
		}
		if l.Fault == nil && l.Drop != nil {
			add("ttfabric.packet_id", want["ttfabric.drop.id"][0])
		} else if l.Fault == nil && !l.Packet.Type.Control() {
			add("ttfabric.packet_id", want["ttfabric.id"][0])
		}
	}
	return want
}

// ours reports whether only the dissector has a field. For example, the dissector computes the
// fields with the prefix ttlink.analysis from several frames.
func ours(name string) bool {
	for _, prefix := range []string{"ttlink.analysis.", "_ws."} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "", "ttlink.magic", "ttlink.padding", "ttlink.stream", "ttlink.reassembled_in", "ttlink.piece",
		"ttlink.malformed", "ttlink.cut", "ttlink.crc.bad", "ttfabric.malformed", "ttfabric.dropped", "ttfabric.exception":
		return true
	}
	return false
}

// layer compares the wanted fields with the fields that tshark shows.
func (n *count) layer(want map[string][]string, got *layer) error {
	for name, values := range got.fields {
		if _, known := want[name]; !known && !ours(name) && !(name == "ttlink.payload" && len(got.fields["ttlink.fault"]) > 0) {
			return fmt.Errorf("tshark shows %s %q, but the Go decoder has no such field here", name, values)
		}
	}
	for name, values := range want {
		shown := make([]string, 0, len(values))
		for _, v := range got.fields[name] {
			shown = append(shown, normal(v))
		}
		if !slices.Equal(shown, values) {
			return fmt.Errorf("%s: tshark shows %q, but the Go decoder reads %q", name, shown, values)
		}
		n.fields += len(values)
	}
	return nil
}

// normal returns a value in a form that is common to tshark and the Go decoder. In tshark's output,
// the number of hexadecimal digits depends on the width of the field. From version 4.2 on, tshark
// prints flags as words. normal also removes the colons between bytes.
func normal(v string) string {
	switch v {
	case "True":
		return "1"
	case "False":
		return "0"
	}
	if h, ok := strings.CutPrefix(v, "0x"); ok {
		if u, err := strconv.ParseUint(h, 16, 64); err == nil {
			return strconv.FormatUint(u, 10)
		}
	}
	return strings.ReplaceAll(v, ":", "")
}
