package top

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"ttfabric/node/fabric/picture"
	"ttfabric/router/topo"
)

// sample is a screen of a T3000 with a cut cable, a busy cable, and an event with a command for the terminal.
func sample(t *testing.T) *View {
	x, err := topo.Named("t3000")
	if err != nil {
		t.Fatal(err)
	}
	m := picture.NewMachine("lab", x)
	s := picture.New(m).Take(time.Now(), picture.Round{})
	for i := range s.Cables {
		s.Cables[i].State = picture.Up
	}
	for i := range s.Chips {
		s.Chips[i].State = picture.Answers
	}
	s.Cables[11].Cut, s.Cables[11].State, s.Cables[11].By = true, picture.Fallback, m.Cables[12].Name
	s.Cables[3].AB = picture.Flow{Bytes: 125_000_000, Resent: 7, Use: .5}
	s.Chips[7].State = picture.NoAnswer
	v := &View{Machine: m, State: s, Order: "state", Width: 100, Height: 24, Events: []picture.Event{{Time: time.Now(), Kind: picture.KindFault, Text: "M0D5 fault \x1b[2Jcut\n"}}}
	v.Loads.Add(s)
	return v
}

// TestScreen checks that trouble comes first, that a screen fits the terminal, and that no text of an
// event commands the terminal.
func TestScreen(t *testing.T) {
	v := sample(t)
	text := v.String()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	at := func(word string) int {
		for i, l := range lines {
			if strings.Contains(l, word) {
				return i
			}
		}
		t.Fatalf("the screen lacks %q:\n%s", word, text)
		return 0
	}
	cut := at(v.Machine.Cables[11].Name + " ")
	if cut != at("CABLE")+1 || !strings.Contains(lines[cut], "cut") || !strings.Contains(lines[cut], "by "+v.Machine.Cables[12].Name) {
		t.Errorf("the cut cable is in line %d:\n%s", cut, text)
	}
	at("M0D7 no answer")
	if !strings.Contains(lines[at("fault")], "�[2Jcut�") || strings.Contains(text, "\x1b") {
		t.Errorf("an event reaches the terminal as %q", lines[at("fault")])
	}
	v.Order = "load"
	if text = v.String(); !strings.Contains(strings.Split(text, "\n")[at("CABLE")+1], "1 Gb/s") {
		t.Errorf("the busiest cable is not the first:\n%s", text)
	}
	for _, size := range [][2]int{{100, 24}, {40, 10}, {20, 5}, {10, 2}, {80, 60}} {
		v.Width, v.Height = size[0], size[1]
		lines = strings.Split(strings.TrimSuffix(v.String(), "\n"), "\n")
		for _, l := range lines {
			if utf8.RuneCountInString(l) > v.Width {
				t.Errorf("%d columns: %q is longer", v.Width, l)
			}
		}
		if len(lines) > v.Height-1 {
			t.Errorf("%d rows: the screen has %d lines", v.Height, len(lines))
		}
	}
}

// TestPlot checks the bars of small plots, and rates.
func TestPlot(t *testing.T) {
	if got := plot([]int{0, 4, 8, 80}, 8); got != "▁▅██" {
		t.Errorf("bars %s", got)
	}
	for bytes, want := range map[int]string{0: "0 b/s", 125: "1 kb/s", 1_250_000: "10 Mb/s", 235_000_000: "1.88 Gb/s"} {
		if got := picture.Rate(bytes); got != want {
			t.Errorf("%d bytes per second are %q, want %q", bytes, got, want)
		}
	}
}
