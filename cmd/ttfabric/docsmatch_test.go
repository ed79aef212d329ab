package main

import (
	"regexp"
	"strings"
	"testing"
)

// Documents show the output of one run of a command. Another run prints other times,
// ports and counts. So a line in a document is a pattern:
//
//   - A time matches any time. Durations, addresses, hashes and numbers with a fraction
//     likewise match any value of their kind.
//   - A whole number matches any whole number. The number 0 matches only 0, because
//     documents promise "0 lost".
//   - A number within a name, such as M0D5, p50 or 0x1000, matches only itself.
//   - "…" matches any text. A line that is only "…" matches any number of lines.
//   - Spaces match any number of spaces. The rules of a table match rules of any length.
var kinds = []struct {
	name    string
	pattern string
}{
	{"date", `\d{4}-\d\d-\d\d(?:T[\d:.]+Z?)?`},
	{"time", `\d\d:\d\d:\d\d(?:\.\d+)?`},
	{"address", `\d+\.\d+\.\d+\.\d+(?::\d+)?`},
	{"hash", `\b[0-9a-f]*(?:\d[a-f]|[a-f]\d)[0-9a-f]*[0-9a-f]{6,}\b`},
	{"name", `[A-Za-z_][\w]*(?:/\d+\b)?|\d+×\d+|0x[0-9a-f]+`},
	{"span", `\d+(?:\.\d+)? ?(?:ns|µs|ms|s|min|h|m)\b`},
	{"figure", `\d+\.\d+`},
	{"zero", `\b0\b`},
	{"count", `\d+(?:,\d{3})*`},
}

var anyKind = func() *regexp.Regexp {
	var all []string
	for _, k := range kinds {
		all = append(all, "("+k.pattern+")")
	}
	return regexp.MustCompile(strings.Join(all, "|") + "|(…)")
}()

// patternOf returns the regular expression for a line that a document shows.
func patternOf(line string) *regexp.Regexp {
	var p strings.Builder
	at := 0
	for _, m := range anyKind.FindAllStringSubmatchIndex(line, -1) {
		p.WriteString(regexp.QuoteMeta(line[at:m[0]]))
		at = m[1]
		text := line[m[0]:m[1]]
		if text == "…" {
			p.WriteString(".*")
			continue
		}
		for i, k := range kinds {
			if m[2+2*i] < 0 {
				continue
			}
			switch k.name {
			case "name", "zero":
				p.WriteString(regexp.QuoteMeta(text))
			case "figure": // in another run, the number may have no fraction
				p.WriteString(`\d+(?:\.\d+)?`)
			case "hash":
				p.WriteString(`[0-9a-f]+`)
			default:
				p.WriteString("(?:" + k.pattern + ")")
			}
		}
	}
	p.WriteString(regexp.QuoteMeta(line[at:]))
	return regexp.MustCompile("^" + p.String() + "$")
}

var (
	spaces = regexp.MustCompile(`\s+`)
	rules  = regexp.MustCompile(`─+`)
	// noise matches lines that only some machines add to a command's output. On a busy
	// machine, for example, frames come late to a capture.
	noise = regexp.MustCompile(`^(Running as user "root" and group "root"\. This could be dangerous\.|go: (downloading|finding|creating|to add|found) .*|go: .*module requirements and sums:|\s*go mod tidy|\d+ frames? came late from a chip .*|Note: other users .*)$`)
)

func plain(line string) string {
	return strings.TrimSpace(rules.ReplaceAllString(spaces.ReplaceAllString(line, " "), "─"))
}

func linesOf(printed string) (lines []string) {
	for line := range strings.SplitSeq(printed, "\n") {
		if line = plain(line); line != "" && !noise.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// matches reports whether the printed lines match the lines that the document shows.
func matches(shown, printed []string) bool {
	if len(shown) == 0 {
		return len(printed) == 0
	}
	if line := plain(shown[0]); line == "" {
		return matches(shown[1:], printed)
	} else if line == "…" {
		for n := range len(printed) + 1 {
			if matches(shown[1:], printed[n:]) {
				return true
			}
		}
		return false
	} else {
		return len(printed) > 0 && patternOf(line).MatchString(printed[0]) && matches(shown[1:], printed[1:])
	}
}

func TestDocsMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"up in 1.03 s", "up in 950 ms", true},
		{"up in 1.03 s", "up in 4", false},
		{"20000 packets, 0 lost", "19 packets, 0 lost", true},
		{"20000 packets, 0 lost", "20000 packets, 1 lost", false},
		{"M0D5/8-M0D6/0", "M0D5/0-M0D6/0", false},
		{"│ M0D7 │ 7   │ 127.0.0.1:37025 +3 │     1s │", "│ M0D7 │ 9 │ 10.0.0.17:1 +3 │ 0s │", true},
		{"├──────┼───┤", "├─┼────────┤", true},
		{"├──────┼───┤", "├─┤", false},
		{"a … b", "a and so on b", true},
		{"…\nlast", "1\n2\nlast", true},
		{"…\nlast", "1\n2\nlast\nmore", false},
		{"first", "first\nmore", false},
		{"(epoch=c378e92b, unreachable=none)", "(epoch=00000001, unreachable=none)", true},
		{"2026-11-22T12:22:14.830 M0D4", "2027-01-02T01:02:03.004 M0D4", true},
		{"2026-11-22T12:22:14.830 M0D4", "2027-01-02T01:02:03.004 M0D5", false},
		{"68 65 6c |he..|", "68 65 6c |he..|", true},
		{"68 65 6c |he..|", "68 65 6c |hx..|", false},
		{"", "anything", false},
	} {
		if got := matches(strings.Split(c.shown, "\n"), linesOf(c.printed)); got != c.want {
			t.Errorf("%q shows %q: %v, want %v", c.shown, c.printed, got, c.want)
		}
	}
}
