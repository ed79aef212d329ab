package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminalOf opens a terminal with the given number of columns. A read of the file "reader" returns
// what a person at the terminal sees.
func terminalOf(t *testing.T, columns uint16) (reader, tty *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("this machine has no terminals: %v", err)
	}
	t.Cleanup(func() { reader.Close() })
	if err := unix.IoctlSetPointerInt(int(reader.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("cannot unlock a terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skipf("cannot name a terminal: %v", err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("cannot open a terminal: %v", err)
	}
	t.Cleanup(func() { tty.Close() })
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return reader, tty
}

// seen runs a command whose stdout is a terminal, and returns what a person sees, and the text on stderr.
func (c *cli) seen(columns uint16, args ...string) (text, stderr string) {
	c.t.Helper()
	reader, tty := terminalOf(c.t, columns)
	cmd := c.command(args...)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = tty, &errs
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	tty.Close()
	var all []byte
	for b := make([]byte, 4096); ; {
		n, err := reader.Read(b)
		all = append(all, b[:n]...)
		if err != nil {
			break // the command has ended
		}
	}
	if err := cmd.Wait(); err != nil {
		c.t.Fatalf("%v: %v: %s", args, err, errs.String())
	}
	return strings.ReplaceAll(string(all), "\r\n", "\n"), errs.String()
}

// TestTablesFitTheTerminal prints tables on terminals of several widths. No line of a table may be wider than its terminal. With
// '-o wide', and on no terminal, the table has all columns.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("up", "n300", "-d", patient)
	for _, args := range []string{"inspect", "inspect --links", "inspect --rates", "inspect --losses", "inspect M0D0", "ls", "netem show all", "mailbox M0D0", "gossip show", "ping --all", "routes",
		"scenario list", "traffic all-to-all --packets 100", "validate n300", "bench rtt --sizes 0 --rounds 5", "up --dry-run"} {
		for _, columns := range []uint16{60, 80, 100} {
			text, errs := c.seen(columns, strings.Fields(args)...)
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); strings.ContainsAny(line, "│─") && n > int(columns) {
					t.Errorf("%s: a line of %d characters on %d columns: %s", args, n, columns, line)
				}
			}
			if strings.Contains(text, "…") && !strings.Contains(errs, "shortened") {
				t.Errorf("%s: texts are shortened, and stderr says %q", args, errs)
			}
		}
	}
	heads := func(text string) int { return strings.Count(strings.SplitN(text, "\n", 3)[1], "│") }
	whole := heads(c.must("inspect", "--links"))
	narrow, errs := c.seen(80, "inspect", "--links")
	wide, none := c.seen(80, "inspect", "--links", "-o", "wide")
	if heads(wide) != whole || heads(narrow) >= whole || !strings.Contains(errs, "Columns left out: ") || strings.Contains(none, "left out") {
		t.Errorf("columns %d, on 80 columns %d, wide %d; %q, wide %q", whole, heads(narrow), heads(wide), errs, none)
	}
}
