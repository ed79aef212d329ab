package topo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func load(t testing.TB, name string) (*Topology, error) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return Load(name, b)
}

func TestDescriptorsOfRealMachines(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"t3k_cluster_desc.yaml", "t3k_cluster_desc.yaml: 8 chips 2×4, 20 cables, 2 planes"},
		{"2x2_n300_cluster_desc.yaml", "2x2_n300_cluster_desc.yaml: 4 chips 2×2, 8 cables, 2 planes"},
		{"wormhole_N300.yaml", "wormhole_N300.yaml: 2 chips 1×2, 2 cables, 2 planes"},
		{"wormhole_N300_board_info.yaml", "wormhole_N300_board_info.yaml: 2 chips 1×2, 2 cables, 2 planes"},
		{"wormhole_N150.yaml", "wormhole_N150.yaml: 1 chip 1×1, 0 cables, 0 planes"},
		{"blackhole_P150.yaml", "blackhole_P150.yaml: 1 chip 1×1, 0 cables, 0 planes"},
	} {
		topo, err := load(t, c.file)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if topo.String() != c.want {
			t.Errorf("got %q, want %q", topo, c.want)
		}
	}
}

func TestEncodeIsReadBack(t *testing.T) {
	for _, name := range []string{"n300", "t3000", "mesh:1x1", "mesh:4x8", "mesh:16x16"} {
		a, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Load("x", a.Encode())
		if err != nil {
			t.Fatal(name, err)
		}
		if !reflect.DeepEqual(a, b) || a.Hash() != b.Hash() {
			t.Errorf("%s: what was read back differs", name)
		}
	}
}

// The constant "two" is the start of a valid cluster descriptor of two neighbours. The entry for
// the cable is missing.
const two = "arch: {0: wormhole_b0, 1: wormhole_b0}\nchips: {0: [0,0,0,0], 1: [1,0,0,0]}\n"

// joined is the descriptor "two" with the entry for the cable.
const joined = two + "ethernet_connections: [[{chip: 0, chan: 8}, {chip: 1, chan: 0}]]\n"

// cables returns the key ethernet_connections with a cable for each pair of chips, such as "0-1 1-2".
// Each chip uses its channels from 0 on.
func cables(pairs string) string {
	next, list := map[string]int{}, ""
	for _, p := range strings.Fields(pairs) {
		a, b, _ := strings.Cut(p, "-")
		list += fmt.Sprintf("[{chip: %s, chan: %d}, {chip: %s, chan: %d}], ", a, next[a], b, next[b])
		next[a]++
		next[b]++
	}
	return "ethernet_connections: [" + strings.TrimSuffix(list, ", ") + "]\n"
}

