package capture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// here and there are the two ends of a cable.
var (
	here  = wire.PortID{Node: wire.FabricNodeID{Chip: 0}, Channel: 8}
	there = wire.PortID{Node: wire.FabricNodeID{Chip: 1}, Channel: 0}
)

// The function "at" returns the time of packet number n.
func at(n int) time.Time { return time.Unix(1_700_000_000, int64(n)) }

// packet returns captured packet number n, a datagram of length zero bytes that the port
// here sent. The datagram is no TT-link frame.
func packet(n, length int) *capture.Packet {
	addr := netip.MustParseAddrPort("127.0.0.1:4000")
	payload := make([]byte, length)
	data, whole := capture.AppendFrame(nil, capture.Endpoint{Port: here, Addr: addr}, capture.Endpoint{Port: there, Addr: addr}, payload, length, capture.Sum(payload), uint16(n))
	return &capture.Packet{At: at(n), Dir: capture.DirOut, Data: data, Length: whole, ID: uint64(n + 1)}
}

// contents holds what a pcapng file or stream contains.
type contents struct {
	names    []string
	packets  []capture.Packet
	keys     string
	stats    map[int]capture.Statistics
	comments map[string]int
}

func read(t *testing.T, r io.Reader) (c contents) {
	t.Helper()
	c.stats, c.comments = map[int]capture.Statistics{}, map[string]int{}
	p, err := capture.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := p.Next()
		switch {
		case err == io.EOF:
			return c
		case err != nil:
			t.Fatal(err)
		case b.Interface != nil:
			c.names = append(c.names, b.Interface.Name)
		case b.Statistics != nil:
			c.stats[b.Of] = *b.Statistics
		case b.Keys != nil:
			c.keys += string(b.Keys)
		case b.Packet != nil:
			k := *b.Packet
			k.Data = bytes.Clone(k.Data)
			c.packets = append(c.packets, k)
			for _, s := range k.Comments {
				c.comments[s]++
			}
		}
	}
}

func readFile(t *testing.T, name string) contents {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, bytes.NewReader(b))
}

// must fails the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestStream writes a pcapng stream with keys, a packet and statistics, and reads the stream back.
func TestStream(t *testing.T) {
	var b bytes.Buffer
	s := Stream(&b, capture.Section{Application: "test"})
	must(t, s.AddInterface(capture.Interface{Name: "M0D0/eth8"}))
	must(t, s.Keys([]byte("CLIENT a b\n")))
	must(t, s.Packet(packet(0, 100)))
	must(t, s.Close([]capture.Statistics{{Start: at(0), End: at(1), Received: 3, Accepted: 2, Dropped: 1}}))
	c := read(t, &b)
	if !slices.Equal(c.names, []string{"M0D0/eth8"}) || len(c.packets) != 1 || c.keys != "CLIENT a b\n" || c.stats[0].Dropped != 1 || s.Files() != nil {
		t.Errorf("%+v, files %q", c, s.Files())
	}
}

// TestRing writes five files, of which the sink keeps the newest two. Each file must be a
// complete capture. The size must count all five files.
func TestRing(t *testing.T) {
	const length, files = 60_000, 5
	o := Options{Write: filepath.Join(t.TempDir(), "ring.pcapng"), RingMiB: 1, RingFiles: 2, Keys: true}
	earlier := Options{Write: filepath.Join(t.TempDir(), "keys.pcapng"), Keys: true}
	must(t, os.WriteFile(earlier.Write, nil, 0o644))
	over := &pcapng{o: earlier}
	must(t, over.open())
	over.file.Close()
	if fi, err := os.Stat(earlier.Write); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("a capture with keys over a file that others can read: %v, %v", fi.Mode(), err)
	}
	s, err := Files(&o, capture.Section{})
	must(t, err)
	must(t, s.AddInterface(capture.Interface{Name: "M0D0/eth8"}))
	must(t, s.Keys([]byte("CLIENT a b\n")))
	n := 0
	for ; n < 3 || !strings.Contains(s.Files()[len(s.Files())-1], fmt.Sprintf("ring_%05d_", files)); n++ {
		must(t, s.Packet(packet(n, length)))
	}
	if size := s.Size(); size < int64(n*length) || size > int64(n*(length+200)+files*500) {
		t.Errorf("%d bytes of %d packets", size, n)
	}
	must(t, s.Close([]capture.Statistics{{Start: at(0), End: at(n), Received: uint64(n), Accepted: uint64(n)}}))
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(o.Write), "*"))
	if !slices.Equal(left, s.Files()) || len(left) != 2 || !strings.Contains(left[0], fmt.Sprintf("ring_%05d_", files-1)) || !strings.Contains(left[1], fmt.Sprintf("ring_%05d_", files)) {
		t.Fatalf("files %q, the sink names %q", left, s.Files())
	}
	old, last := readFile(t, left[0]), readFile(t, left[1])
	for i, c := range []contents{old, last} {
		if len(c.names) != 1 || c.keys != "CLIENT a b\n" || len(c.packets) == 0 {
			t.Errorf("%s: interfaces %q, keys %q, %d packets", left[i], c.names, c.keys, len(c.packets))
		}
	}
	if a, b := old.packets[len(old.packets)-1], last.packets[0]; b.ID != a.ID+1 {
		t.Errorf("packet %d is followed by packet %d in the next file", a.ID, b.ID)
	}
	if fi, err := os.Stat(left[0]); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() < 1<<20 || fi.Size() > 1<<20+2*length {
		t.Errorf("%v, %v: want a file that only its owner can read, of 1 MiB and a packet", fi, err)
	}
	if last.stats[0].Received != uint64(n) {
		t.Errorf("statistics %+v, want %d packets", last.stats, n)
	}
}

