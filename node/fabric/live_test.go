package fabric

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/process/processtest"
	"ttfabric/node/session"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// deafEnv is the name of an environment variable. If the variable is set, the chips that this test
// binary runs do nothing.
const deafEnv = "TTFABRIC_TEST_DEAF"

// TestMain lets the test binary run chips. The tests can therefore start fabrics whose chips are
// processes of the test binary. TestMain gives the tests an empty folder for the run folders of
// their fabrics. TestMain also hides the container engine from the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "node" && os.Getenv(deafEnv) != "" {
		time.Sleep(time.Hour)
	}
	ServesChips()
	flag.Set("test.parallel", "6") // the tests wait most of the time
	processtest.Main(m)
}

// The function "own" returns a name that no other test gives its fabric. The function also lets the
// test t run at the same time as other tests.
func own(t *testing.T) string {
	t.Parallel()
	return strings.ToLower(t.Name())
}

// The constant "soon" is the time limit of a test, or of a single step of a test. On an idle
// machine, a test takes much less time.
const soon = time.Minute

// The function "made" makes a fabric whose chips do not run yet. At the end of the test, the fabric
// is removed. The parameter "change" is nil, or a function that changes the options of the fabric.
func made(t *testing.T, name, machine string, change func(*spec.Spec)) *Fabric {
	t.Helper()
	m, err := topo.Named(machine)
	if err != nil {
		t.Fatal(err)
	}
	w := Wanted{Name: name, Topology: m, Named: machine, Spec: spec.Default()}
	w.Spec.Profile = "crowded" // with the timers of this profile, no link fails because the machine is busy
	if change != nil {
		change(&w.Spec)
	}
	f, err := Create(t.Context(), w)
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

// The function "up" makes a fabric as the function "made" does, and brings the fabric up.
func up(t *testing.T, name, machine string, change func(*spec.Spec)) *Fabric {
	t.Helper()
	f := made(t, name, machine, change)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := f.Up(ctx, nil, nil); err != nil {
		t.Fatal(err)
	}
	return f
}

// The function "clients" returns clients of the APIs of the running chips. If no chip runs, the
// function fails the test.
func clients(t *testing.T, f *Fabric) []*api.Client {
	t.Helper()
	cs, _, err := f.Clients()
	if err != nil {
		t.Fatal(err)
	}
	return cs
}

// sessionOf returns a session of chip n. If there is an error, sessionOf fails the test.
func sessionOf(t *testing.T, f *Fabric, n wire.FabricNodeID) *session.Session {
	t.Helper()
	s, err := f.Session(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The function "gone" fails the test if a process or the run folder of a fabric still exists. The
// parameter dir is the run folder, and "chips" has the chips that ran.
func gone(t *testing.T, dir folder.Dir, chips []folder.Chip) {
	t.Helper()
	for _, c := range chips {
		if c.Alive() {
			t.Errorf("chip %s still runs, as %s", c.Chip, c.Where())
		}
	}
	if pids := findProcesses(dir); len(pids) > 0 {
		t.Errorf("processes %v of the fabric still run", pids)
	}
	if left, _ := filepath.Glob(filepath.Join(folder.Root(), "*")); slices.Contains(left, string(dir)) {
		t.Errorf("the run folder %s still exists", dir)
	}
}

// TestUpAndRemove brings up a fabric of four chips, opens the fabric by its name, and removes the
// fabric.
func TestUpAndRemove(t *testing.T) {
	f := made(t, own(t), "ring:4", nil)
	if _, _, err := f.Clients(); err == nil || !strings.Contains(err.Error(), "no chip of fabric \""+f.Name()+"\" is running") {
		t.Errorf("Clients of a fabric that is not up returned the error %v; want the error that no chip is running", err)
	}
	if _, err := Create(t.Context(), Wanted{Name: f.Name(), Topology: f.Topology, Spec: spec.Default()}); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("Create of a second fabric with the same name returned the error %v; want the error that the fabric exists already", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	most, total := 0, 0
	views, err := f.Up(ctx, func(done, of int) { most, total = max(most, done), of }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range views {
		if v.Chip != f.Topology.Nodes()[i] || v.LinksUp != len(v.Links) || len(v.Links) == 0 {
			t.Errorf("chip %s has %d of %d links up", v.Chip, v.LinksUp, len(v.Links))
		}
	}
	if len(views) != 4 || most != f.Topology.Routed() || total != most {
		t.Errorf("Up returned %d chips, and reported %d of %d links as up; want 4 chips and all %d links", len(views), most, total, f.Topology.Routed())
	}
	same, err := Open(ctx, f.Name())
	if err != nil || same.Name() != f.Name() || same.Topology.Hash() != f.Topology.Hash() || same.Spec.ID != f.Spec.ID || same.token != f.token {
		t.Fatalf("Open of the fabric's name returned %+v, %v; want the same fabric as Create", same, err)
	}
	chips := same.Running()
	again, err := same.Up(ctx, nil, nil) // starts no chip, because all chips run
	if err != nil || len(again) != 4 || !slices.Equal(same.Running(), chips) {
		t.Errorf("Up of a running fabric returned %d chips, %v, and now %v run; want 4 chips, and still %v", len(again), err, same.Running(), chips)
	}
	before, _ := os.Stat(f.Dir.Path("mesh.json"))
	if p, err := Peek(f.Dir); err != nil || p.Spec.Name != f.Name() || len(p.Running()) != 4 {
		t.Errorf("Peek returned the error %v, or another fabric; want the running fabric %q with 4 chips", err, f.Name())
	}
	if after, _ := os.Stat(f.Dir.Path("mesh.json")); !os.SameFile(before, after) || !before.ModTime().Equal(after.ModTime()) {
		t.Error("Peek changed the run folder")
	}
	if _, err := same.Client(wire.FabricNodeID{Chip: 9}); err == nil || !strings.Contains(err.Error(), "not in topology ring:4") {
		t.Errorf("Client of a chip that the topology does not have returned the error %v; want the error that the chip is not in the topology", err)
	}
	if found, err := Remove(f.Dir, false, ""); err != nil || found != Stopped || len(chips) != 4 {
		t.Errorf("Remove returned %d, %v, and %d chips ran before; want %d (Stopped), no error, and 4 chips", found, err, len(chips), Stopped)
	}
	gone(t, f.Dir, chips)
	if !f.Gone() {
		t.Error("Gone returned false after Remove; want true")
	}
	if found, err := Remove(f.Dir, false, ""); err != nil || found != Nothing {
		t.Errorf("the second Remove returned %d, %v; want %d (Nothing) and no error", found, err, Nothing)
	}
	if _, err := Open(ctx, f.Name()); err == nil || !strings.Contains(err.Error(), "'ttfabric up'") {
		t.Errorf("Open after Remove returned the error %v; want an error that names 'ttfabric up'", err)
	}
}

// TestSessionsAndQuestions writes and reads data from chip to chip. Then the test sends requests to
// all chips at once.
func TestSessionsAndQuestions(t *testing.T) {
	f := up(t, own(t), "ring:4", nil)
	nodes := f.Topology.Nodes()
	at := wire.NewNocAddr(1, 1, 0x100)
	for i, n := range nodes {
		text := []byte("written from " + n.String())
		dst := nodes[(i+2)%4]
		if err := sessionOf(t, f, n).Write(t.Context(), dst, at, text); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		if err := sessionOf(t, f, nodes[(i+1)%4]).Read(t.Context(), dst, at, got); err != nil || !bytes.Equal(got, text) {
			t.Errorf("Read from chip %s returned %q, %v; want %q", dst, got, err, text)
		}
	}
	cs := clients(t, f)
	slices.Reverse(cs) // Each must return the answers in the order of cs, not in the order of the topology
	failed := errors.New("asked in vain")
	answers := Each(t.Context(), cs, AskTime, func(ctx context.Context, c *api.Client) (wire.FabricNodeID, error) {
		if c.Self() == nodes[1] {
			return nodes[1], failed
		}
		v, err := c.Chip(ctx)
		return v.Chip, err
	})
	for i, a := range answers {
		if a.Chip != nodes[3-i] || a.Err == nil && a.Value != a.Chip || (a.Err != nil) != (a.Chip == nodes[1]) {
			t.Errorf("answer %d is of chip %s and has the value %s and the error %v; want an answer of chip %s, and an error only from chip %s", i, a.Chip, a.Value, a.Err, nodes[3-i], nodes[1])
		}
	}
	values, silent := Values(answers)
	if !slices.Equal(values, []wire.FabricNodeID{nodes[3], nodes[2], nodes[0]}) || !slices.Equal(silent, nodes[1:2]) {
		t.Errorf("Values returned the values %v and the silent chips %v; want the values of chips 3, 2 and 0, and the silent chip %s", values, silent, nodes[1])
	}
	if err := Tell(t.Context(), cs, 0, func(_ context.Context, c *api.Client) error {
		return fmt.Errorf("%s: %w", c.Self(), failed)
	}); !errors.Is(err, failed) || strings.Count(err.Error(), "asked in vain") != 4 {
		t.Errorf("Tell returned the error %v; want an error of each of the 4 chips", err)
	}
	began := time.Now()
	slow := Each(t.Context(), cs, 50*time.Millisecond, func(ctx context.Context, _ *api.Client) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	if _, silent := Values(slow); len(silent) != 4 || time.Since(began) > soon/2 || !errors.Is(slow[0].Err, context.DeadlineExceeded) {
		t.Errorf("Each with a limit of 50 ms took %v, and returned %v; want 4 answers with the error %v", time.Since(began), slow, context.DeadlineExceeded)
	}
	if plan, err := f.PlanNow(t.Context()); err != nil || plan.Hash() != f.Spec.Checked {
		t.Errorf("PlanNow returned another plan than the plan that Create checked, or the error %v", err)
	}
}

// TestChipsComeAndGo kills, starts, restarts and removes chips.
func TestChipsComeAndGo(t *testing.T) {
	f := up(t, own(t), "n300", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	n, other := f.Topology.Nodes()[1], f.Topology.Nodes()[0]
	at := wire.NewNocAddr(1, 1, 0)
	first, _ := f.Where(n)
	if err := f.StartChip(ctx, n, spec.Records{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("running already, as process %d", first.PID)) {
		t.Errorf("StartChip of a running chip returned the error %v; want the error that the chip is running already, as process %d", err, first.PID)
	}
	if err := sessionOf(t, f, other).Write(ctx, n, at, []byte("forgotten")); err != nil {
		t.Fatal(err)
	}
	before, err := TakeCheckpoint(ctx, clients(t, f))
	if err != nil || len(before.Chips) != 2 {
		t.Fatalf("TakeCheckpoint returned a checkpoint of %d chips, %v; want 2 chips", len(before.Chips), err)
	}
	if err := f.KillChip(ctx, n); err != nil || first.Alive() {
		t.Fatalf("KillChip returned the error %v, and Alive then returned %v; want no error, and false", err, first.Alive())
	}
	var none *NotRunningError
	for what, err := range map[string]error{"client": second(f.Client(n)), "session": second(f.Session(n)), "kill": f.KillChip(ctx, n), "pause": f.PauseChip(ctx, n), "remove": second(f.RemoveChip(ctx, n, 0))} {
		if !errors.As(err, &none) || none.Chip != n {
			t.Errorf("the call %q for a chip that does not run returned the error %v; want a NotRunningError for chip %s", what, err, n)
		}
	}
	if l := LostSince(ctx, clients(t, f), before); !slices.Equal(l.Silent, []wire.FabricNodeID{n}) || len(l.Now.Chips) != 1 {
		t.Errorf("LostSince after KillChip returned %+v; want chip %s as silent, and a checkpoint of the other chip", l, n)
	}
	if _, err := f.Up(ctx, nil, nil); err != nil { // starts the killed chip
		t.Fatal(err)
	}
	got := make([]byte, 9)
	if err := sessionOf(t, f, other).Read(ctx, n, at, got); err != nil || !bytes.Equal(got, make([]byte, 9)) {
		t.Errorf("Read from a chip that was killed and started again returned %q, %v; want zero bytes", got, err)
	}
	if l := LostSince(ctx, clients(t, f), before); !slices.Equal(l.Restarted, []wire.FabricNodeID{n}) || len(l.Silent) != 0 || !l.Any() {
		t.Errorf("LostSince after the start of the killed chip returned %+v; want chip %s as restarted, and no silent chip", l, n)
	}
	calls := filepath.Join(t.TempDir(), "calls")
	if err := f.RestartChip(ctx, n, spec.Records{Record: calls, RecordMiB: 1}); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(calls, "chip-"+n.String()+"-*.ttrec")); len(files) != 1 {
		t.Errorf("the folder has the recordings %v of chip %s; want one recording", files, n)
	}
	if _, err := f.WaitUp(ctx, nil); err != nil {
		t.Fatal(err)
	}
	third, _ := f.Where(n)
	if drained, err := f.RemoveChip(ctx, n, soon); err != nil || !drained || third.Alive() {
		t.Errorf("RemoveChip of an idle chip returned %v, %v, and Alive then returned %v; want true, no error, and false", drained, err, third.Alive())
	}
	if err := f.StartChip(ctx, n, spec.Records{}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WaitUp(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sessionOf(t, f, other).Ping(ctx, n); err != nil {
		t.Errorf("Ping of a chip that was removed and started again returned the error %v; want none", err)
	}
}

// The function "second" returns the error of a call that returns a value and an error.
func second[T any](_ T, err error) error { return err }

// TestConcurrentUse calls ClientAt of a Fabric while RestartChip of the same Fabric runs. With 'go
// test -race', the test fails if the two calls use a field of the Fabric without a lock.
func TestConcurrentUse(t *testing.T) {
	f := up(t, own(t), "n300", nil)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	chips := f.Running()
	ended := make(chan error, 1)
	go func() { ended <- f.RestartChip(ctx, chips[1].Chip, spec.Records{}) }()
	for running := true; running; {
		f.ClientAt(chips[0]).Close()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
	}
	if _, silent := Ask(ctx, clients(t, f)); len(silent) != 0 || len(f.Running()) != 2 {
		t.Errorf("%d chips run, and the chips %v do not answer; want 2 chips that both answer", len(f.Running()), silent)
	}
}

// TestSecuredFabric brings up a fabric whose links use a pre-shared key and whose gossip is
// encrypted.
func TestSecuredFabric(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Repeat([]byte{7}, folder.KeyBytes)
	w := Wanted{Name: "sealed", Topology: m, Spec: spec.Default(), GossipKeys: [][]byte{key}, PSK: key}
	w.Spec.Auth, w.Spec.Profile = spec.PSK, "crowded"
	f, err := Create(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Remove() })
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	views, err := f.Up(ctx, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range views {
		for _, l := range v.Links {
			if l.Auth["keyings"] == 0 {
				t.Errorf("the link of chip %s channel %d has agreed on no keys; its counters are %v", v.Chip, l.Channel, l.Auth)
			}
		}
	}
	s, err := f.Chips()
	if err != nil {
		t.Fatal(err)
	}
	gossips, _, err := s.Gossip(ctx, s.All())
	if err != nil || len(gossips) != 2 || len(gossips[0].Pools[0].Keys) != 1 {
		t.Errorf("Gossip returned %+v, %v; want the gossip of 2 chips, with one key", gossips, err)
	}
}

// TestChipsThatDoNotStart starts chips that end at once. Then the test starts chips whose program
// does not exist, and chips that do nothing.
func TestChipsThatDoNotStart(t *testing.T) {
	broken := made(t, "broken", "n300", func(s *spec.Spec) { s.Program = "/bin/false" })
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := broken.Up(ctx, nil, nil); err == nil || !strings.Contains(err.Error(), "ended right after its start, with exit code 1, and its log is empty") {
		t.Errorf("Up with chips that end at once returned the error %v; want the exit status of a chip", err)
	}
	none := made(t, "none", "n300", func(s *spec.Spec) { s.Program = filepath.Join(t.TempDir(), "none") })
	if _, err := none.Up(ctx, nil, nil); err == nil || !strings.Contains(err.Error(), "cannot start the chip's process") {
		t.Errorf("Up with a program that does not exist returned the error %v; want the error that a process cannot start", err)
	}
	t.Setenv(deafEnv, "yes")
	deaf := made(t, "deaf", "n300", nil)
	short, end := context.WithTimeout(ctx, 300*time.Millisecond)
	defer end()
	var e *spec.Error
	if _, err := deaf.Up(short, nil, nil); !errors.As(err, &e) || e.Kind != spec.NotReady || !strings.Contains(err.Error(), "chip M0D0 does not answer, chip M0D1 does not answer") {
		t.Errorf("Up with chips that do nothing returned the error %v; want the error NotReady, which names both chips", err)
	}
	pids := findProcesses(deaf.Dir)
	if len(pids) != 2 || len(deaf.Running()) != 0 {
		t.Fatalf("the processes %v run, and the chips %v have written a file; want two processes, and no file", pids, deaf.Running())
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if _, err := deaf.WaitUp(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitUp with a context that was canceled returned the error %v; want %v", err, context.Canceled)
	}
	if err := deaf.Remove(); err != nil {
		t.Error(err)
	}
	gone(t, deaf.Dir, nil)
	for _, pid := range pids {
		if folder.StartTicks(pid) != 0 {
			t.Errorf("after Remove, process %d still runs; the process has written no file", pid)
		}
	}
}

// TestRemoveAfterACrash removes a fabric whose run folder has damaged files.
func TestRemoveAfterACrash(t *testing.T) {
	f := up(t, own(t), "n300", nil)
	chips := f.Running()
	for _, name := range []string{"mesh.json", "chip-M0D0.json", "token"} {
		if err := os.WriteFile(f.Dir.Path(name), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(t.Context(), f.Name()); err == nil || !strings.Contains(err.Error(), "'ttfabric down' removes the fabric") {
		t.Errorf("Open of a damaged run folder returned the error %v; want an error that names 'ttfabric down'", err)
	}
	if found, err := Remove(f.Dir, false, ""); err != nil || found != Stopped || len(chips) != 2 {
		t.Errorf("Remove returned %d, %v, and %d chips ran before; want %d (Stopped), no error, and 2 chips", found, err, len(chips), Stopped)
	}
	gone(t, f.Dir, chips)
}

// knows waits until a chip knows the given number of members by gossip. Links may come up earlier.
func knows(ctx context.Context, t *testing.T, f *Fabric, n wire.FabricNodeID, members int) {
	t.Helper()
	c, err := f.Client(n)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		if list, err := c.Members(ctx); err != nil {
			t.Fatal(err)
		} else if len(list) == members {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestAttachToChips attaches to a running fabric through the API of one chip, as a user on another
// machine does.
func TestAttachToChips(t *testing.T) {
	f := up(t, own(t), "n300", nil)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	token, err := f.Dir.Token()
	if err != nil {
		t.Fatal(err)
	}
	knows(ctx, t, f, f.Topology.Nodes()[1], 2) // Attach finds the chips that this chip knows by gossip
	apis := []string{f.Running()[1].API}
	if _, err := Attach(ctx, "", apis, token); err == nil || !strings.Contains(err.Error(), "choose another --name") {
		t.Errorf("Attach with the name of the running fabric returned the error %v; want the advice to choose another --name", err)
	}
	if _, err := Attach(ctx, "far", apis, "another token"); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("Attach with a wrong token returned the error %v; want an error about the token", err)
	}
	far, err := Attach(ctx, "far", apis, token)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(far.Running()); n != 2 || !far.Attached() || far.Name() != "far" || far.Spec.ID != f.Spec.ID || far.Spec.Archive+far.Spec.Record != "" {
		t.Errorf("Attach returned a fabric with %d chips and the spec %+v; want 2 chips, the name \"far\", the ID %s, and no --archive and no --record", n, far.Spec, f.Spec.ID)
	}
	if far, err = Open(ctx, "far"); err != nil {
		t.Fatal(err)
	}
	n := f.Topology.Nodes()
	if _, err := sessionOf(t, far, n[0]).Ping(ctx, n[1]); err != nil {
		t.Errorf("Ping in the attached fabric returned the error %v; want none", err)
	}
	for what, err := range map[string]error{"killed": far.KillChip(ctx, n[0]), "paused": far.PauseChip(ctx, n[0]), "removed": second(far.RemoveChip(ctx, n[0], 0))} {
		if err == nil || !strings.Contains(err.Error(), "other machines") || !strings.Contains(err.Error(), what) {
			t.Errorf("the call that would have %s chip %s of the attached fabric returned the error %v; want an error with this word and with \"other machines\"", what, n[0], err)
		}
	}
	if found, err := Remove(far.Dir, false, ""); err != nil || found != Forgotten {
		t.Errorf("Remove of the attached fabric returned %d, %v; want %d (Forgotten) and no error", found, err, Forgotten)
	}
	gone(t, far.Dir, nil)
	if len(f.Running()) != 2 {
		t.Errorf("after Remove of the attached fabric, %d chips of the fabric run; want 2", len(f.Running()))
	}
}