func TestBadDescriptors(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", "f: the file is empty"},
		{"only a comment", "# nothing\n", "f: the file is empty"},
		{"text", "hello", "f:1: not a cluster descriptor: want keys such as arch, chips and ethernet_connections"},
		{"broken block", "arch:\n  0: wormhole_b0\n bad\n", "f:3: not YAML: did not find expected key"},
		{"broken flow", "arch:\n  {0: [}\n", "f:2: not YAML: did not find expected node content"},
		{"tab", "arch:\n\t0: wormhole_b0\n", "f:2: not YAML: found character that cannot start any token"},
		{"quote", "arch:\n  0: \"worm\n", "f:2: not YAML: found unexpected end of stream"},
		{"open list", "arch: {0: wormhole_b0}\nchips:\n  0: [1,\n  1: 2\n", "f:3: not YAML: did not find expected ',' or ']'"},
		{"tag", "arch:\n  0: !u!x 3\n", "f:2: not YAML: found undefined tag handle"},
		{"anchor", "arch:\n  0: *nope\n", "f: not YAML: unknown anchor 'nope' referenced"},
		{"not UTF-8", "arch:\n  0: worm\xffhole\n", "f:2: not YAML: byte 0xFF is not UTF-8 text"},
		{"binary", "arch:\n\n\x00\n", "f:3: not YAML: character U+0000 is not text"},
		{"two documents", joined + "---\n" + joined, "f:4: a second YAML document begins here; a file must have only one document, for one machine"},
		{"key twice", two + "arch: {}\n", `f:3: file: key "arch" occurs already on line 1`},
		{"alias", "arch: &a {0: wormhole_b0}\nchips: *a\n", "f:2: *a is a YAML alias, which is not supported; write the value out"},
		{"no arch", "chips: {}\n", "f:1: no chips: want a key arch that maps chip ids to architectures"},
		{"arch list", "arch: [wormhole_b0]\n", "f:1: arch: want a map of chip ids to architectures"},
		{"arch name", "arch:\n  0: grayskull\n", `f:2: chip 0: architecture "grayskull": want wormhole_b0 or blackhole`},
		{"arch map", "arch:\n  0: {a: b}\n", "f:2: chip 0: want a plain value, not a map"},
		{"mixed", "arch:\n  0: wormhole_b0\n  1: blackhole\n", "f:3: chip 1 has the architecture blackhole and other chips have wormhole_b0: a fabric has only one architecture (Spec §1.2)"},
		{"chip id", "arch:\n  x: wormhole_b0\n", `f:2: chip id "x": want a number from 0 to 2147483647`},
		{"twice", "arch:\n  0: wormhole_b0\n  00: wormhole_b0\n", "f:3: chip 0 is listed twice"},
		{"stranger", "arch: {0: wormhole_b0}\nchips:\n  7: [0,0,0,0]\n", "f:3: chip 7 is not listed under arch"},
		{"coords", "arch: {0: wormhole_b0}\nchips:\n  0: [0,0]\n", "f:3: chip 0: want the four coordinates [x, y, rack, shelf]"},
		{"coord", "arch: {0: wormhole_b0}\nchips:\n  0: [0,-1,0,0]\n", `f:3: chip 0: coordinate "-1": want a number from 0 to 255`},
		{"same place", "arch: {0: wormhole_b0, 1: wormhole_b0, 2: wormhole_b0, 3: wormhole_b0}\nchips: {0: [0,0,0,0], 1: [1,1,0,0], 2: [1,0,0,0],\n 3: [1,0,0,0]}\n" + cables("0-1 1-2 2-3"), "f:3: chips 2 and 3 have the same coordinates, x 1, y 0"},
		{"wrap in one row", "arch: {0: wormhole_b0, 1: wormhole_b0, 2: wormhole_b0, 3: wormhole_b0, 4: wormhole_b0, 5: wormhole_b0}\nchips: {0: [0,0,0,0], 1: [1,0,0,0], 2: [2,0,0,0], 3: [0,1,0,0], 4: [1,1,0,0], 5: [2,1,0,0]}\nethernet_connections:\n" +
			" - [{chip: 0, chan: 0}, {chip: 1, chan: 4}]\n - [{chip: 1, chan: 0}, {chip: 2, chan: 4}]\n - [{chip: 3, chan: 0}, {chip: 4, chan: 4}]\n - [{chip: 4, chan: 0}, {chip: 5, chan: 4}]\n" +
			" - [{chip: 0, chan: 8}, {chip: 3, chan: 8}]\n - [{chip: 1, chan: 8}, {chip: 4, chan: 8}]\n - [{chip: 2, chan: 8}, {chip: 5, chan: 8}]\n - [{chip: 5, chan: 0}, {chip: 3, chan: 4}]\n",
			"f:11: the cable from chip 5 channel 0 to chip 3 channel 4 joins the two ends of a row or column, but no cable joins chip 2 at x 2, y 0 and chip 0 at x 0, y 0: an axis wraps in most rows or columns, or in none"},
		{"hole", "arch: {0: wormhole_b0, 1: wormhole_b0}\nchips: {0: [4,9,0,0], 1: [6,9,0,0]}\n" + cables("0-1"), "f:2: the chips span x 4 to 6 and y 9 to 9, but no chip is at x 5, y 9: a mesh is a full rectangle"},
		{"shelves", "arch: {0: wormhole_b0, 1: wormhole_b0, 2: wormhole_b0, 3: wormhole_b0}\nchips:\n  0: [0,0,0,0]\n  1: [0,0,0,1]\n  2: [2,0,0,1]\n  3: [3,1,0,1]\n" + cables("0-1 1-2 1-3"), "f:2: the chips span x 0 to 3 and y 0 to 1, but no chip is at x 1, y 0: a mesh is a full rectangle"},
		{"channel", two + "ethernet_connections: [[{chip: 0, chan: 16}, {chip: 1, chan: 0}]]", "f:3: chip 0 channel 16: a wormhole_b0 chip has 16 channels, numbered from 0"},
		{"negative channel", two + "ethernet_connections: [[{chip: 0, chan: -1}, {chip: 1, chan: 0}]]", `f:3: channel "-1": want a number from 0 to 4294967295`},
		{"harvested channel", strings.ReplaceAll(two, "wormhole_b0", "blackhole") + "harvesting: {1: {eth_harvesting_mask: 0x120}}\nethernet_connections:\n - [{chip: 0, chan: 12}, {chip: 1, chan: 11}]\n - [{chip: 0, chan: 13}, {chip: 1, chan: 12}]",
			"f:6: chip 1 channel 12: a blackhole chip with 2 harvested has 12 channels, numbered from 0"},
		{"harvesting mask", two + "harvesting:\n  0: {eth_harvesting_mask: 65536}\n", `f:4: chip 0: eth_harvesting_mask "65536": want a number from 0 to 65535`},
		{"harvesting flag", two + "harvesting:\n  0: {noc_translation: 3}\n", `f:4: chip 0: noc_translation "3": want true or false`},
		{"one end", two + "ethernet_connections:\n - [{chip: 0, chan: 1}]", "f:4: a connection has two ends, each {chip, chan}, and perhaps {routing_enabled}"},
		{"four parts", two + "ethernet_connections:\n - [{chip: 0, chan: 1}, {chip: 1, chan: 1}, {routing_enabled: true}, {}]", "f:4: a connection has two ends, each {chip, chan}, and perhaps {routing_enabled}"},
		{"routing_enabled", two + "ethernet_connections:\n - [{chip: 0, chan: 1}, {chip: 1, chan: 1}, {routing_enabled: maybe}]", `f:4: routing_enabled "maybe": want true or false`},
		{"no chan", two + "ethernet_connections:\n - [{chip: 0}, {chip: 1, chan: 1}]", "f:4: the end of a connection is {chip: ID, chan: CHANNEL}"},
		{"unknown chip", two + "ethernet_connections:\n - [{chip: 0, chan: 1}, {chip: 2, chan: 1}]", "f:4: chip 2 is not listed under arch"},
		{"loop", two + "ethernet_connections:\n - [{chip: 0, chan: 1}, {chip: 0, chan: 2}]", "f:4: the cable from chip 0 channel 1 to chip 0 channel 2 joins two channels of one chip; remove the cable"},
		{"reused", two + "ethernet_connections:\n - [{chip: 0, chan: 1}, {chip: 1, chan: 1}]\n - [{chip: 0, chan: 1}, {chip: 1, chan: 2}]", "f:5: chip 0 channel 1 carries two cables: to chip 1 channel 1 (line 4) and to chip 1 channel 2"},
		{"reused far end", two + "ethernet_connections:\n - [{chip: 0, chan: 1}, {chip: 1, chan: 1}]\n - [{chip: 0, chan: 2}, {chip: 1, chan: 1}]", "f:5: chip 1 channel 1 carries two cables: to chip 0 channel 1 (line 4) and to chip 0 channel 2"},
		{"reused by remote", joined + "ethernet_connections_to_remote_devices:\n - [{chip: 0, chan: 8}, {remote_chip_id: 77, chan: 3}]", "f:5: chip 0 channel 8 carries two cables: to chip 1 channel 0 (line 3) and to channel 3 of the remote chip 77"},
		{"remote", joined + "ethernet_connections_to_remote_devices:\n - [{chip: 0, chan: 9}, {chip: 77, chan: 3}]", "f:5: a remote connection is {chip, chan} and {remote_chip_id, chan}"},
		{"far", "arch: {0: wormhole_b0, 1: wormhole_b0, 2: wormhole_b0, 3: wormhole_b0}\nchips: {0: [3,1,0,0], 1: [4,1,0,0], 2: [5,1,0,0], 3: [6,1,0,0]}\nethernet_connections:\n - [{chip: 0, chan: 1}, {chip: 2, chan: 1}]\n - [{chip: 0, chan: 2}, {chip: 1, chan: 1}]\n - [{chip: 3, chan: 2}, {chip: 1, chan: 2}]",
			"f:4: the cable from chip 0 channel 1 to chip 2 channel 1 joins chip 0 at x 3, y 1 and chip 2 at x 5, y 1, which are neither neighbours nor the two ends of a row or column; correct the coordinates or remove the cable"},
		{"board", two + "boards:\n - [{board_id: 1}, {board_type: n300}, {chips: [5]}]", "f:4: chip 5 is not listed under arch"},
		{"two boards", two + "boards:\n - [{board_type: n300}, {chips: [0]}]\n - [{board_type: n300}, {chips: [1, 0]}]", "f:5: chip 0 is on two boards"},
		{"mmio", two + "chips_with_mmio:\n - 0: x\n", `f:4: PCI index "x": want a number from 0 to 2147483647`},
		{"unique id", two + "chip_unique_ids:\n  0: 18446744073709551616\n", `f:4: chip 0: unique id "18446744073709551616": want a number from 0 to 18446744073709551615`},
		{"some coordinates", "arch: {0: wormhole_b0, 1: wormhole_b0, 2: wormhole_b0, 3: wormhole_b0}\n\nchips: {0: [0,0,0,0]}\n" + cables("0-1 0-2 0-3"), "f:3: chip 1 has no coordinates, so rows and columns must follow from the cables, but the cables fit no line, ring, mesh or torus of 4 chips (there are cables from 3 chips to 1 other, 1 chip to 3 others); give all chips coordinates of one shelf, or correct ethernet_connections"},
	} {
		_, err := Load("f", []byte(c.in))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

// TestToleratedDescriptors finds that Load reads different spellings of one machine as equal
// topologies. Real descriptors have these spellings.
func TestToleratedDescriptors(t *testing.T) {
	want := "f: 2 chips 1×2, 1 cable, 1 plane"
	for name, in := range map[string]string{
		"plain":          joined,
		"unknown key":    joined + "from_the_future: {a: [b]}\n",
		"nulls":          joined + "boards:\nchips_with_mmio: ~\nharvesting:\nethernet_connections_to_remote_devices:\n",
		"both ends":      two + "ethernet_connections: [[{chip: 0, chan: 8}, {chip: 1, chan: 0}], [{chip: 1, chan: 0}, {chip: 0, chan: 8}], [{chip: 0, chan: 8}, {chip: 1, chan: 0}]]",
		"routing":        two + "ethernet_connections: [[{chip: 0, chan: 8}, {chip: 1, chan: 0}, {routing_enabled: False}]]",
		"remote":         joined + "ethernet_connections_to_remote_devices: [[{chip: 0, chan: 9}, {remote_chip_id: 77, chan: 3}], [{chip: 0, chan: 9}, {remote_chip_id: 77, chan: 3}]]",
		"implicit pairs": joined + "chips_with_mmio: [ 0: 0, 1: 1, ]",
		"ids":            joined + "chips_with_mmio: [0]",
		"boardtype":      joined + "boardtype: {0: n300, 1: n300}",
		"document end":   "---\n" + joined + "...\n",
		"CRLF":           strings.ReplaceAll(joined, "\n", "\r\n"),
		"byte order":     "\uFEFF" + joined,
	} {
		topo, err := Load("f", []byte(in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if topo.String() != want {
			t.Errorf("%s: got %s, want %s", name, topo, want)
		}
	}
}

func TestBadRendered(t *testing.T) {
	good := string(mustName(t, "n300").Encode())
	for _, c := range []struct{ name, old, with, want string }{
		{"version", "ttfabric: 1", "ttfabric: 2", "f:2: version 2 of ttfabric's topology file format; this program reads version 1"},
		{"key", "source: built-in", "sauce: built-in", `f:4: unknown key "sauce" in version 1 of ttfabric's topology file format`},
		{"arch", "wormhole_b0", "grayskull", `f:5: architecture "grayskull": want wormhole_b0 or blackhole`},
		{"mesh", "rows: 1", "rows: 0", "f:7: mesh of 0×2: want at least 1×1 and at most 256 chips"},
		{"row", "rows: 1", "rows: many", `f:8: mesh rows "many": want a number from 0 to 256`},
		{"chip", "chip: M0D1", "chip: third", `f:15: chip "third": want an id such as M0D3`},
		{"chip twice", "chip: M0D1", "chip: M0D0", "f:15: chip M0D0 is already listed on line 11"},
		{"chip missing", "chip: M0D1", "chip: M0D2", "f:15: found chip M0D2 instead of chip M0D1: chips must be sorted, and no chip may be missing"},
		{"umd twice", "umd: 1", "umd: 0", "f:15: chips M0D0 and M0D1 both have UMD id 0"},
		{"port", "a: M0D0/8", "a: M0D0", `f:19: end of a cable "M0D0": want a chip and a channel such as M0D0/8`},
		{"channel", "a: M0D0/8", "a: M0D0/x", `f:19: channel "x": want a number from 0 to 15`},
		{"stranger", "a: M0D0/8", "a: M0D7/8", "f:19: cable mesh 0 chip 1 channel 0 to mesh 0 chip 7 channel 8: there is no chip M0D7"},
		{"port twice", "a: M0D0/9", "a: M0D0/8", "f:21: mesh 0 chip 0 channel 8 carries two cables: this one, and the cable of line 19"},
		{"loop", "b: M0D1/0", "b: M0D0/8", "f:19: both ends of the cable are mesh 0 chip 0 channel 8"},
		{"one end", "b: M0D1/0", "a: M0D1/0", `f:20: cable: key "a" occurs already on line 19`},
	} {
		in := strings.Replace(good, c.old, c.with, 1)
		if in == good {
			t.Fatalf("%s: the form no longer has %q:\n%s", c.name, c.old, good)
		}
		_, err := Load("f", []byte(in))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.name, err, c.want)
		}
	}
}

// TestHostileFilesEndSoon finds that Load needs little processor time for files that are made to be
// slow. The limit is high, because a slow reader would take minutes. With -topo.full, the files
// have the largest allowed length. Without -topo.full, the files have a quarter of this length.
func TestHostileFilesEndSoon(t *testing.T) {
	limit, size := 5*time.Second, MaxFile
	switch {
	case testing.Short(): // with the race detector, Load takes ten times as long
		size /= 8
	case !*full:
		limit, size = limit/4, size/4
	}
	fill := func(head, s string) []byte {
		return append([]byte(head), bytes.Repeat([]byte(s), (size-len(head))/len(s))...)
	}
	for name, in := range map[string][]byte{
		"too large": bytes.Repeat([]byte("a"), MaxFile+1),
		"flow":      fill("", "["),
		"maps":      fill("", "{a: "),
		"dashes":    fill("", "- "),
		"questions": fill("", "? "),
		"entries":   fill("arch: [", "a,"),
		"chips":     fill("arch: {0: wormhole_b0}\nethernet_connections: [", "[],"),
		"nulls":     fill("", "~: ~\n"),
		"aliases":   fill("a: &a [x]\nb: [", "*a,"),
		"quote":     fill("a: \"", "\\n"),
		"messages":  fill("mesh_descriptors {", "a{"),
		"lists":     fill("mesh_descriptors {", "a:["),
		"fields":    fill("mesh_descriptors {}", "a:1 "),
		"strings":   fill("mesh_descriptors { a:", "'' "),
		"meshes":    fill("top_level_instance {}\n", "mesh_descriptors{}"),
		"relaxed":   fill(strings.ReplaceAll(m0, "[ 2, 2 ]", "[ 16, 16 ]")+g0, connection("mesh_id: 0", "mesh_id: 1", "channels { count: 4096 policy: RELAXED }")),
		"exits":     fill(strings.ReplaceAll(m0, "[ 2, 2 ]", "[ 16, 16 ]")+g0, connection("mesh_id: 0", "mesh_id: 1", "channels { count: 1 }")),
	} {
		begin := cpu(t)
		if topo, err := Load("f", in); err == nil {
			t.Errorf("%s: read as %s", name, topo)
		}
		if d := cpu(t) - begin; d > limit {
			t.Errorf("%s took %s", name, d)
		} else {
			t.Logf("%s: %s", name, d)
		}
	}
}

// TestLargestMachineFits finds that MaxFile is large enough for sixteen full meshes.
func TestLargestMachineFits(t *testing.T) {
	if n := len(mustName(t, "mesh:16x16").Encode()); n*16 > MaxFile {
		t.Errorf("a full mesh with two cables per edge is rendered in %d bytes, more than a sixteenth of the limit", n)
	}
}

// TestStrangeNamesAreReadBack finds that topologies with strange names can be read back. A name
// comes from a path, which may contain any bytes.
func TestStrangeNamesAreReadBack(t *testing.T) {
	for _, name := range []string{"", "null", "1", "a: b", "#x", "\xff\xfe", "line\nbreak", "\x00\x85", "\"'\\", "*a", "-", "é ×"} {
		a, err := Load(name, []byte(joined))
		if err != nil {
			t.Fatal(err)
		}
		b, err := Load("x", a.Encode())
		if err != nil {
			t.Errorf("%q: %v", name, err)
		} else if !reflect.DeepEqual(a, b) {
			t.Errorf("%q: read back as %+v", name, b)
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, n := range descriptors(f) {
		b, _ := os.ReadFile(filepath.Join("testdata", n))
		f.Add(b)
	}
	for _, name := range []string{"n300", "spec-l1", "ring:3"} {
		small, _ := Named(name)
		f.Add(small.Encode())
	}
	f.Add([]byte(noted))
	f.Add([]byte(secured))
	f.Add([]byte(m0 + g0 + connection("mesh_id: 0 device_id: 3", "mesh_id: 1", "channels: < count: 3, policy: RELAXED >; directional: true") + "graph_topology: RING channels { count: 1 }\n}\n" + topGraph))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, path := range []string{"f", "f.textproto"} {
			checkLoad(t, path, b)
		}
	})
}

// checkLoad loads arbitrary data. Load must return an [*Error] or a valid topology. The topology
// must be the same when it is read back from ttfabric's own form and from a cluster descriptor.
func checkLoad(t *testing.T, path string, b []byte) {
	topo, err := Load(path, b)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%T %v: want *Error", err, err)
		}
		return
	}
	if err := topo.Validate(); err != nil {
		t.Fatalf("accepted, but: %v", err)
	}
	text := topo.Encode()
	if len(text) > MaxFile {
		return
	}
	again, err := Load("f", text)
	if err != nil {
		t.Fatalf("read back: %v", err)
	}
	if !reflect.DeepEqual(topo, again) {
		t.Fatalf("read back as %+v, want %+v", again, topo)
	}
	umd, err := topo.EncodeClusterDescriptor()
	if err != nil {
		return
	}
	if again, err = Load("f", umd); err != nil || again.Hash() != topo.Hash() {
		t.Fatalf("read back from a cluster descriptor: %v %v, want %v:\n%s", again, err, topo, umd)
	}
}
