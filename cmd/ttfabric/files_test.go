package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endless is how long a test waits for what must end at once.
const endless = 20 * time.Second

func TestReadFileHasALimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := readFile(t.Context(), path, 5); err != nil || string(b) != "12345" {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := readFile(t.Context(), path, 4); err == nil || b != nil || !strings.Contains(err.Error(), path) {
		t.Errorf("over the limit: %q, %v", b, err)
	}
	if _, err := readFile(t.Context(), "/dev/zero", 1<<20); err == nil {
		t.Error("a device without an end was read to its end")
	}
	if _, err := loadTopology(t.Context(), "/dev/zero"); err == nil {
		t.Error("a topology without an end was taken")
	}
}

// TestReadFileEndsWithItsContext has a pipe that nobody writes to.
func TestReadFileEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for what, read := range map[string]func() error{
		"topology":  func() error { _, err := loadTopology(ctx, path); return err },
		"scenario":  func() error { _, err := loadScenario(ctx, path); return err },
		"recording": func() error { _, _, err := openRecording(ctx, path); return err },
	} {
		done := make(chan error, 1)
		go func() { done <- read() }()
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(endless):
			t.Fatalf("%s: still waits for the pipe", what)
		}
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		f.Close() // lets the readers that were left behind go
	}
}

// TestInterruptEndsARead sends the program one SIGINT while it waits for a pipe.
func TestInterruptEndsARead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c := newCLI(t).command("validate", path)
	c.Stderr = &said
	stuck := time.AfterFunc(endless, func() { _ = c.Process.Kill() })
	defer stuck.Stop()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != exitSignal || said.Len() != 0 {
		t.Errorf("exit code %d, want %d; said %q", code, exitSignal, said.String())
	}
}

func TestInsist(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	signals, ended := make(chan os.Signal), make(chan struct{})
	go insist(ctx, signals, func() { close(ended) })
	cancel()
	time.Sleep(10 * time.Millisecond)
	signals <- os.Interrupt // the same keystroke, told twice
	select {
	case <-ended:
		t.Fatal("ended by the first signal's double")
	case <-time.After(patience):
	}
	signals <- os.Interrupt
	select {
	case <-ended:
	case <-time.After(endless):
		t.Fatal("not ended by the second signal")
	}
}

func TestWriteOut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"first", "second"} {
		if err := writeOut(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := os.ReadFile(path)
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 || string(b) != "second" {
		t.Errorf("%q, %v, %v", b, fi.Mode(), err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := writeOut(link, []byte("third")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); string(b) != "third" {
		t.Errorf("through a link: %q", b)
	}
	if err := writeOut("/dev/null", nil); err != nil {
		t.Error(err)
	}
	if err := writeOut(filepath.Join(dir, "no", "f"), nil); err == nil || strings.Contains(err.Error(), "tmp:") || !strings.Contains(err.Error(), filepath.Join("no", "f")+":") {
		t.Errorf("no folder: %v", err)
	}
	if ents, _ := os.ReadDir(dir); len(ents) != 2 {
		t.Errorf("left behind: %v", ents)
	}
}

func TestLoadTopologySaysWhatAFolderIs(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("machine", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("round", "round"); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{"machine": "machine is a folder", "round": "too many levels", "n3000": "no file and no built-in"} {
		if _, err := loadTopology(t.Context(), arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
	if err := os.Mkdir("t3000", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := loadTopology(t.Context(), "t3000"); err != nil {
		t.Errorf("a folder hides the built-in machine: %v", err)
	}
}

// TestPauseWaits has every thread of a chip stand still when 'chip pause' returns.
func TestPauseWaits(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", "--name", "pause")
	d := runDir(filepath.Join(c.dir, "ttfabric", "pause"))
	f, ok := processes{d}.chip(t, "M0D1")
	if !ok || standsStill(f.PID) {
		t.Fatalf("%+v: runs %v", f, ok)
	}
	for range 20 {
		c.must("chip", "pause", "M0D1", "--name", "pause")
		if !standsStill(f.PID) {
			t.Fatal("still runs when the command has returned")
		}
		c.must("chip", "resume", "M0D1", "--name", "pause")
	}
}

func (p processes) chip(t *testing.T, name string) (chipFile, bool) {
	t.Helper()
	for _, f := range p.chips() {
		if f.Chip.String() == name {
			return f, true
		}
	}
	return chipFile{}, false
}
