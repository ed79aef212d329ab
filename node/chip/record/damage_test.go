package record_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// rewrite copies a recording. The function "header" may change the header, and the function "body"
// may change each record.
func rewrite(t *testing.T, b []byte, header func(h *record.Header), body func(n int, rec []byte) []byte) []byte {
	t.Helper()
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	h := *r.Header()
	if header != nil {
		header(&h)
	}
	var out bytes.Buffer
	w, err := record.NewWriter(&out, h, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = r.EachRaw(func(rec []byte) error {
		if body != nil {
			rec = body(n, bytes.Clone(rec))
		}
		n++
		return w.Block(append(appendUvarint(nil, len(rec)), rec...))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.End(record.EndClosed, ""); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func appendUvarint(b []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

var (
	smallOnce sync.Once
	smallFile []byte
)

// small returns a copy of a short recording with all kinds of records. All tests get the
// same recording.
func small(t testing.TB) []byte {
	t.Helper()
	smallOnce.Do(func() { smallFile = findSmall(t) })
	return bytes.Clone(smallFile)
}

func findSmall(t testing.TB) []byte {
	var best []byte
	for seed := range uint64(40) {
		if seed >= 12 && best != nil {
			break
		}
		for _, l := range simulate(t, "n300", seed) {
			r, err := record.NewReader(bytes.NewReader(l.file.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			kinds := map[byte]bool{}
			if err := r.EachRaw(func(b []byte) error {
				kinds[b[0]] = kinds[b[0]] || len(b) > 4 || b[0] != byte(chip.OpPollResult)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if kinds[byte(record.KindUndo)] && kinds[byte(record.KindDone)] && kinds[byte(chip.OpPollResult)] && kinds[byte(record.KindAdmission)] && (best == nil || l.file.Len() < len(best)) {
				best = l.file.Bytes()
			}
		}
	}
	if best == nil {
		t.Fatal("no recording has all kinds of records")
	}
	return best
}

func TestWhatDiffersIsFound(t *testing.T) {
	b := small(t)
	if s, err := replay(rewrite(t, b, nil, nil)); err != nil || s.Calls < 100 {
		t.Fatalf("unchanged: %+v, %v", s, err)
	}
	for _, c := range []struct {
		name   string
		header func(h *record.Header)
	}{
		{"seed", func(h *record.Header) { h.Config.Seed++ }},
		{"incarnation", func(h *record.Header) { h.Config.Incarnation++ }},
		{"frame payload", func(h *record.Header) { h.Config.MaxPayload = 4096 - h.Config.MaxPayload%4096/32*32 }},
		{"hello interval", func(h *record.Header) { h.Config.Profile.HelloMin *= 2; h.Config.Profile.HelloMax *= 2 }},
	} {
		_, err := replay(rewrite(t, b, c.header, nil))
		var d *record.Difference
		if !errors.As(err, &d) || d.Want == d.Got || d.Call == 0 {
			t.Errorf("another %s: %v, want a difference", c.name, err)
		} else {
			t.Logf("%s: %v", c.name, d)
		}
	}
	// For each kind below, the test changes one bit of one record.
	for _, k := range []record.Kind{record.Kind(chip.OpHandleDatagram), record.Kind(chip.OpPollTransmit), record.Kind(chip.OpPollResult),
		record.Kind(chip.OpPollEvent), record.KindDue, record.KindDone, record.KindPerformed, record.KindNext, record.KindAdmission} {
		hit := -1
		changed := rewrite(t, b, nil, func(n int, rec []byte) []byte {
			if hit < 0 && record.Kind(rec[0]) == k && len(rec) > 4 || hit < 0 && k == record.KindAdmission && rec[0] == byte(k) {
				hit = n
				at := len(rec) - 1
				if k == record.KindNext {
					at = 1 // the token: the last byte of a unicast has no meaning
				}
				rec[at] ^= 1
			}
			return rec
		})
		if hit < 0 {
			t.Errorf("the recording has no %s to be changed", k)
			continue
		}
		s, err := replay(changed)
		var d *record.Difference
		if !errors.As(err, &d) && s.Cut == nil {
			t.Errorf("record %d, %s, was changed and nothing was found: %+v", hit, k, s)
		} else {
			t.Logf("%s: %v %v", k, d, s.Cut)
		}
	}
}

func TestCutAnywhere(t *testing.T) {
	b := small(t)
	whole, err := replay(b)
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for n := 0; n < len(b); n += 1 + len(b)/120 {
		s, err := replay(b[:n])
		if err != nil {
			if s.Calls > 0 || last > 0 {
				t.Fatalf("after %d bytes: %v", n, err)
			}
			continue // the file ends within the header
		}
		if s.Cut == nil || s.End != 0 || s.Calls < last || s.Calls > whole.Calls {
			t.Fatalf("after %d bytes: %+v", n, s)
		}
		last = s.Calls
	}
	for n := 0; n < len(b); n += 1 + len(b)/120 {
		c := bytes.Clone(b)
		c[n] ^= 0x10
		if s, err := replay(c); err == nil && s.Cut == nil && n != 10 && n != 11 {
			t.Errorf("byte %d was changed and nobody noticed", n)
		}
	}
}

// TestEndsWithinACall cuts a recording within calls. With the reasons limit, panic and
// error, missing answers are no difference. With the reason "closed", a missing answer is
// a difference.
func TestEndsWithinACall(t *testing.T) {
	b := small(t)
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	h, all := *r.Header(), [][]byte{}
	if err := r.EachRaw(func(rec []byte) error { all = append(all, bytes.Clone(rec)); return nil }); err != nil {
		t.Fatal(err)
	}
	ending := func(n int, why record.EndReason) error {
		var out bytes.Buffer
		w, err := record.NewWriter(&out, h, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		var raw []byte
		for _, rec := range all[:n] {
			raw = append(append(raw, appendUvarint(nil, len(rec))...), rec...)
		}
		if err := errors.Join(w.Block(raw), w.End(why, "")); err != nil {
			t.Fatal(err)
		}
		_, err = replay(out.Bytes())
		return err
	}
	within := 0
	for n := 1; n < min(len(all), 300); n += 4 {
		why := []record.EndReason{record.EndLimit, record.EndPanic, record.EndError}[n%3]
		if err := ending(n, why); err != nil {
			t.Fatalf("%d records, %v: %v", n, why, err)
		}
		if ending(n, record.EndClosed) != nil {
			within++
		}
	}
	if within == 0 {
		t.Error("an answer that is missing before the end was never noticed")
	}
}

func TestUntil(t *testing.T) {
	b := small(t)
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	seen := uint64(0)
	s, err := record.Replay(r, record.Options{Until: 77, Each: func(n uint64, _ *record.Record) error { seen = n; return nil }})
	if err != nil || s.Calls != 77 || seen != 77 {
		t.Errorf("%+v, %v, %d seen", s, err, seen)
	}
	r, _ = record.NewReader(bytes.NewReader(b))
	if s, err = record.Replay(r, record.Options{At: r.Header().Started.Add(time.Second)}); err != nil || s.Calls == 0 || s.Last > r.Header().Started.Add(time.Second) {
		t.Errorf("%+v, %v", s, err)
	}
	r, _ = record.NewReader(bytes.NewReader(b))
	if _, err = record.Replay(r, record.Options{Each: func(uint64, *record.Record) error { return io.ErrClosedPipe }}); err != io.ErrClosedPipe {
		t.Errorf("%v, want the watcher's error", err)
	}
}

func TestHeaderComesBack(t *testing.T) {
	m, err := topo.Named("torus:4x4")
	if err != nil {
		t.Fatal(err)
	}
	gone := m.Cables[3].A
	want := chip.Config{Node: m.Chips[5].Node, FlowEpoch: 12, Incarnation: 1<<63 + 5, Topology: m,
		Behaviour: chip.Behaviour{
			Route:   route.Config{Engine: route.Engines[0].Name, Order: route.YX, Ring: route.Bubble, Exits: route.PrintedExits, OneWay: true, Lines: true, Failed: func(p wire.PortID) bool { return p == gone }},
			Profile: ttlink.ProfileCrowded, Slots: router.SlotFast, LocalFirst: true, KeepUnreliable: true,
			Timeout: router.Timeout{After: time.Second, Drop: true}, TTL: 9, StrictTTL: true, MemoryLimit: 1 << 40},
		MaxPayload: 1408, Window: 1 << 17, Phase: 7, Seed: 1<<64 - 1, KernelSeed: 1<<64 - 2}
	for _, v := range []reflect.Value{reflect.ValueOf(want), reflect.ValueOf(want.Behaviour), reflect.ValueOf(want.Route)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() && v.Type().Field(i).Tag.Get("json") != "-" {
				t.Errorf("%s.%s: give it a value here, so that the test checks that a recording's header returns the value", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	var b bytes.Buffer
	if _, err := record.NewWriter(&b, record.Header{Program: "v1", Begun: 12, Started: 34, Config: want}, record.MinLimit); err != nil {
		t.Fatal(err)
	}
	r, err := record.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	h := r.Header()
	got := h.Config
	if got.Topology.Hash() != m.Hash() || !got.Route.Failed(gone) || got.Route.Failed(m.Cables[3].B) {
		t.Error("topology or failed cables differ")
	}
	got.Topology, want.Topology, got.Route.Failed, want.Route.Failed = nil, nil, nil, nil
	if a, b := text(got), text(want); a != b || h.Program != "v1" || h.Begun != 12 || h.Started != 34 {
		t.Errorf("got  %s\nwant %s", a, b)
	}
}

func TestLimitIsKept(t *testing.T) {
	l := simulate(t, "mesh:2x2", 5)[0]
	r, err := record.NewReader(bytes.NewReader(l.file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := record.NewWriter(&out, *r.Header(), record.MinLimit)
	if err != nil {
		t.Fatal(err)
	}
	full := false
	err = r.EachRaw(func(rec []byte) error {
		err := w.Block(append(appendUvarint(nil, len(rec)), rec...))
		full = full || errors.Is(err, record.ErrLimit)
		if full && !errors.Is(err, record.ErrLimit) {
			t.Fatal("a block was taken behind the limit")
		}
		return nil
	})
	if err != nil || !full || out.Len() > record.MinLimit || w.Bytes() != int64(out.Len()) {
		t.Fatalf("%d bytes, full: %v, %v", out.Len(), full, err)
	}
	if s, err := replay(out.Bytes()); err != nil || s.End != record.EndLimit {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := record.NewWriter(io.Discard, *r.Header(), 10); err == nil || !strings.Contains(err.Error(), "at least") {
		t.Errorf("a limit of 10 bytes: %v", err)
	}
}

// TestBlocksThatCannotBeCompressed writes a block of random bytes. The reader must return
// these bytes, and the file may grow by at most 200 bytes more.
func TestBlocksThatCannotBeCompressed(t *testing.T) {
	r, err := record.NewReader(bytes.NewReader(small(t)))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rec := make([]byte, 200<<10)
	for i := range rec {
		rec[i] = byte(rng.Uint32())
	}
	rec[0], rec[1], rec[2] = byte(chip.OpHandleDatagram), 0, 3
	var out bytes.Buffer
	w, err := record.NewWriter(&out, *r.Header(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	before := out.Len()
	if err := w.Block(append(appendUvarint(nil, len(rec)), rec...)); err != nil {
		t.Fatal(err)
	}
	if grown := out.Len() - before - len(rec); grown > 200 {
		t.Errorf("%d bytes more than before", grown)
	}
	if r, err = record.NewReader(&out); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Next(); err != nil || got.Channel != 3 || !bytes.Equal(got.Data, rec[3:]) {
		t.Errorf("read back %d bytes on channel %d, %v", len(got.Data), got.Channel, err)
	}
}

// FuzzReplay feeds damaged records to Reader, Replay and Describe. Neither Reader nor Replay nor
// Describe may panic or hang.
func FuzzReplay(f *testing.F) {
	b := small(f)
	r, err := record.NewReader(bytes.NewReader(b))
	if err != nil {
		f.Fatal(err)
	}
	h := *r.Header()
	var raw []byte
	_ = r.EachRaw(func(rec []byte) error {
		if len(raw) < 16<<10 {
			raw = append(append(raw, appendUvarint(nil, len(rec))...), rec...)
		}
		return nil
	})
	f.Add(raw)
	f.Add(raw[:3000])
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) == 0 || len(raw) > 1<<20 {
			return
		}
		var out bytes.Buffer
		w, err := record.NewWriter(&out, h, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Block(raw); err != nil {
			t.Fatal(err)
		}
		_, _ = replay(out.Bytes())
		r, err := record.NewReader(bytes.NewReader(out.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		for {
			rec, err := r.Next()
			if err != nil {
				return
			}
			_ = record.Describe(&rec)
		}
	})
}

// FuzzReader feeds damaged files to Reader and Replay.
func FuzzReader(f *testing.F) {
	f.Add(small(f)[:4000])
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = replay(b)
	})
}