// TestFullDisk writes to a full device, and to a folder that does not exist. The error must
// name the file.
func TestFullDisk(t *testing.T) {
	s, err := Files(&Options{Write: "/dev/full"}, capture.Section{})
	must(t, err)
	must(t, s.AddInterface(capture.Interface{Name: "M0D0/eth8"}))
	must(t, s.Packet(packet(0, 100)))
	if err := s.Flush(); err == nil || !strings.Contains(err.Error(), "/dev/full: no space left on device; its first 0 bytes") {
		t.Errorf("got %v", err)
	}
	if _, err := Files(&Options{Write: filepath.Join(t.TempDir(), "no", "folder")}, capture.Section{}); err == nil || !strings.Contains(err.Error(), "cannot write the capture") {
		t.Errorf("no such folder: %v", err)
	}
}

// TestFileIsCutToWholeBlocks limits the size of files of this process, so that a write
// fails as on a full disk. The file must still be a valid capture.
func TestFileIsCutToWholeBlocks(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cut.pcapng")
	s, err := Files(&Options{Write: name}, capture.Section{})
	must(t, err)
	must(t, s.AddInterface(capture.Interface{Name: "M0D0/eth8"}))
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100_000, Max: was.Max})) // the Go runtime ignores SIGXFSZ
	for n := 0; n < 100 && err == nil; n++ {
		if err = s.Packet(packet(n, 9000)); err == nil {
			err = s.Flush()
		}
	}
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	if err == nil || !strings.Contains(err.Error(), "are a valid capture") {
		t.Fatalf("got %v", err)
	}
	if c := readFile(t, name); len(c.packets) != 10 { // a block of a packet has 9100 bytes
		t.Errorf("%d packets are left", len(c.packets))
	}
}

// TestLines writes two frames as lines. The line of a frame must show the frame's comments
// and the number of frames left out.
func TestLines(t *testing.T) {
	var b bytes.Buffer
	s := Lines(&b)
	must(t, s.AddInterface(capture.Interface{Name: "M0D0/eth8"}))
	p := packet(0, 100)
	p.Comments, p.Dropped = []string{"injected fault: lost"}, 7
	must(t, s.Packet(p))
	in := packet(1, 50)
	in.Dir = capture.DirIn
	must(t, s.Packet(in))
	must(t, s.Close(nil))
	got := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(got) != 2 || !strings.Contains(got[0], "M0D0/eth8 > M0D1/eth0 not TT-link, 100 bytes") || !strings.Contains(got[0], "injected fault: lost") ||
		!strings.Contains(got[0], "the capture left out 7 frames before this frame") || !strings.Contains(got[1], "M0D1/eth0 < M0D0/eth8 not TT-link, 50 bytes") {
		t.Errorf("%q", got)
	}
}

// TestObjects writes one frame as JSON, and again as an item of a YAML list.
func TestObjects(t *testing.T) {
	p := packet(5, 100)
	p.Comments, p.Dropped = []string{"injected fault: lost"}, 7
	var decoded [2]Frame
	for i, asYAML := range []bool{false, true} {
		var b bytes.Buffer
		s := Objects(&b, asYAML)
		must(t, s.AddInterface(capture.Interface{Name: "M0D0/eth8"}))
		must(t, s.Packet(p))
		must(t, s.Close(nil))
		line := b.Bytes()
		if asYAML {
			var list []any
			must(t, yaml.Unmarshal(line, &list))
			b, err := json.Marshal(list[0])
			must(t, err)
			line = b
		}
		must(t, json.Unmarshal(line, &decoded[i]))
		if f := decoded[i]; f.Port != "M0D0/eth8" || f.Direction != "out" || f.Length != p.Length || f.Dropped != 7 || len(f.Comments) != 1 || !f.Time.Equal(at(5)) {
			t.Errorf("yaml %v: %+v", asYAML, f)
		}
	}
}
