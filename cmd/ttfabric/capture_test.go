package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	fabriccapture "ttfabric/node/fabric/capture"
	"ttfabric/wire/capture"
)

// captureFile reads a capture file. The results "names" and "stats" are about the interfaces. The
// map "comments" holds the number of packets with each comment. The result "ordered" says whether
// the packets are in the order of time.
func captureFile(t *testing.T, path string) (names []string, packets int, comments map[string]int, ordered bool, stats []capture.Statistics) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := capture.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	comments, ordered = map[string]int{}, true
	var last time.Time
	for {
		b, err := r.Next()
		if err != nil {
			if err.Error() != "EOF" {
				t.Fatalf("%s: %v", path, err)
			}
			return
		}
		switch {
		case b.Interface != nil:
			names = append(names, b.Interface.Name)
		case b.Statistics != nil:
			stats = append(stats, *b.Statistics)
		case b.Packet != nil:
			packets++
			ordered = ordered && !b.Packet.At.Before(last)
			last = b.Packet.At
			for _, c := range b.Packet.Comments {
				comments[c]++
			}
		}
	}
}

// capturing returns the number of ports at which a running capture has begun.
func capturing(path string) (ports int) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	r, err := capture.NewReader(f)
	for err == nil {
		var b capture.Block
		if b, err = r.Next(); err == nil && b.Interface != nil {
			ports++
		}
	}
	return ports
}

