package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestValuesAreCompleted asks for completion of the values of flags, as a shell does. The
// help of a flag must name every value that the completion offers.
func TestValuesAreCompleted(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, x := range []struct{ line, want string }{
		{"up --transport ", "udp quic"}, {"up --transport=", "udp quic"}, {"up --profile ", "lan crowded paced"}, {"compose --auth ", "none psk mtls"}, {"node --log-level ", "debug info warn error"},
		{"routes --ring ", "dateline bubble none"}, {"netem set --direction ", "both a-to-b b-to-a"}, {"up --output ", "table wide json yaml"}, {"generate --transport ", "udp quic"},
		{"validate --vcs ", "own one entry kept apart crossings"}, {"doctor --runtime ", "process docker"},
	} {
		args := strings.Split(x.line, " ")
		out := c.must(append([]string{"__complete"}, args...)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if got := strings.Join(lines[:len(lines)-1], " "); got != x.want || lines[len(lines)-1] != ":4" {
			t.Errorf("completion of %q printed %q; want %q and directive :4 (no file names)", x.line, out, x.want)
		}
	}
	values, seen := flagValues(), map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			seen[f.Name] = true
			for _, v := range values[f.Name] {
				if !strings.Contains(f.Usage, v) {
					t.Errorf("%s --%s: %q is offered, but is not in the help: %s", c.CommandPath(), f.Name, v, f.Usage)
				}
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	for name, v := range values {
		if !seen[name] || slices.Contains(v, "") {
			t.Errorf("--%s is no flag, or has an empty value: %v", name, v)
		}
	}
}

// TestEmptyArguments gives commands an empty argument instead of a name.
func TestEmptyArguments(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, args := range [][]string{{"up", ""}, {"compose", ""}, {"doctor", ""}, {"validate", ""}, {"graph", ""}, {"generate", ""}, {"pki", "make", ""}, {"routes", ""}, {"trace", "", "M0D1"}, {"chip", "kill", ""}, {"replay", ""}} {
		if out, errs, code := c.run(args...); code != exitUsage || !strings.Contains(errs, "is empty") {
			t.Errorf("%q: exit code %d, said %s%s", args, code, out, errs)
		}
	}
}
