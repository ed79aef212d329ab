package fit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// machine returns a table like that of 'inspect --links', which needs more than 100 characters.
func machine(width int) (print func() (out, note string)) {
	var b, n strings.Builder
	t := New(&b, &n, width, "Chip", "Peer", "State", "Training", "RTT µs", "Sent", "Received", "Note", "")
	t.Least("RTT µs", "Training")
	for i := range 3 {
		t.AppendRow(table.Row{fmt.Sprintf("M0D%d", i), "M0D7/12", "up", "ready for traffic", 12.5, 123456789, 987654321, "the cable carries the frames of its neighbour", "as planned"})
	}
	t.AppendFooter(table.Row{"all", "", "", "", "", 1, 2, "", ""})
	return func() (string, string) {
		t.Render()
		return b.String(), n.String()
	}
}

func widest(s string) (n int) {
	for line := range strings.Lines(s) {
		n = max(n, text.StringWidth(strings.TrimSuffix(line, "\n")))
	}
	return n
}

// TestWidths prints one table at many widths. No line may be wider than the terminal, and each row must be one line.
func TestWidths(t *testing.T) {
	whole, note := machine(0)()
	if note != "" || widest(whole) < 120 {
		t.Fatalf("without a limit, the table has %d columns, note %q", widest(whole), note)
	}
	for width := 24; width <= 160; width++ {
		out, note := machine(width)()
		if n := widest(out); n > width {
			t.Errorf("at %d columns, the table has %d:\n%s", width, n, out)
		}
		if lines := strings.Count(out, "\n"); lines != strings.Count(whole, "\n") {
			t.Errorf("at %d columns, the table has %d lines:\n%s", width, lines, out)
		}
		if n := widest(note); n > width {
			t.Errorf("at %d columns, the note has %d: %s", width, n, note)
		}
		if fits := width >= widest(whole); fits != (note == "") || fits && out != whole {
			t.Errorf("at %d columns, note %q:\n%s", width, note, out)
		}
		if !strings.Contains(out, "M0D2") {
			t.Errorf("at %d columns, the first column is incomplete:\n%s", width, out)
		}
		if strings.Contains(out, "…") != strings.Contains(note, "shortened") {
			t.Errorf("at %d columns, note %q:\n%s", width, note, out)
		}
	}
}

// TestLeast checks which columns the table leaves out first: the columns of Least in their order,
// before the table shortens any text.
func TestLeast(t *testing.T) {
	whole, _ := machine(0)()
	_, note := machine(widest(whole) - 1)()
	if !strings.HasPrefix(note, "Columns left out: RTT µs. The terminal has ") {
		t.Errorf("one character too wide: %s", note)
	}
	if _, note = machine(100)(); !strings.HasPrefix(note, "Columns left out: Training, RTT µs. Long texts are shortened.") { // in the order of the table
		t.Errorf("at 100 columns: %s", note)
	}
	out, _ := machine(60)()
	for _, number := range []string{"123456789", "M0D7/12"} {
		if strings.Contains(out, number[:5]) && !strings.Contains(out, number) {
			t.Errorf("a number was shortened:\n%s", out)
		}
	}
}

// TestSameName leaves out columns of the same name, the right column first.
func TestSameName(t *testing.T) {
	var b, n strings.Builder
	x := New(&b, &n, 20, "From", "Ch", "To", "Ch")
	x.Least("Ch", "Ch")
	x.AppendRow(table.Row{"M0D1", 7, "M0D2", 9})
	x.Render()
	if !strings.Contains(b.String(), "7") || strings.Contains(b.String(), "9") || !strings.Contains(n.String(), "left out:\nCh.") {
		t.Errorf("%s%s", b.String(), n.String())
	}
}

// TestShort shortens texts.
func TestShort(t *testing.T) {
	for _, x := range []struct {
		s     string
		width int
		want  string
	}{
		{"hello", 5, "hello"}, {"hello", 4, "hel…"}, {"hello world", 7, "hello…"}, {"two\nlines", 5, "two\nlines"}, {"long line\nb", 5, "long…"}, {"ab", 1, "…"}, {"µs µs µs", 6, "µs µs…"},
	} {
		if got := Short(x.s, x.width); got != x.want {
			t.Errorf("Short(%q, %d) = %q, want %q", x.s, x.width, got, x.want)
		}
	}
}

// TestZerosGoFirst leaves out a column of zeros before a column that holds a fault.
func TestZerosGoFirst(t *testing.T) {
	var b, n strings.Builder
	x := New(&b, &n, 34, "Src", "Corrupted", "Reordered", "Lost")
	x.Least("Corrupted", "Reordered")
	x.AppendRow(table.Row{"M0D1", 3, 0, 0})
	x.AppendRow(table.Row{"M0D2", 0, 0, 0})
	x.Render()
	if !strings.Contains(b.String(), "Corrupted") || !strings.Contains(n.String(), "left out: Reordered.") {
		t.Errorf("%s%s", b.String(), n.String())
	}
}
