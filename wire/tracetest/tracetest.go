// Package tracetest runs scripted traces. A scripted trace is a test of a machine without a clock,
// and a reader can follow it line by line.
//
// A trace is a file testdata/traces/NAME.txt of the package under test. The file begins with
// comment lines (#) that say what the trace shows. A script follows, one command per line. After a
// line of four dashes comes the outcome of the script, which a person has checked. The outcome
// lists each command, and below each command the actions of the machine, with the time of the
// machine's clock. The test runs the script again, and fails if the outcome has changed.
package tracetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Machine is the machine under test, with the parts around it that the test supplies.
type Machine interface {
	// Now returns the machine's time since the script began.
	Now() time.Duration
	// Do performs one command of the script. If Do returns an error, for example for an unknown
	// command, the test ends.
	Do(words []string) error
	// Tell writes into the trace, with [Trace.Say], everything that the machine has done since the
	// last call. [Run] calls Tell after each command.
	Tell()
}

// Trace collects the lines of the outcome while a script runs.
type Trace struct {
	now func() time.Duration
	out strings.Builder
}

// Say adds a line that begins with the machine's time. The parameters are those of [fmt.Sprintf].
func (x *Trace) Say(format string, args ...any) {
	fmt.Fprintf(&x.out, "%-10v %s\n", x.now().Round(time.Microsecond), fmt.Sprintf(format, args...))
}

// end is the line between a script and its outcome.
const end = "----\n"

// Run runs all scripts of testdata/traces. The function "start" makes a new machine for each
// script. If a script's outcome differs from the outcome in the file, the test fails. If rewrite is
// set, Run writes the new outcome into the file instead. Every script may have the command "note".
// Run copies a note into the outcome, and does not pass it to the machine.
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
				t.Errorf("the outcome has changed; run the test with -rewrite, and check the new outcome:\n%s", firstDifference(want, got))
			}
		})
	}
}

// run runs one script and returns its outcome.
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

// firstDifference describes the first line in which the outcome got differs from want.
func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range g {
		if i >= len(w) || w[i] != g[i] {
			return fmt.Sprintf("line %d:\n got  %s\n want %s", i+1, g[i], strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""))
		}
	}
	return "the outcome is shorter than before"
}
