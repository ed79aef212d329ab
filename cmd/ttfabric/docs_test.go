package main

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var allDocs = flag.Bool("docs.all", false, "run the commands of all documents; scripts/prove-docs sets up what the commands need")

// checkout is the folder of the repository.
var checkout, _ = filepath.Abs("../..")

// TestDocsReadme runs the commands of the README, and builds its programs.
func TestDocsReadme(t *testing.T) {
	t.Parallel()
	runDocument(t, "README.md", "")
}

// TestDocsAll runs the commands of all other documents, one document after the other.
func TestDocsAll(t *testing.T) {
	if !*allDocs {
		t.Skip("-docs.all runs these documents; scripts/prove-docs does so")
	}
	program := t.TempDir()
	cmd := exec.Command("go", "build", "-o", filepath.Join(program, "ttfabric"), "./cmd/ttfabric")
	cmd.Dir, cmd.Stderr = checkout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, name := range documents(t) {
		if name != "README.md" {
			t.Run(strings.ReplaceAll(name, "/", ":"), func(t *testing.T) { runDocument(t, name, program) })
		}
	}
}

// TestDocsNameEachCommand reads all documents. Each command in a block must follow "$ ".
// Each command in the lists of docslist_test.go must be in the document that the list
// names.
func TestDocsNameEachCommand(t *testing.T) {
	t.Parallel()
	written := map[string]bool{}
	for _, name := range documents(t) {
		for _, b := range blocksOf(readDocument(t, name)) {
			for _, bare := range b.bare {
				if commandWord.MatchString(bare) {
					t.Errorf("%s: no test runs %q: write \"$ \" before the command", name, bare)
				}
			}
			for _, s := range b.steps {
				written[name+": "+s.command] = true
				if comment, reason := s.comment, elsewhere[name+": "+s.command]; strings.Contains(comment, "exit code") && reason != "" {
					t.Errorf("%s: %q promises %q, and no run compares the exit code", name, s.command, comment)
				}
			}
		}
	}
	for k, reason := range elsewhere {
		for _, script := range scriptName.FindAllString(reason, -1) {
			if _, err := os.Stat(filepath.Join(checkout, script)); err != nil {
				t.Errorf("the reason for %q: %v", k, err)
			}
		}
	}
	listed := slices.Concat(slices.Collect(maps.Keys(elsewhere)), slices.Collect(maps.Keys(replaced)), slices.Collect(maps.Keys(staying)))
	for _, k := range listed {
		if !written[k] {
			t.Errorf("docslist_test.go has %q, which is in no document", k)
		}
	}
}

var scriptName = regexp.MustCompile(`\bscripts/[\w/-]+`)

// commandWord matches the beginning of a line that a reader would type.
var commandWord = regexp.MustCompile(`^(\./)?(ttfabric|go|scripts/\S+|docker|docker-compose|tshark|wireshark|tcpdump|cd|export|mkdir|sudo|curl|openssl|cat|mergecap|ip|sleep)\s`)

// documents returns the paths of the Markdown files of the checkout, relative to the
// checkout's folder.
func documents(t *testing.T) (names []string) {
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md", "*/*/*/*.md", "*/*/*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(checkout, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			names = append(names, strings.TrimPrefix(f, checkout+"/"))
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %d documents below %s", len(names), checkout)
	}
	return names
}

func readDocument(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(checkout, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// step is one command of a document.
type step struct {
	command string   // text of the command, with continued lines and without the comment
	comment string   // text after " # "
	shown   []string // lines below the command
}

// block is one block of code of a document.
type block struct {
	steps []step
	bare  []string // lines that belong to no command
	shows bool     // whether the block shows the output of at least one command
}

// blocksOf returns the indented blocks of a Markdown text, and the fenced blocks that
// name no language.
func blocksOf(text string) (blocks []block) {
	for _, lines := range codeOf(text, "") {
		var b block
		for i := 0; i < len(lines); i++ {
			line, isCommand := strings.CutPrefix(lines[i], "$ ")
			switch {
			case isCommand:
				for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
					i++
					line += "\n" + lines[i]
				}
				command, comment := line, ""
				if at := strings.LastIndex(line, " # "); at >= 0 {
					command, comment = line[:at], line[at+3:]
				}
				b.steps = append(b.steps, step{command: strings.TrimSpace(command), comment: comment})
			case len(b.steps) > 0:
				s := &b.steps[len(b.steps)-1]
				s.shown, b.shows = append(s.shown, lines[i]), true
			default:
				b.bare = append(b.bare, lines[i])
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// codeOf returns the lines of each block of code in a language. Indented blocks, and
// fences that name no language, have the language "".
func codeOf(text, language string) (found [][]string) {
	var now []string
	fence, end := "", func() {
		if now != nil {
			found = append(found, now)
		}
		now = nil
	}
	fenced, blank := false, true
	for line := range strings.SplitSeq(text, "\n") {
		indented, is := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			fence, fenced = strings.TrimPrefix(line, "```"), !fenced
		case fenced && fence == language:
			now = append(now, line)
		case fenced:
		case is && language == "" && (blank || now != nil):
			now = append(now, indented)
		default:
			end()
		}
		blank = strings.TrimSpace(line) == ""
	}
	end()
	return found
}

// runDocument runs the commands of a document, one after the other, in a folder that
// looks like the checkout and like the document's own folder. runDocument compares the
// output of each command with the output that the document shows. If a block shows no
// output, runDocument compares only the exit codes. A command must end with exit code 0,
// or with the code that its comment names. The argument "program" names the folder with the
// built ttfabric. If program is empty, the document builds ttfabric itself.
func runDocument(t *testing.T, name, program string) {
	text := readDocument(t, name)
	s := newReader(t, name, program)
	s.programs(text)
	for _, b := range blocksOf(text) {
		for _, step := range b.steps {
			if t.Failed() {
				return // the next commands need the results of this command
			}
			s.run(step, b.shows)
		}
	}
}
