package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"ttfabric/router/topo"
)

// TestForms draws every machine in every form. All chips must be in the picture, and all cables
// must be in the forms dot and mermaid. An SVG picture must be valid XML, also for strange names of
// machines.
func TestForms(t *testing.T) {
	var machines []*topo.Topology
	for _, b := range topo.Builders {
		m, err := topo.Named(b.Example)
		if err != nil {
			t.Fatal(err)
		}
		machines = append(machines, m)
	}
	files, _ := filepath.Glob("../testdata/*.*")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if m, err := topo.Load("<a & \"b\">\n\x01--"+filepath.Base(f), b); err == nil {
			machines = append(machines, m)
		}
	}
	thin, _ := topo.Named("mesh:2x3")
	thin, err := topo.Load("thin", bytes.Replace(thin.Encode(), []byte("    - a: M0D1/1\n      b: M0D2/5\n"), nil, 1)) // a mesh in which one edge lacks a cable
	if err != nil || thin.Planes() != 1 {
		t.Fatal(thin, err)
	}
	machines = append(machines, thin)
	if len(machines) < 20 {
		t.Errorf("only %d machines", len(machines))
	}
	for _, m := range machines {
		for _, d := range Forms {
			text := d.Draw(m)
			for _, c := range m.Chips {
				if !bytes.Contains(text, []byte(c.Node.String())) {
					t.Fatalf("%s as %s lacks %s", m.Name, d.Name, c.Node)
				}
			}
			if line := drawnLine[d.Name]; line != nil {
				if got, want := drawnCables(line, text), cablesOf(m); !maps.Equal(got, want) {
					t.Errorf("%s as %s: cables %v, want %v", m.Name, d.Name, got, want)
				}
			}
			if d.Name != "svg" {
				continue
			}
			dec := xml.NewDecoder(bytes.NewReader(text))
			for {
				if _, err := dec.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("%s: %v", m.Name, err)
				}
			}
			if bytes.Contains(text, []byte("NaN")) {
				t.Errorf("%s: a coordinate is not a number", m.Name)
			}
		}
	}
}

// drawnLine matches, by form, a line between two chips. The numbers are those of the used cables
// and of the unused cables that the line stands for.
var drawnLine = map[string]*regexp.Regexp{
	"dot":     regexp.MustCompile(`(?m)^  (M\d+D\d+) -- (M\d+D\d+) \[label="(\d+)(?:\+(\d+) unused)?"`),
	"mermaid": regexp.MustCompile(`(?m)^  (M\d+D\d+) (?:---|===|-\.-)\|(\d+)(?:\+(\d+) unused)?\| (M\d+D\d+)$`),
}

// drawnCables counts the cables between each pair of chips in a picture: the used cables, and all
// cables.
func drawnCables(line *regexp.Regexp, text []byte) map[string][2]int {
	n := map[string][2]int{}
	for _, x := range line.FindAllStringSubmatch(string(text), -1) {
		a, b, used, unused := x[1], x[2], x[3], x[4]
		if line == drawnLine["mermaid"] {
			b, used, unused = x[4], x[2], x[3]
		}
		u, _ := strconv.Atoi(used)
		more, _ := strconv.Atoi(unused)
		was := n[a+b]
		n[a+b] = [2]int{was[0] + u, was[1] + u + more}
	}
	return n
}

// cablesOf counts the cables between each pair of chips of a machine: the used cables, and all
// cables.
func cablesOf(m *topo.Topology) map[string][2]int {
	n := map[string][2]int{}
	for _, c := range m.Cables {
		k := c.A.Node.String() + c.B.Node.String()
		was := n[k]
		was[1]++
		if !c.Unused {
			was[0]++
		}
		n[k] = was
	}
	return n
}

func TestByEnding(t *testing.T) {
	for file, want := range map[string]string{"x.dot": "dot", "a/x.GV": "dot", "x.mmd": "mermaid", "x.svg.Mermaid": "mermaid", "x.SVG": "svg", "svg": "", "x.bmp": "", "": ""} {
		f, ok := ByEnding(file)
		if f.Name != want || ok != (want != "") {
			t.Errorf("the ending of %q gives form %q, %v; want %q", file, f.Name, ok, want)
		}
		if g, known := ByName(want); g.Name != want || known != ok {
			t.Errorf("form %q: %q, %v", want, g.Name, known)
		}
	}
}

// TestPictureOfTheReadme finds that the picture in the README is the one that 'ttfabric graph t3000
// -f router/topo/draw/t3000.svg' writes.
func TestPictureOfTheReadme(t *testing.T) {
	m, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile("t3000.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(shown, drawSVG(m)) {
		t.Error("t3000.svg is out of date: run ttfabric graph t3000 -f router/topo/draw/t3000.svg, and check the picture")
	}
}
