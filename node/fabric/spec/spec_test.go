package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/router/topo"
)

// TestDefaultIsAFabric makes the spec of a fabric for which the user chose nothing.
func TestDefaultIsAFabric(t *testing.T) {
	m := machine(t, "t3000")
	s, err := New("lab", m, Default())
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "lab" || s.Source != "t3000" || s.Profile != "lan" || s.Transport != UDP || s.Auth != None || s.Checked == 0 || time.Since(s.Created) > time.Minute {
		t.Errorf("%+v", s)
	}
	if hash, err := s.Prove(m); err != nil || hash != s.Checked {
		t.Errorf("the routes have hash %08x, %v; the spec says %08x", hash, err, s.Checked)
	}
	quic := Default()
	quic.Transport = QUIC
	if s, err = New("lab", m, quic); err != nil || s.Profile != "paced" || s.Auth != MTLS {
		t.Errorf("over QUIC: profile %q, auth %q, %v", s.Profile, s.Auth, err)
	}
}

// TestNewRefuses calls New with one bad value at a time. The error must contain the name of
// the option, and must have the right kind.
func TestNewRefuses(t *testing.T) {
	ring := machine(t, "ring:4")
	for want, bad := range map[string]func(*Spec){
		"--profile":       func(s *Spec) { s.Profile = "wan" },
		"--slots":         func(s *Spec) { s.Slots = "x" },
		"--order":         func(s *Spec) { s.Order = "x" },
		"--ring":          func(s *Spec) { s.Ring = "x" },
		"--fabric":        func(s *Spec) { s.Fabric = "3d" },
		"--exits":         func(s *Spec) { s.Exits = "x" },
		"--stuck":         func(s *Spec) { s.Stuck = "x" },
		"--stuck-after":   func(s *Spec) { s.StuckAfter = -1 },
		"--ttl":           func(s *Spec) { s.TTL = 1 << 16 },
		"--frame":         func(s *Spec) { s.Frame = 95 },
		"--host-memory":   func(s *Spec) { s.HostMemory = "5g" },
		"--offload":       func(s *Spec) { s.Offload = "x" },
		"--netem":         func(s *Spec) { s.Netem = []string{"M0D0,delay=1"} },
		"--transport":     func(s *Spec) { s.Transport = "tcp" },
		"--auth":          func(s *Spec) { s.Auth = "x" },
		"--psk-file":      func(s *Spec) { s.PSKFile = "x" },
		"--pki":           func(s *Spec) { s.PKI = "x" },
		"--keylog":        func(s *Spec) { s.KeyLog = "x" },
		"--record-limit":  func(s *Spec) { s.RecordMiB = 0 },
		"--archive-limit": func(s *Spec) { s.ArchiveMiB = -1 },
		"--archive":       func(s *Spec) { s.Archive = "/dev/null" },
	} {
		s := Default()
		bad(&s)
		var e *Error
		if _, err := New("lab", ring, s); !errors.As(err, &e) || e.Kind != Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want a usage error with %s", err, want)
		}
	}
	s := Default()
	s.Ring = "none"
	var e *Error
	if _, err := New("lab", ring, s); !errors.As(err, &e) || e.Kind != Topology || !strings.Contains(err.Error(), "--allow-deadlock") {
		t.Errorf("without --allow-deadlock: %v", err)
	}
	s.AllowDeadlock = true
	if got, err := New("lab", ring, s); err != nil || got.Checked == 0 {
		t.Errorf("with --allow-deadlock: %v, hash %08x", err, got.Checked)
	}
}

// fill sets every field of a struct to a value that is not zero, also in structs within the struct.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case !f.CanSet():
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(time.Unix(1e9, 0).UTC()))
		case f.Kind() == reflect.Struct:
			fill(f)
		case f.Kind() == reflect.String:
			f.SetString("x")
		case f.Kind() == reflect.Slice:
			f.Set(reflect.ValueOf([]string{"x", "y"}))
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanInt():
			f.SetInt(int64(3 * time.Second))
		case f.CanUint():
			f.SetUint(7)
		default:
			panic(f.Type())
		}
	}
}

// Keys of a run folder's mesh.json. Older versions wrote these keys, and other programs
// read these keys.
var (
	keysAlways = []string{"name", "source", "created", "profile", "slots", "order", "ring", "engine", "fabric", "checked", "stuck", "stuck_after_milliseconds",
		"local_first", "ttl", "port_base", "id", "encrypted_gossip", "transport", "auth"}
	keysWhereSet = []string{"netem", "frame", "host_memory", "offload", "archive", "archive_limit_mib", "record", "record_limit_mebibytes", "record_once", "gossip_keys",
		"runtime", "project", "attached", "pki", "keylog", "allow_deadlock", "keep_unreliable", "strict_ttl", "exits", "program"}
)

// TestKeysOfTheJSON compares the keys of mesh.json and of GET /v1/fabric with keysAlways
// and keysWhereSet.
func TestKeysOfTheJSON(t *testing.T) {
	sorted := func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
	var none, all Spec
	fill(reflect.ValueOf(&all).Elem())
	if got, want := sorted(fields(t, &none)), slices.Sorted(slices.Values(keysAlways)); !slices.Equal(got, want) {
		t.Errorf("of an empty spec:\n got %v\nwant %v", got, want)
	}
	want := slices.Sorted(slices.Values(slices.Concat(keysAlways, keysWhereSet)))
	if got := sorted(fields(t, &all)); !slices.Equal(got, want) {
		t.Errorf("of a full spec:\n got %v\nwant %v", got, want)
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	all.PSKFile = "" // the JSON does not contain this field
	var back Spec
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, all) {
		t.Errorf("%v\n got %+v\nwant %+v", err, back, all)
	}
	b, err = json.Marshal(View{Mesh: all, Topology: "x"})
	if err != nil || !strings.HasPrefix(string(b), `{"mesh":{"name":"x",`) || !strings.HasSuffix(string(b), `},"topology":"x"}`) {
		t.Errorf("%v: %s", err, b)
	}
}

