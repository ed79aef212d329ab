package fault

import (
	"strings"
	"testing"
	"time"
)

// TestParseChange checks how changes are read, how options are written as text, and which changes
// are refused.
func TestParseChange(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Options
		text string
	}{
		{"delay=10ms", Options{Delay: 10 * time.Millisecond}, "delay=10ms"},
		{"loss=1%, delay=1s,jitter=5ms", Options{Delay: time.Second, Jitter: 5 * time.Millisecond, Loss: .01}, "delay=1s,jitter=5ms,loss=1%"},
		{"loss=7", Options{Loss: .07}, "loss=7%"},
		{"corruption=0.1%,duplicate=1 %,reorder=25", Options{Corrupt: .001, Duplicate: .01, Reorder: .25}, "corruption=0.1%,duplicate=1%,reorder=25%"},
		{"rate=100Mbit", Options{Rate: 100e6}, "rate=100Mbit"},
		{"rate=1.5gbit", Options{Rate: 15e8}, "rate=1.5Gbit"},
		{"rate=64", Options{Rate: 64e3}, "rate=64kbit"},
		{"rate=999bit", Options{Rate: 999}, "rate=999bit"},
		{"rate=0,loss=0,loss-gemodel=0", Options{}, ""},
		{"loss-gemodel=1%", Options{Burst: Burst{ToBad: .01, ToGood: .99, LossBad: 1}}, "loss-gemodel=1%,99%,100%,0%"},
		{"loss-gemodel=1%,10%,70%,0.1%,delay=1ms", Options{Delay: time.Millisecond, Burst: Burst{ToBad: .01, ToGood: .1, LossBad: .7, LossGood: .001}},
			"delay=1ms,loss-gemodel=1%,10%,70%,0.1%"},
	} {
		ch, err := ParseChange(c.in)
		if err != nil {
			t.Errorf("%q: %v", c.in, err)
			continue
		}
		got, err := ch.Apply(Options{})
		if err != nil || got != c.want || got.String() != c.text {
			t.Errorf("%q: %v, %+v (%s), want %+v (%s)", c.in, err, got, got, c.want, c.text)
		}
		if c.text == "" {
			continue
		}
		again, err := ParseChange(c.text)
		if back, _ := again.Apply(Options{}); err != nil || back != got {
			t.Errorf("%q: the text form %q gives other options: %v, %+v", c.in, c.text, err, back)
		}
	}
	for in, want := range map[string]string{
		"":                        "KNOB=VALUE",
		"10ms":                    "KNOB=VALUE",
		"speed=3":                 "want delay, jitter, loss",
		"delay=10":                "unit",
		"delay=-1ms":              "from 0",
		"delay=2h":                "1m0s",
		"loss=101%":               "0 to 100",
		"loss=NaN":                "0 to 100",
		"loss=":                   "0 to 100",
		"loss=1%,loss=2%":         "twice",
		"rate=100mbps":            "100Mbit",
		"rate=-1":                 "100Mbit",
		"rate=1e30":               "100Mbit",
		"rate=0.1bit":             "100Mbit",
		"loss-gemodel=1,2,3,4,5":  "four",
		"loss-gemodel=1%,0%":      "never good",
		"loss-gemodel=1%,x,3%,4%": "percentage",
	} {
		if _, err := ParseChange(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", in, err, want)
		}
	}
}

// TestChangeMerges checks that a change leaves the options that it does not name unchanged.
func TestChangeMerges(t *testing.T) {
	o := Options{Delay: time.Millisecond, Loss: .5, Queue: 9}
	c, err := ParseChange("loss=0,rate=1Mbit")
	if err != nil {
		t.Fatal(err)
	}
	if o, err = c.Apply(o); err != nil || o != (Options{Delay: time.Millisecond, Rate: 1e6, Queue: 9}) {
		t.Errorf("%v, %+v", err, o)
	}
}