// TestCapture captures frames of a fabric of processes, while frames are lost and a chip
// is killed. The captures go to a file, to lines, to JSON, to a pipe that closes, and to
// a ring of files.
func TestCapture(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	file := filepath.Join(c.dir, "all.pcapng")
	cmd := c.command("capture", "-w", file)
	talk := filepath.Join(c.dir, "talk")
	said, err := os.Create(talk)
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stderr = said
	says := func(what string) bool {
		b, err := os.ReadFile(talk)
		return err == nil && strings.Contains(string(b), what)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.within(soon, "all four ports are captured", func() bool { return capturing(file) == 4 })
	c.must("netem", "set", "M0D0-M0D1", "--loss", "3%")
	c.run("traffic", "all-to-all", "--packets", "3000") // on a busy machine, packets may get lost
	c.must("netem", "reset")
	c.must("chip", "kill", "M0D1")
	c.within(soon, "its end is noticed", func() bool { return says("chip M0D1 does not answer") })
	c.must("chip", "start", "M0D1")
	c.within(soon, "its return is noticed", func() bool { return says("chip M0D1 answers again") })
	c.run("ping", "M0D0", "M0D1", "-c", "5")
	cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil || !says("frames of ") {
		b, _ := os.ReadFile(talk)
		t.Errorf("%v: %s", err, b)
	}
	names, n, comments, ordered, stats := captureFile(t, file)
	if len(names) != 4 || n < 3000 || !ordered || comments["injected fault: lost"] < 20 || comments["injected fault set: loss=3%"] != 4 || len(stats) != 4 {
		t.Errorf("interfaces %q, %d packets, in order %v, comments %v, %d statistics", names, n, ordered, comments, len(stats))
	}
	t.Run("snap length", func(t *testing.T) { testSnapLength(t, c, file) })
	t.Run("lines", func(t *testing.T) {
		out := c.must("capture", "M0D0:8", "-c", "3", "--duration", "20s")
		if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 3 || !strings.Contains(lines[0], "M0D0/eth8 ") || strings.Contains(out, "eth9") {
			t.Errorf("%s", out)
		}
	})
	t.Run("json", func(t *testing.T) {
		var v fabriccapture.Frame
		if err := json.Unmarshal([]byte(c.must("capture", "M0D0/eth8", "--filter", "update", "-c", "1", "-o", "json")), &v); err != nil || v.Fields["ttlink.kind"][0] != "2" || v.Port != "M0D0/eth8" {
			t.Errorf("%+v, %v", v, err)
		}
	})
	t.Run("a pipe that closes", func(t *testing.T) {
		cmd := c.command("capture", "-w", "-")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(out).ReadByte()
		out.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("ring and limit", func(t *testing.T) {
		ring := c.command("capture", "-w", filepath.Join(c.dir, "ring.pcapng"), "--ring-size", "1", "--ring-files", "2", "--limit", "5", "--full")
		if err := ring.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- ring.Wait() }()
		for running := true; running; {
			c.run("traffic", "all-to-all", "--packets", "3000") // on a busy machine, packets may get lost
			select {
			case err := <-ended:
				if running = false; err != nil {
					t.Error(err)
				}
			default:
			}
		}
		files, _ := filepath.Glob(filepath.Join(c.dir, "ring_*.pcapng"))
		if len(files) != 2 || !strings.Contains(files[1], "ring_00005_") {
			t.Errorf("files %q", files)
		}
		for _, f := range files {
			if names, n, _, _, _ := captureFile(t, f); len(names) != 4 || n < 100 {
				t.Errorf("%s: %q, %d packets", f, names, n)
			}
		}
	})
	t.Run("extcap", func(t *testing.T) { testExtcap(t, c) })
}

// testSnapLength compares the lengths of frames in captures. The file "short" was captured without an option. A
// capture with --full must keep whole frames.
func testSnapLength(t *testing.T, c *cli, short string) {
	lengths := func(path string) (kept, whole int) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := capture.NewReader(f)
		for err == nil {
			var b capture.Block
			if b, err = r.Next(); err == nil && b.Packet != nil {
				kept, whole = max(kept, len(b.Packet.Data)), max(whole, b.Packet.Length)
			}
		}
		return kept, whole
	}
	if kept, whole := lengths(short); kept != capture.DefaultSnapLen || whole < 1000 {
		t.Errorf("without an option, the capture keeps %d bytes of at most %d", kept, whole)
	}
	full := filepath.Join(c.dir, "full.pcapng")
	cmd := c.command("capture", "-w", full, "--full")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.within(soon, "all four ports are captured", func() bool { return capturing(full) == 4 })
	c.run("traffic", "all-to-all", "--packets", "100")
	cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if kept, whole := lengths(full); kept != whole || whole < 1000 {
		t.Errorf("with --full, the capture keeps %d bytes of at most %d", kept, whole)
	}
}

// testExtcap calls the plugin as Wireshark does.
func testExtcap(t *testing.T, c *cli) {
	list := c.must("--extcap-interfaces", "--extcap-version=4.0")
	for _, want := range []string{"extcap {version=", "interface {value=ttfabric-default}{display=ttfabric: default", "interface {value=ttfabric-default-M0D1}"} {
		if !strings.Contains(list, want) {
			t.Errorf("no %s in %s", want, list)
		}
	}
	if out := c.must("extcap", "--extcap-interface", "ttfabric-default", "--extcap-dlts"); out != "dlt {number=1}{name=EN10MB}{display=Ethernet}\n" {
		t.Errorf("%q", out)
	}
	if out := c.must("extcap", "--extcap-interface", "ttfabric-default-M0D1", "--extcap-config"); !strings.Contains(out, "{call=--filter}") || !strings.Contains(out, "{value=M0D1:0}") || strings.Contains(out, "{value=M0D0") {
		t.Errorf("%s", out)
	}
	if out := c.must("extcap", "--extcap-interface", "ttfabric-default", "--extcap-capture-filter", "vc 99"); !strings.Contains(out, "less than 16") {
		t.Errorf("a bad filter: %q", out)
	}
	if out := c.must("extcap", "--extcap-interface", "ttfabric-default", "--extcap-capture-filter", "vc 9"); out != "" {
		t.Errorf("a good filter: %q", out)
	}
	if _, errs, code := c.run("extcap", "--capture", "--extcap-interface", "ttfabric-other", "--fifo", "x"); code != exitFailed || !strings.Contains(errs, `"ttfabric-other"`) {
		t.Errorf("%d %s", code, errs)
	}
	fifo := filepath.Join(c.dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := c.command("--capture", "--extcap-interface", "ttfabric-default", "--fifo", fifo, "--ports", "M0D0:8,M0D1:1", "--snaplen", "80", "--some-later-option", "x", "--keys")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	r, err := capture.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := 0; n < 4; {
		b, err := r.Next()
		switch {
		case err != nil:
			t.Fatal(err)
		case b.Interface != nil:
			names = append(names, b.Interface.Name)
		case b.Packet != nil:
			if n++; len(b.Packet.Data) != 80 {
				t.Errorf("%d bytes", len(b.Packet.Data))
			}
		}
	}
	slices.Sort(names)
	if fmt.Sprint(names) != "[M0D0/eth8 M0D1/eth1]" {
		t.Errorf("interfaces %q", names)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	f.Close()
	if err := cmd.Wait(); err != nil || errs.Len() > 0 {
		t.Errorf("%v: %s", err, errs.String())
	}
}

// TestCaptureFlags gives 'capture' flags that exclude each other. 'capture' must end with
// the exit code of usage, and must name the flags.
func TestCaptureFlags(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for args, want := range map[string]string{
		"--filter tcp":                    `"tcp", word 1`,
		"--count -1":                      "--count -1",
		"--ring-files 3 -w x":             "--ring-size",
		"--ring-size 3":                   "-w FILE",
		"--limit 3":                       "-w",
		"--keys":                          "-w",
		"--snaplen 999999999 -w x":        "--snaplen 999999999",
		"--duration -1s":                  "--duration -1s",
		"--ring-size 1 --ring-files -2 x": "--ring-files -2",
	} {
		if _, errs, code := c.run(append([]string{"capture"}, strings.Fields(args)...)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d: %s", args, code, errs)
		}
	}
	if _, errs, code := c.run("capture", "-n", "none"); code != exitFailed || !strings.Contains(errs, "fabric \"none\"") && !strings.Contains(errs, "fabric named \"none\"") {
		t.Errorf("no fabric: %d %s", code, errs)
	}
}
