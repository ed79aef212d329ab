package capture

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ttfabric/membership"
	"ttfabric/membership/gossip"
	"ttfabric/node"
	"ttfabric/node/admin"
	"ttfabric/node/admin/api"
	"ttfabric/node/chip"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// TestMain makes a folder for the run folders of these tests' fabrics. Six tests run at a time, on
// any number of cores, because the tests wait most of the time.
func TestMain(m *testing.M) {
	flag.Set("test.parallel", "6")
	dir, err := os.MkdirTemp("", "fabrics")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_RUNTIME_DIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// patience is the longest time that the tests wait for one step. A step takes much less
// time on an idle machine.
const patience = time.Minute

// machine is a fabric whose chips all run in this process, with a run folder.
type machine struct {
	t     *testing.T
	topo  *topo.Topology
	dir   folder.Dir
	token string
	stops map[wire.FabricNodeID]func()
	seeds []string
}

// newMachine makes the run folder of an n300 in a new folder for run folders, and starts the chips
// with the given numbers.
func newMachine(t *testing.T, chips ...int) *machine {
	t.Helper()
	t.Parallel()
	m := &machine{t: t, token: "first", stops: map[wire.FabricNodeID]func(){}}
	var err error
	if m.topo, err = topo.Named("n300"); err != nil {
		t.Fatal(err)
	}
	want := spec.Default()
	want.Profile = ttlink.ProfileCrowded.Name
	s, err := spec.New(strings.ToLower(t.Name()), m.topo, want)
	must(t, err)
	must(t, folder.MakeRoot())
	m.dir, err = folder.For(strings.ToLower(t.Name()))
	must(t, err)
	must(t, m.dir.Create(m.topo, &s, m.token))
	for _, i := range chips {
		m.start(i)
	}
	t.Cleanup(func() { os.RemoveAll(string(m.dir)) })
	t.Cleanup(func() {
		for _, stop := range m.stops {
			stop()
		}
	})
	return m
}

// start starts chip number i and its API, and writes the API's address into the run folder.
func (m *machine) start(i int) {
	m.t.Helper()
	id := m.topo.Chips[i].Node
	inc := wire.Incarnation(time.Now().UnixNano())
	n, err := node.Start(m.t.Context(), node.Config{Node: id, Topology: m.topo, Incarnation: inc, Behaviour: chip.Behaviour{Profile: ttlink.ProfileCrowded},
		Port: func(a netip.AddrPort) (transport.Port, error) {
			return transport.Listen(transport.Options{Local: a})
		},
		Join: func(ctx context.Context, meta membership.Meta) (node.Membership, error) {
			seeds := slices.Clone(m.seeds)
			return gossip.Start(ctx, gossip.Config{Node: id, Incarnation: inc, Bind: netip.MustParseAddrPort("127.0.0.1:0"), Label: "test", Meta: meta, Seeds: func() []string { return seeds }})
		}})
	must(m.t, err)
	m.seeds = append(m.seeds, n.GossipAddr().String())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(m.t, err)
	srv := admin.NewServer(n, m.token)
	go srv.Serve(l)
	must(m.t, m.dir.WriteChip(folder.Chip{Chip: id, PID: os.Getpid(), Started: folder.StartTicks(os.Getpid()), API: l.Addr().String()}))
	m.stops[id] = func() { srv.Close(); n.Close() }
}

// stop ends chip number i and removes its file from the run folder.
func (m *machine) stop(i int) {
	id := m.topo.Chips[i].Node
	m.stops[id]()
	delete(m.stops, id)
	m.dir.RemoveChip(id)
}

// open opens the fabric and prepares a capture at all ports, with the given options.
func (m *machine) open(o Options) (*fabric.Fabric, *Job) {
	m.t.Helper()
	f, err := fabric.Open(m.t.Context(), strings.ToLower(m.t.Name()))
	must(m.t, err)
	where, err := Ports(f.Topology, nil)
	must(m.t, err)
	j, err := New(f, where, o)
	must(m.t, err)
	return f, j
}

// write waits until links are up, then writes n bytes from the first chip to the memory of
// the second.
func (m *machine) write(n int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	f, err := fabric.Open(ctx, strings.ToLower(m.t.Name()))
	must(m.t, err)
	s, err := f.Session(m.topo.Chips[0].Node)
	must(m.t, err)
	must(m.t, s.Ready(ctx))
	must(m.t, s.Write(ctx, m.topo.Chips[1].Node, wire.NewNocAddr(1, 1, 0), make([]byte, n)))
}

// heard collects the messages of a job.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) say(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, line)
}

