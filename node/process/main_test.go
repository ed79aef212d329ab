package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// programEnv is the environment variable with the name of the program that chips of this
// test binary run; see programs.
const programEnv = "TTFABRIC_TEST_PROGRAM"

// TestMain lets the test binary run chips, as a user's program does whose main function calls Main.
func TestMain(m *testing.M) {
	if name := os.Getenv(programEnv); name != "" && len(os.Args) > 1 && os.Args[1] == "node" {
		Main(programs[name], kernels)
	}
	os.Exit(m.Run())
}

// place is the NoC address to which the programs write.
var place = wire.NewNocAddr(1, 1, 0x40)

// programs are examples of programs that run beside a chip.
var programs = map[string]Program{
	// ring writes the chip's name to the memory of the next chip and to the log.
	"ring": func(ctx context.Context, s *session.Session) error {
		if err := s.Ready(ctx); err != nil {
			return err
		}
		nodes := s.Topology().Nodes()
		next := nodes[(slices.Index(nodes, s.Self())+1)%len(nodes)]
		fmt.Printf("chip %s writes to %s\n", s.Self(), next)
		return s.Write(ctx, next, place, []byte(s.Self().String()))
	},
	// fails returns an error on chip 1 as soon as the memory of chip 1 has the text "fail".
	"fails": func(ctx context.Context, s *session.Session) error {
		b := make([]byte, 4)
		for s.Self().Chip == 1 {
			if err := s.Read(ctx, s.Self(), place, b); err == nil && string(b) == "fail" {
				return errors.New("out of paper")
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		return nil
	},
	"shift": func(ctx context.Context, s *session.Session) error { return runJob(ctx, s, "shift", "shift") },
	"hang":  func(ctx context.Context, s *session.Session) error { return runJob(ctx, s, "wait", "hang") },
	// broken returns an error on chip 1 at once.
	"broken": func(_ context.Context, s *session.Session) error {
		if s.Self().Chip == 1 {
			return errors.New("out of ink")
		}
		return nil
	},
}

// made makes a fabric whose chips run the named one of the programs. The end of the test
// removes the fabric.
func made(t *testing.T, machine, program string) *fabric.Fabric {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("DOCKER_HOST", "unix://"+dir+"/no-engine.sock")
	t.Setenv(programEnv, program)
	m, err := topo.Named(machine)
	if err != nil {
		t.Fatal(err)
	}
	w := fabric.Wanted{Name: "lab", Topology: m, Spec: spec.Default()}
	w.Spec.Profile = "crowded"
	if w.Spec.Program, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	f, err := fabric.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// started starts the chips of f. started returns the chips' addresses and a session on the first
// chip.
func started(ctx context.Context, t *testing.T, f *fabric.Fabric, exits fabric.Exits) ([]wire.FabricNodeID, *session.Session) {
	t.Helper()
	if _, err := f.Up(ctx, nil, exits); err != nil {
		t.Fatal(err)
	}
	nodes := f.Topology.Nodes()
	s, err := f.Session(nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	return nodes, s
}

// The constant "soon" is the longest time that the tests wait for one step. A step takes much less
// time on an idle machine.
const soon = time.Minute

// The function "within" waits until the function ok returns true. The parameter "what" describes
// the step in the error.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(soon); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", soon, what)
		}
	}
}

// TestProgramRunsOnEachChip runs the program ring. The memory of each chip must have the
// name of the chip before. The chips must continue to run after the end of the program.
func TestProgramRunsOnEachChip(t *testing.T) {
	f := made(t, "ring:4", "ring")
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	exits := make(fabric.Exits, 4)
	nodes, s := started(ctx, t, f, exits)
	for i, n := range nodes {
		before := nodes[(i+3)%4].String()
		within(t, before+" has written to "+n.String(), func() bool {
			got := make([]byte, len(before))
			err := s.Read(ctx, n, place, got)
			return err == nil && string(got) == before
		})
	}
	for i, n := range nodes {
		within(t, "the program of "+n.String()+" has ended", func() bool {
			log, _ := os.ReadFile(f.Dir.ChipPath(n, ".log"))
			return bytes.Contains(log, []byte("the program has ended")) && bytes.Contains(log, fmt.Appendf(nil, "chip %s writes to %s\n", n, nodes[(i+1)%4]))
		})
	}
	if _, err := s.Ping(ctx, nodes[2]); err != nil || len(f.Running()) != 4 {
		t.Errorf("chips do not continue to run after their program: %v, %d run", err, len(f.Running()))
	}
	select {
	case e := <-exits:
		t.Errorf("chip %s ended: %v", e.Chip, e.Err)
	default:
	}
}

// TestProgramsErrorEndsTheProcess runs a program that fails after all links are up, and a
// program that fails at once. The process of the chip must end.
func TestProgramsErrorEndsTheProcess(t *testing.T) {
	f := made(t, "n300", "fails")
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	exits := make(fabric.Exits, 2)
	nodes, s := started(ctx, t, f, exits)
	if err := s.Write(ctx, nodes[1], place, []byte("fail")); err != nil {
		t.Logf("the chip ended before it sent the completion: %v", err)
	}
	select {
	case e := <-exits:
		if e.Chip != nodes[1] || e.Err == nil || e.Err.Error() != "exit status 1" {
			t.Errorf("chip %s ended: %v; want M0D1 with exit status 1", e.Chip, e.Err)
		}
	case <-ctx.Done():
		t.Fatal("the process continues although its program has failed")
	}
	if words := f.LastWords(nodes[1]); words != "chip M0D1: the program failed: out of paper" {
		t.Errorf("last words %q", words)
	}
	if cs := f.Running(); len(cs) != 1 || cs[0].Chip != nodes[0] {
		t.Errorf("running: %+v; want only the other chip", cs)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	f = made(t, "n300", "broken")
	if _, err := f.Up(ctx, nil, nil); err == nil || err.Error() != "chip M0D1 ended right after its start, with exit code 1; the last line of its log: chip M0D1: the program failed: out of ink" {
		t.Errorf("a program that fails at once: %v", err)
	}
}

// TestRunRefuses calls run with arguments that run must refuse.
func TestRunRefuses(t *testing.T) {
	f := made(t, "n300", "ring")
	missing := filepath.Join(t.TempDir(), "none")
	for _, x := range []struct {
		args []string
		want string
	}{
		{nil, "'ttfabric up --program ./hello' starts"},
		{[]string{"run"}, "'ttfabric up --program ./hello' starts"},
		{[]string{"node", "--chip", "X"}, "X"},
		{[]string{"node", "--chip", "M0D0", "--dir", missing}, missing},
		{[]string{"node", "--chip", "M0D9", "--dir", string(f.Dir)}, "chip M0D9 is not in topology n300"},
	} {
		err := run(t.Context(), append([]string{"./hello"}, x.args...), programs["ring"], nil)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v; want %q", x.args, err, x.want)
		}
	}
}

// TestFromFolder reads the configuration of one chip from a run folder, of a fabric with
// fixed UDP ports and with keys.
func TestFromFolder(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	m, err := topo.Named("ring:4")
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Repeat([]byte{3}, folder.KeyBytes)
	w := fabric.Wanted{Name: "lab", Topology: m, Spec: spec.Default(), GossipKeys: [][]byte{key}, PSK: key}
	w.Spec.PortBase, w.Spec.Auth, w.Spec.ArchiveMiB = 7000, spec.PSK, 3
	f, err := fabric.Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	token, _ := f.Dir.Token()
	c, err := FromFolder(f.Dir, m.Nodes()[2])
	if err != nil {
		t.Fatal(err)
	}
	if c.Address.PortBase != 7000+2*spec.ChannelStride || !c.Address.Listen.IsLoopback() || c.Token != token || c.Keys == nil || !bytes.Equal(c.Ports.psk, key) ||
		c.Archive.Dir != f.Dir.Path("archive") || c.Archive.Limits.TotalBytes != 3<<20 || c.Spec.ID != f.Spec.ID || c.Topology.Hash() != m.Hash() {
		t.Errorf("%+v", c)
	}
	if seeds := c.seeds(meshPool); len(seeds) != 0 || c.gone() {
		t.Errorf("seeds %v of a fabric that does not run; gone %v", seeds, c.gone())
	}
	self := folder.Chip{Chip: m.Nodes()[1], PID: os.Getpid(), Started: folder.StartTicks(os.Getpid()), Gossip: "127.0.0.1:7", Exits: "127.0.0.1:8"}
	dead := self
	dead.Chip.Chip, dead.Started = 0, 1
	if err := errors.Join(c.running(self), f.Dir.WriteChip(dead)); err != nil {
		t.Fatal(err)
	}
	if a, b := c.seeds(meshPool), c.seeds(exitPool); !slices.Equal(a, []string{"M0D1/127.0.0.1:7"}) || !slices.Equal(b, []string{"M0D1/127.0.0.1:8"}) {
		t.Errorf("seeds %v and %v, want those of the chip that runs", a, b)
	}
	if err := f.Dir.Remove(); err != nil || !c.gone() {
		t.Errorf("%v; the fabric does not count as taken down: %v", err, !c.gone())
	}
}
