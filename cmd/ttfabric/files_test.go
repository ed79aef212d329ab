package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ttfabric/node/chip/record/replay"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/scenario/live"
)

// endless is the time after which a test fails if a call that must end at once still runs.
const endless = 20 * time.Second

// TestReadFileEndsWithItsContext reads from a pipe that nobody writes to. The read must
// end when its context ends.
func TestReadFileEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for what, read := range map[string]func() error{
		"topology":  func() error { _, err := folder.LoadTopology(ctx, path); return err },
		"scenario":  func() error { _, err := live.Load(ctx, path); return err },
		"recording": func() error { _, _, err := replay.Open(ctx, path); return err },
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
		f.Close() // ends the reads that still wait for the pipe
	}
}

// TestInterruptEndsARead sends the program one SIGINT while the program reads from a pipe
// that nobody writes to.
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
	signals <- os.Interrupt // the second signal of one Ctrl-C
	select {
	case <-ended:
		t.Fatal("the copy of the first signal ended the program")
	case <-time.After(patience):
	}
	signals <- os.Interrupt
	select {
	case <-ended:
	case <-time.After(endless):
		t.Fatal("not ended by the second signal")
	}
}
