package wireshark

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/wire"
)

// datagram is a UDP datagram of a capture, of which the capture keeps at most "snap" bytes after the UDP header.
type datagram struct {
	port uint16 // source; the destination is the next port
	b    []byte
	snap int
}

// captured returns a capture of datagrams of loopback, without link headers.
func captured(ds []datagram) []byte {
	le, be := binary.LittleEndian, binary.BigEndian
	b := le.AppendUint32(nil, 0xA1B2C3D4)
	b = le.AppendUint32(b, 2|4<<16) // version 2.4
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, 65535)
	b = le.AppendUint32(b, 101) // LINKTYPE_RAW
	for i, d := range ds {
		ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
		be.PutUint16(ip[2:], uint16(len(ip)+len(d.b)))
		be.PutUint16(ip[20:], d.port)
		be.PutUint16(ip[22:], d.port+1)
		be.PutUint16(ip[24:], uint16(8+len(d.b)))
		kept := d.b[:min(len(d.b), d.snap)]
		for _, v := range []uint32{uint32(i), 0, uint32(len(ip) + len(kept)), uint32(len(ip) + len(d.b))} {
			b = le.AppendUint32(b, v)
		}
		b = append(append(b, ip...), kept...)
	}
	return b
}

// TestDissectsRawFrames lets tshark dissect raw frames of compliance mode. Some frames are good,
// some have one of the faults that a receiver finds, and the capture cut one frame off. A frame of
// TT-link is no raw frame. Each raw frame comes between ports of its own, first alone and then
// after a frame of TT-link. The fields, the filters and the expert information must name each raw
// frame.
func TestDissectsRawFrames(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	good := wire.AppendRaw(nil, 9, []byte("a raw payload"))
	change := func(at int, v byte, sum bool) []byte {
		b := append([]byte(nil), good...)
		if b[at] = v; sum {
			n := len(b) - wire.TrailerLen
			binary.LittleEndian.PutUint32(b[n:], wire.Checksum(b[:n]))
		}
		return b
	}
	frame := wire.Frame{Kind: wire.KindClose, Channel: 9, Session: 7}
	closing := frame.Append(nil)
	const all = 65535
	names := []string{"_ws.col.Protocol", "ttraw.version", "ttraw.channel", "ttraw.reserved", "ttraw.length", "ttraw.payload", "ttraw.crc.status", "ttraw.fault",
		"ttraw.malformed", "ttraw.crc.bad", "ttraw.cut", "ttlink.kind"}
	text := "6120726177207061796c6f6164" // of good
	cases := []struct {
		name string
		b    []byte
		snap int
		want string // values of names
	}{
		{"good", good, all, "TT-raw|15|9|0x00|13|" + text + "|1|||||"},
		{"shortest", wire.AppendRaw(nil, 0, []byte{1}), all, "TT-raw|15|0|0x00|1|01|1|||||"},
		{"longest", wire.AppendRaw(nil, 15, make([]byte, wire.MaxRaw)), all, "TT-raw|15|15|0x00|1500|" + strings.Repeat("00", wire.MaxRaw) + "|1|||||"},
		{"damaged", change(20, 'D', false), all, "TT-raw|15|9|0x00|13|" + text[:24] + "44|0|checksum|1|1||"},
		{"reserved", change(3, 1, true), all, "TT-raw|15|9|0x01|13|" + text + "|1|reserved|1|||"},
		{"length too small", change(4, 12, true), all, "TT-raw|15|9|0x00|12|" + text[:24] + "|2|length|1|||"},
		{"length 0", change(4, 0, true), all, "TT-raw|15|9|0x00|0||2|length|1|||"},
		{"length beyond the frame", change(4, 14, true), all, "?2|short|1|||"},
		{"length too large", change(6, 1, true), all, "?2|length|1|||"},
		{"cut off", good, 14, "TT-raw|15|9|0x00|13|" + text[:12] + "|2||||1|"},
		{"a frame of TT-link", closing, all, "TT-link|||||||||||5"},
	}
	var ds []datagram
	for i, c := range cases {
		port := uint16(40000 + 4*i)
		ds = append(ds, datagram{port, c.b, c.snap}, datagram{port + 2, closing, all}, datagram{port + 2, c.b, c.snap})
	}
	file := filepath.Join(t.TempDir(), "raw.pcap")
	if err := os.WriteFile(file, captured(ds), 0o600); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	run := func(args ...string) []string {
		cmd := exec.Command(tshark, append([]string{"-X", "lua_script:ttfabric.lua", "-o", "udp.try_heuristic_first:TRUE", "-r", file}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("tshark: %v", err)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	}
	args := []string{"-T", "fields", "-E", "separator=|", "-E", "occurrence=l"}
	for _, n := range names {
		args = append(args, "-e", n)
	}
	got := run(args...)
	if len(got) != len(ds) {
		t.Fatalf("tshark shows %d of %d datagrams", len(got), len(ds))
	}
	for i, c := range cases {
		for _, k := range []int{0, 2} {
			line := got[3*i+k]
			if part, partly := strings.CutPrefix(c.want, "?"); line != c.want && !(partly && strings.HasPrefix(line, "TT-raw|15|9|0x00|") && strings.HasSuffix(line, part)) {
				t.Errorf("%s, datagram %d of its ports: tshark shows\n%s\nwant\n%s", c.name, k, line, c.want)
			}
		}
	}
	for filter, want := range map[string]int{"ttraw": 20, "ttraw.malformed": 12, "ttraw.fault == \"length\"": 6, "ttraw && _ws.expert.group == \"Checksum\"": 2, "ttraw.length > 1000 && !ttraw.malformed": 2} {
		if n := len(run("-Y", filter, "-T", "fields", "-e", "frame.number")); n != want {
			t.Errorf("the filter %s finds %d frames, want %d", filter, n, want)
		}
	}
}
