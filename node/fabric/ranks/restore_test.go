package ranks

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ttfabric/node/fabric"
	"ttfabric/node/rank"
	"ttfabric/node/rank/saved"
)

// Steps of the program "sum".
const (
	sumSteps = 12
	sumSave  = 4 // steps between two checkpoints
	sumWait  = 6 // in the first attempt, rank 0 waits before this step
)

// sum is a rank beside its chip. In each step, the rank adds a number to a word of the next chip. The word has
// the right sum only if each step was done once. In the first attempt, rank 0 writes a file, and
// waits for the end of the attempt.
func sum(file string) error {
	ctx := context.Background()
	me, err := rank.Attach(ctx)
	if err != nil {
		return err
	}
	first := 0
	if me.Restored > 0 {
		first = int(binary.LittleEndian.Uint32(me.State))
	}
	for step := first; step < sumSteps; step++ {
		if step == sumWait && me.Attempt == 0 && me.Rank == 0 {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				return err
			}
			select {}
		}
		if err := me.AtomicInc(ctx, me.Chips[(me.Rank+1)%me.World], word, uint32(1000*step+me.Rank), true); err != nil {
			return err
		}
		if err := me.Barrier(ctx); err != nil {
			return err
		}
		if step%sumSave == sumSave-1 {
			if err := me.Save(ctx, binary.LittleEndian.AppendUint32(nil, uint32(step+1))); err != nil {
				return err
			}
		}
	}
	b := make([]byte, 4)
	if err := me.Read(ctx, me.Self(), word, b); err != nil {
		return err
	}
	fmt.Printf("rank %d began at step %d, sum %d\n", me.Rank, first, binary.LittleEndian.Uint32(b))
	return nil
}

// TestRestartFromCheckpoint kills a chip in the middle of a job. The job must begin again from its checkpoint,
// and must end with the result of a job without the loss.
func TestRestartFromCheckpoint(t *testing.T) {
	dir := t.TempDir()
	j, out := made(t, "ring:4", "sum", filepath.Join(dir, "waits"))
	restart(t, j, out, dir)
	damage(t, j)
}

// TestRestartOfPython does the same with a program in Python.
func TestRestartOfPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing")
	}
	dir := t.TempDir()
	script, err := filepath.Abs("../../../scripts/python/resume.py")
	if err != nil {
		t.Fatal(err)
	}
	j, out := made(t, "ring:4", "sum")
	j.Program, j.Args = python, []string{"-B", script, filepath.Join(dir, "waits")}
	restart(t, j, out, dir)
}

// restart runs a job with checkpoints in the folder dir, and kills a chip when the file "waits" is in dir.
func restart(t *testing.T, j *Job, out *buffer, dir string) {
	t.Helper()
	j.AsChip, j.Restarts, j.Checkpoints = false, 3, filepath.Join(dir, "saved")
	if err := j.Bring(t.Context(), make(fabric.Exits, 4)); err != nil {
		t.Fatal(err)
	}
	rep, _, err := j.NewReport()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- j.Run(t.Context(), rep) }()
	for end := time.Now().Add(soon); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "waits")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the ranks do not begin:\n%s", out)
		}
	}
	c, _ := j.Fabric.Where(j.Fabric.Topology.Nodes()[2])
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if rep.ExitCode != 0 || len(rep.Attempts) != 2 || rep.Attempts[0].Checkpoint != 0 || rep.Attempts[1].Checkpoint != sumWait/sumSave {
		t.Fatalf("%+v\n%s", rep, out)
	}
	if s := rep.Attempts[1].Since; s == nil || len(s.Restarted) != 1 || s.Restarted[0] != c.Chip || !strings.Contains(out.String(), "Since checkpoint 1: chip M0D2 has restarted") {
		t.Errorf("%+v\n%s", s, out)
	}
	for r := range 4 {
		want := 0
		for step := range sumSteps {
			want += 1000*step + (r+3)%4
		}
		if line := fmt.Sprintf("[%d] rank %d began at step %d, sum %d\n", r, r, sumSave, want); !strings.Contains(out.String(), line) {
			t.Errorf("no line %q:\n%s", line, out)
		}
	}
	last, err := saved.Latest(j.Checkpoints)
	es, derr := os.ReadDir(j.Checkpoints)
	if err != nil || derr != nil || last != sumSteps/sumSave || len(es) != saved.Kept {
		t.Errorf("latest checkpoint %d of %d: %v, %v", last, len(es), err, derr)
	}
}

// damage changes files of the checkpoint. The job must not begin, and the error must name the file.
func damage(t *testing.T, j *Job) {
	nodes := j.Fabric.Topology.Nodes()
	for _, k := range []saved.Kind{saved.Memory, saved.State, ".json"} {
		path := saved.Path(j.Checkpoints, sumSteps/sumSave, nodes[3], k)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{nil, good[:len(good)-1], append(bytes.Clone(good), 7)} {
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := j.restore(t.Context(), false); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s with %d bytes: %v", path, len(bad), err)
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, _, err := j.restore(t.Context(), false); err != nil || n != sumSteps/sumSave {
		t.Errorf("the whole checkpoint: %d, %v", n, err)
	}
}
