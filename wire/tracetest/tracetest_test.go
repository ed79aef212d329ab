package tracetest

import (
	"strings"
	"testing"
	"time"
)

// clock is a machine with one kind of command, a duration. The command moves the machine's time
// ahead.
type clock struct {
	x   *Trace
	now time.Duration
	at  time.Duration // when Tell was called last
}

func (c *clock) Now() time.Duration { return c.now }

func (c *clock) Do(words []string) (err error) {
	d, err := time.ParseDuration(words[0])
	c.now += d
	return err
}

func (c *clock) Tell() {
	if c.now != c.at {
		c.x.Say("   %v has passed", c.now-c.at)
		c.at = c.now
	}
}

// TestScript checks that comments and empty lines have no effect, and that a note only appears in
// the outcome. Each line of the outcome must have the machine's time.
func TestScript(t *testing.T) {
	got := run(t, "# what is shown\n1ms # a comment\n\nnote 2ms\n  1500us\n", func(t *testing.T, x *Trace) Machine { return &clock{x: x} })
	want := `0s         > 1ms
1ms           1ms has passed
1ms        > note 2ms
1ms        > 1500us
2.5ms         1.5ms has passed
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestFirstDifference(t *testing.T) {
	for _, c := range []struct{ want, got, says string }{
		{"a\nb\n", "a\nc\n", "line 2:\n got  c\n want b"},
		{"a\n", "a\nb\n", "line 2:\n got  b\n want "},
		{"", "a\n", "line 1:\n got  a\n want "},
		{"a\nb\n", "a\n", "line 2:\n got  \n want b"},
		{"a\nb", "a", "shorter"},
	} {
		if says := firstDifference(c.want, c.got); !strings.Contains(says, c.says) {
			t.Errorf("%q, %q: %q", c.want, c.got, says)
		}
	}
}
