// Package tracetest runs scripted traces, the tests of pure machines that a
// reader can follow line by line.
//
// A trace is a file testdata/traces/NAME.txt of the package under test. The file begins with a
// comment, lines with #, that says what the trace shows. A script follows, one command per line.
// Below a line of four dashes stands the outcome of the script, which a person has checked. The
// outcome has each command, and below the command what the machine did, with the time on the
// machine's own clock. A test runs the script anew. If anything differs, the test fails.
package tracetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Machine is what a script drives: the machine under test with its surroundings.
type Machine interface {
	// Now returns the machine's time since the script began.
	Now() time.Duration
	// Do performs one command of the script. An error, such as one for an
	// unknown command, ends the test.
	Do(words []string) error
	// Tell writes down, with [Trace.Say], what has happened and is not written
	// down yet. [Run] calls Tell after each command.
	Tell()
}

// Trace collects the lines that are written down while a script runs.
type Trace struct {
	now func() time.Duration
	out strings.Builder
}

// Say writes a line down, behind the machine's time.
func (x *Trace) Say(format string, args ...any) {
	fmt.Fprintf(&x.out, "%-10v %s\n", x.now().Round(time.Microsecond), fmt.Sprintf(format, args...))
}

// end is the line between a script and its outcome.
const end = "----\n"

// Run runs all scripts of testdata/traces, each with a machine of its own that start makes. If the
// outcome differs from the outcome in the file, Run fails. If rewrite is set, Run instead writes
// the outcome into the file. Every script may have the command "note". Run copies the words after
// "note" into the trace and does nothing else.
func Run(t *testing.T, rewrite bool, start func(t *testing.T, x *Trace) Machine) {
	files, err := filepath.Glob("testdata/traces/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no traces", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(b), end)
			if !strings.HasPrefix(script, "# ") {
				t.Errorf("%s does not begin with a comment that says what the trace shows", name)
			}
			got := run(t, script, start)
			switch {
			case got == want && got != "":
			case rewrite:
				if err := os.WriteFile(name, []byte(script+end+got), 0o644); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("the trace has changed; see with -rewrite whether for the better:\n%s", firstDifference(want, got))
			}
		})
	}
}

// run runs one script and returns its trace.
func run(t *testing.T, script string, start func(t *testing.T, x *Trace) Machine) string {
	x := &Trace{}
	m := start(t, x)
	x.now = m.Now
	for n, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		x.Say("> %s", strings.Join(words, " "))
		if words[0] != "note" {
			if err := m.Do(words); err != nil {
				t.Fatalf("line %d: %q: %v", n+1, line, err)
			}
		}
		m.Tell()
	}
	return x.out.String()
}

// firstDifference names the first line in which an outcome differs from the wanted outcome.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			return fmt.Sprintf("line %d:\n got  %s\n want %s", i+1, g[i], strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""))
		}
	}
	return "the trace is shorter than it was"
}