// oldMesh is a mesh.json that a version of the program without package spec wrote.
const oldMesh = `{"name": "lab", "source": "n300", "created": "2026-01-02T03:04:05.678Z", "profile": "crowded", "slots": "spec", "order": "yx", "ring": "bubble",
 "engine": "dor", "fabric": "1d", "checked": 4294967295, "stuck": "notify,drop", "stuck_after_milliseconds": 2500, "local_first": true, "ttl": 9, "port_base": 7000,
 "netem": ["all,loss=1%"], "offload": "plain", "id": "lab-0123456789abcdef", "archive_limit_mib": 3, "record": "/calls", "record_limit_mebibytes": 5,
 "encrypted_gossip": true, "transport": "udp", "auth": "psk"}`

func TestOldRunFolder(t *testing.T) {
	var s Spec
	if err := json.Unmarshal([]byte(oldMesh), &s); err != nil {
		t.Fatal(err)
	}
	want := Spec{Name: "lab", Source: "n300", Created: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), ID: "lab-0123456789abcdef", Checked: 1<<32 - 1,
		Routing: Routing{Order: "yx", Ring: "bubble", Engine: "dor", Fabric: "1d"},
		Behaviour: Behaviour{Profile: "crowded", Slots: "spec", Stuck: "notify,drop", StuckAfter: Milliseconds(2500 * time.Millisecond), LocalFirst: true, TTL: 9,
			PortBase: 7000, Netem: []string{"all,loss=1%"}, Offload: "plain"},
		Security: Security{Transport: "udp", Auth: "psk", Keyed: true},
		Records:  Records{ArchiveMiB: 3, Record: "/calls", RecordMiB: 5}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
	var before map[string]json.RawMessage
	if err := json.Unmarshal([]byte(oldMesh), &before); err != nil {
		t.Fatal(err)
	}
	after := fields(t, &s)
	for k, v := range before {
		var a, b any
		if json.Unmarshal(v, &a) != nil || json.Unmarshal([]byte(after[k]), &b) != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %s became %s", k, v, after[k])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d keys became %d", len(before), len(after))
	}
}

// FuzzBytes reads amounts of memory. If Bytes reads a number that Bytes returned, the
// result must be the same number. Numbers with a unit must have the right value.
func FuzzBytes(f *testing.F) {
	for _, s := range []string{"", "0", "b", "k", "1k", "1KB", "256m", "1gb", "268435456", "-1", "1.5g", "4294967296k", "9223372036854775807", "18446744073709551616", "1 k", "0x10", "١"} {
		f.Add(s, uint32(len(s)))
	}
	f.Fuzz(func(t *testing.T, s string, n uint32) {
		v := Bytes(s)
		if v >= 1<<63 || Bytes(fmt.Sprint(v)) != v || v != 0 && (Bytes(s+"b") != v && !strings.HasSuffix(strings.ToLower(s), "b")) {
			t.Errorf("%q is %d bytes", s, v)
		}
		for i, unit := range []string{"", "k", "m", "g"} {
			for _, text := range []string{fmt.Sprint(n) + unit, fmt.Sprint(n) + strings.ToUpper(unit) + "B"} {
				if got, want := Bytes(text), uint64(n)<<(10*i); got != want {
					t.Errorf("%s is %d bytes, want %d", text, got, want)
				}
			}
		}
	})
}

// FuzzCheckName checks that CheckName accepts a name if and only if the name has 1 to 64
// letters, digits, '-', '_' and '.'. The first character must be a letter or a digit.
func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"", "lab", "a.b-c_D9", ".", "..", "-x", "../x", "a/b", "a\n", "ä", strings.Repeat("x", 64), strings.Repeat("x", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const first = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
		ok := len(s) >= 1 && len(s) <= 64 && strings.IndexByte(first, s[0]) >= 0
		for i := range len(s) {
			ok = ok && strings.IndexByte(first+"-_.", s[i]) >= 0
		}
		err := CheckName(s)
		var e *Error
		if (err == nil) != ok || err != nil && (!errors.As(err, &e) || e.Kind != Usage) {
			t.Errorf("%q: %v, want accepted %v", s, err, ok)
		}
	})
}

// TestSettleTwice settles transport and auth from options, from the topology's file, and
// from the default. A second Settle must change nothing.
func TestSettleTwice(t *testing.T) {
	for _, x := range []struct {
		flag, file      [2]string // transport and auth
		transport, auth string
	}{
		{transport: UDP, auth: None},
		{flag: [2]string{QUIC}, transport: QUIC, auth: MTLS},
		{file: [2]string{"", PSK}, transport: UDP, auth: PSK},
		{file: [2]string{QUIC}, flag: [2]string{UDP, None}, transport: UDP, auth: None},
		{file: [2]string{"", PSK}, flag: [2]string{"", None}, transport: UDP, auth: None},
	} {
		m := topo.Topology{Transport: x.file[0], Auth: x.file[1]}
		s := Security{Transport: x.flag[0], Auth: x.flag[1]}
		s.Settle(&m)
		once := s
		s.Settle(&topo.Topology{Transport: QUIC, Auth: MTLS})
		if s != once || s.Transport != x.transport || s.Auth != x.auth || s.Check() != nil {
			t.Errorf("%+v: first %+v, then %+v, %v", x, once, s, s.Check())
		}
	}
}
