package scenario

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"ttfabric/router/topo"
)

var rewrite = flag.Bool("rewrite", false, "write the files of testdata again, for a look at the differences")

// Texts that divide the file testdata/errors.txt.
const (
	caseMark  = "======== "
	errorMark = "-------- "
)

func machine(t testing.TB, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// check parses a scenario and prepares a run on a T3000.
func check(t testing.TB, text string) error {
	s, err := Parse("bad.yaml", []byte(text))
	if err == nil {
		_, err = New(s, machine(t, "t3000"), 1, Driver{Name: "test"})
	}
	return err
}

// golden compares the text "got" with want, the content of a file of testdata. With -rewrite,
// golden writes got to the file.
func golden(t *testing.T, name, got, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("the text differs from %s; -rewrite writes the new text to the file:\n%s", name, got)
	}
}

// TestErrors compares the errors for bad scenario files with testdata/errors.txt. Each error must
// name the line.
func TestErrors(t *testing.T) {
	const name = "testdata/errors.txt"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cases := strings.Split(string(b), caseMark)[1:]
	for _, c := range cases {
		title, rest, _ := strings.Cut(c, "\n")
		text, _, _ := strings.Cut(rest, errorMark)
		err := check(t, text)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v is no *Error", title, err)
			continue
		}
		if e.Line == 0 && !strings.Contains(title, "whole") {
			t.Errorf("%s: %v names no line", title, err)
		}
		fmt.Fprintf(&out, "%s%s\n%s%s%s\n", caseMark, title, text, errorMark, err)
	}
	golden(t, name, out.String(), string(b))
}

// TestShippedAreReadable parses every scenario that comes with the program. Each must have a
// description, a topology and traffic.
func TestShippedAreReadable(t *testing.T) {
	if len(Names()) < 12 {
		t.Errorf("only %q come with the program", Names())
	}
	for _, n := range Names() {
		text, _ := Source(n)
		s, err := Parse(n+ending, text)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(s.Description) < 60 || s.Fabric.Topology == "" || s.Traffic == nil {
			t.Errorf("%s: want a description, a machine and traffic", n)
		}
		if _, err := New(s, machine(t, s.Fabric.Topology), 1, Driver{}); err != nil {
			t.Error(err)
		}
	}
	if _, ok := Source("../doc"); ok {
		t.Error("Source read a file outside the library")
	}
	if Nearest("partitoin") != "partition" || Nearest("something else altogether") != "" {
		t.Error("nearest name")
	}
}

// TestDocExamples parses the examples in the package's documentation. The documentation must have
// all keys and metrics.
func TestDocExamples(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, part := range strings.Split(string(b), "//\tscenario: 1 ")[1:] {
		_, part, _ = strings.Cut(part, "\n") // the rest of that line is a comment
		text := "scenario: 1\n"
		for line := range strings.Lines(part) {
			rest, ok := strings.CutPrefix(line, "//\t")
			if !ok {
				break
			}
			text += strings.ReplaceAll(rest, "\t", "    ")
		}
		seen++
		if err := check(t, text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	if seen == 0 {
		t.Error("no example")
	}
	for _, m := range metrics {
		if !strings.Contains(string(b), m.name) {
			t.Errorf("the documentation does not have the metric %s", m.name)
		}
	}
	for _, keys := range [][]string{topKeys, trafficKeys, stepKeys, assertionKeys} {
		for _, k := range keys {
			if !strings.Contains(string(b), k) {
				t.Errorf("the documentation does not have the key %s", k)
			}
		}
	}
}

// FuzzParse parses texts. If Parse accepts a text, the test also makes a short run of the scenario.
// Nothing may panic.
func FuzzParse(f *testing.F) {
	for _, n := range Names() {
		text, _ := Source(n)
		f.Add(text)
	}
	b, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range strings.Split(string(b), caseMark)[1:] {
		_, rest, _ := strings.Cut(c, "\n")
		text, _, _ := strings.Cut(rest, errorMark)
		f.Add([]byte(text))
	}
	m := machine(f, "t3000")
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("fuzz.yaml", text)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || s != nil {
				t.Fatalf("%v, %v", s, err)
			}
			return
		}
		r, err := New(s, m, 1, Driver{})
		if err != nil {
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			return
		}
		r.Begin(0)
		for a, ok := r.Due(r.Next()); ok; a, ok = r.Due(r.Next()) {
			_ = a.String()
			r.Done(r.Next(), a, nil)
		}
		r.Order(0)
		r.Observe(1, Sample{})
		if rep := r.Report(2); len(rep.Assertions) != len(s.Assertions) {
			t.Errorf("%d verdicts of %d assertions", len(rep.Assertions), len(s.Assertions))
		}
	})
}