// wait waits until a message of the job contains the given text.
func (h *heard) wait(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		h.mu.Lock()
		said := slices.ContainsFunc(h.lines, func(l string) bool { return strings.Contains(l, text) })
		h.mu.Unlock()
		if said {
			return
		}
	}
	t.Fatalf("no message contains %q, messages are %q", text, h.lines)
}

// result is what a run returned.
type result struct {
	sum Summary
	err error
}

// run starts a job. The returned function waits for the job's end, and cancels the job
// first if cancelled is true.
func run(t *testing.T, j *Job, s Sink) (end func(cancelled bool) result) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan result, 1)
	go func() {
		sum, err := j.Run(ctx, s)
		done <- result{sum, err}
	}()
	return func(cancelled bool) result {
		t.Helper()
		if cancelled {
			cancel()
		}
		defer cancel()
		select {
		case r := <-done:
			return r
		case <-time.After(patience):
			t.Fatal("the capture does not end")
			return result{}
		}
	}
}

// TestCaptureGoesOn captures while a chip ends and starts again, and while the whole fabric
// starts again with another token.
func TestCaptureGoesOn(t *testing.T) {
	m := newMachine(t, 0, 1)
	o := Options{Write: filepath.Join(t.TempDir(), "all.pcapng")}
	f, j := m.open(o)
	sink, err := Files(&o, Section(f, "test"))
	must(t, err)
	var h heard
	j.Say = h.say
	end := run(t, j, sink)
	h.wait(t, "The capture has begun, at 4 ports of 2 chips.")
	m.write(100_000)
	m.stop(1)
	h.wait(t, "chip M0D1 does not answer")
	m.start(1)
	h.wait(t, "chip M0D1 answers again")
	m.write(50_000)

	m.stop(0)
	m.stop(1)
	h.wait(t, "chip M0D0 does not answer")
	m.token, m.seeds = "second", nil
	m.start(0)
	m.start(1)
	time.Sleep(2 * retryTime) // during this time, the run folder has the old token, which the chips refuse
	must(t, m.dir.WriteToken(m.token))
	h.wait(t, "chip M0D0 answers again")
	m.write(50_000)
	r := end(true)
	if r.err != nil {
		t.Fatal(r.err)
	}
	c := readFile(t, o.Write)
	slices.Sort(c.names)
	if want := []string{"M0D0/eth8", "M0D0/eth9", "M0D1/eth0", "M0D1/eth1"}; !slices.Equal(c.names, want) || len(c.stats) != 4 {
		t.Errorf("interfaces %q, want %q, %d statistics", c.names, want, len(c.stats))
	}
	if !slices.IsSortedFunc(c.packets, func(a, b capture.Packet) int { return a.At.Compare(b.At) }) && r.sum.Late == 0 {
		t.Error("packets follow packets of a later time, and the summary does not say so")
	}
	var kept uint64
	for _, s := range c.stats {
		kept += s.Accepted - s.Dropped
	}
	// Each packet writes at most 4096 bytes, and the capture sees each packet at both ends
	// of a cable.
	if n := len(c.packets); r.sum.Frames != n || kept < uint64(n) || n < 2*(200_000/4096) || r.sum.Ports != 4 || r.sum.Chips != 2 || !slices.Equal(r.sum.Files, []string{o.Write}) {
		t.Errorf("%d packets in the file, %d packets in the statistics: %+v", n, kept, r.sum)
	}
}

