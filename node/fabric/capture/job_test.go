package capture

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"ttfabric/wire/capture"
)

// TestTwoStreamsOfOnePort passes two streams of one port to a job. The sink must have one
// interface, with the sum of both statistics. The first stream has no statistics, because
// the chip was killed.
func TestTwoStreamsOfOnePort(t *testing.T) {
	var b bytes.Buffer
	j := &Job{ids: map[string]int{}, keys: map[string]bool{}, merge: capture.NewMerger(1), sink: Stream(&b, capture.Section{}), begin: at(0)}
	ids := make([][]int, 1)
	eat := func(it item) {
		t.Helper()
		if err := j.item(&it, ids); err != nil {
			t.Fatal(err)
		}
	}
	port := &capture.Interface{Name: "M0D0/eth8"}
	eat(item{begins: true})
	eat(item{iface: port})
	eat(item{keys: []byte("CLIENT a b\nCLIENT c d\n")})
	for n := range 3 {
		eat(item{packet: packet(n, 100)})
	}
	eat(item{ends: true}) // the stream ends without statistics, because the chip was killed
	eat(item{begins: true})
	eat(item{iface: port})
	eat(item{keys: []byte("CLIENT a b\nCLIENT e f\n")})
	for n := range 2 {
		eat(item{packet: packet(10+n, 100)})
	}
	eat(item{stats: &capture.Statistics{Start: at(9), End: at(20), Received: 50, Accepted: 6, Dropped: 4}})
	eat(item{ends: true})
	if err := j.release(true); err != nil {
		t.Fatal(err)
	}
	if err := j.sink.Close(j.totals()); err != nil {
		t.Fatal(err)
	}
	c := read(t, &b)
	if s := c.stats[0]; len(c.names) != 1 || len(c.packets) != 5 || s.Received != 53 || s.Accepted != 9 || s.Dropped != 4 || !s.Start.Equal(at(0)) {
		t.Errorf("interfaces %q, %d packets, statistics %+v", c.names, len(c.packets), s)
	}
	if c.keys != "CLIENT a b\nCLIENT c d\nCLIENT e f\n" {
		t.Errorf("keys %q: want each line once", c.keys)
	}
	if s := j.summary(1); s.Frames != 5 || s.Passed != 53 || s.Dropped != 4 || s.Ports != 1 || s.Keys != 3 {
		t.Errorf("%+v", s)
	}
}

// TestSummary checks that the summary has a line for each problem, and only one line if
// there was no problem.
func TestSummary(t *testing.T) {
	s := Summary{Frames: 1, Passed: 10, Ports: 2, Chips: 1, Took: 1500 * time.Millisecond, Files: []string{"a", "b", "c"}}
	if got := s.String(); got != "1 frame of 10 that passed 2 ports of 1 chip in 1.5 s, written to a … c; 0 dropped by the capture" {
		t.Errorf("%s", got)
	}
	s.Dropped, s.Late, s.WantKeys, s.Files = 4, 3, true, s.Files[:1]
	got := strings.Split(s.String(), "\n")
	if len(got) != 4 || !strings.Contains(got[0], ", written to a; 4 dropped") || !strings.Contains(got[1], "--buffer") || !strings.Contains(got[2], "--keylog") || !strings.HasPrefix(got[3], "3 frames came late") {
		t.Errorf("%q", got)
	}
	if s.Keys = 1; strings.Contains(s.String(), "--keylog") {
		t.Errorf("keys came: %s", s)
	}
}