// TestCaptureEndsWithTheFabric takes the fabric down during a capture. The capture must end
// without an error.
func TestCaptureEndsWithTheFabric(t *testing.T) {
	m := newMachine(t, 0, 1)
	f, j := m.open(Options{})
	var b bytes.Buffer
	end := run(t, j, Stream(&b, Section(f, "test")))
	m.write(10_000)
	must(t, m.dir.Remove())
	m.stop(0)
	m.stop(1)
	if r := end(false); r.err != nil || r.sum.Frames == 0 || len(read(t, &b).packets) != r.sum.Frames {
		t.Errorf("%+v", r)
	}
}

// TestCount runs a capture with a limit of three frames, and a capture with a limit of time.
func TestCount(t *testing.T) {
	m := newMachine(t, 0, 1)
	_, j := m.open(Options{Count: 3})
	var b bytes.Buffer
	end := run(t, j, Lines(&b))
	if r := end(false); r.err != nil || r.sum.Frames != 3 || strings.Count(b.String(), "\n") != 3 || r.sum.Files != nil {
		t.Errorf("%+v: %s", r, b.String())
	}
	_, j = m.open(Options{Duration: 100 * time.Millisecond})
	if r := run(t, j, Lines(&b))(false); r.err != nil || r.sum.Took < 100*time.Millisecond {
		t.Errorf("a duration: %+v", r)
	}
}

// TestMissingChipIsCapturedOnceItRuns begins a capture while one of two chips runs. The
// capture must have the frames of the second chip after its start.
func TestMissingChipIsCapturedOnceItRuns(t *testing.T) {
	m := newMachine(t, 0)
	f, j := m.open(Options{})
	if got := j.Missing(); len(got) != 1 || got[0] != m.topo.Chips[1].Node {
		t.Errorf("missing %v", got)
	}
	var b bytes.Buffer
	s := &watched{Sink: Stream(&b, Section(f, "test")), added: make(chan string, 8)}
	end := run(t, j, s)
	m.start(1)
	for n := range 4 {
		select {
		case <-s.added:
		case <-time.After(patience):
			t.Fatalf("%d interfaces of 4", n)
		}
	}
	m.write(10_000)
	if r := end(true); r.err != nil || r.sum.Ports != 4 {
		t.Errorf("%+v", r)
	}
	if names := read(t, &b).names; len(names) != 4 || !slices.Contains(names, "M0D1/eth1") {
		t.Errorf("interfaces %q", names)
	}
	m.stop(0)
	m.stop(1)
	if _, err := New(f, fabric.Where{}, Options{}); err == nil || !strings.Contains(err.Error(), "no chip of fabric") {
		t.Errorf("no chip runs: %v", err)
	}
}

// watched is a sink that sends the name of each added interface to the channel "added".
type watched struct {
	Sink
	added chan string
}

func (w *watched) AddInterface(i capture.Interface) error {
	w.added <- i.Name
	return w.Sink.AddInterface(i)
}

// TestRefusedCapture runs a capture that the chips refuse. The error must have the text of
// the chips' refusal.
func TestRefusedCapture(t *testing.T) {
	m := newMachine(t, 0, 1)
	_, j := m.open(Options{Filter: "tcp"})
	var refused *api.StatusError
	if r := run(t, j, Lines(&bytes.Buffer{}))(false); !errors.As(r.err, &refused) || !strings.Contains(r.err.Error(), `"tcp", word 1`) {
		t.Errorf("%+v", r)
	}
}

// TestReaderGoesAway closes the reading end of a capture's pipe. The capture must end
// without an error.
func TestReaderGoesAway(t *testing.T) {
	m := newMachine(t, 0, 1)
	f, j := m.open(Options{})
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	end := run(t, j, Stream(w, Section(f, "test")))
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	if r := end(false); r.err != nil {
		t.Error(r.err)
	}
}
