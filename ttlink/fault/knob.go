package fault

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Knob is one field of [Options] with a name and a text form. People use the name and the text form
// in flags, in declarations of a fabric, and in events.
type Knob struct {
	Name string // name of the option, taken from containerlab and tc-netem(8)
	Help string
	set  func(*Options, string) error
	text func(*Options) string // returns the option's value in text form, or "" if the option is zero
}

// Knobs are the options that people can set by name.
//
// A share is a percentage, with or without the percent sign, as in tc-netem(8) and containerlab.
// For example, 0.1% and 0.1 both mean one datagram in a thousand.
var Knobs = []Knob{
	durationKnob("delay", "time added to each datagram, such as 10ms", func(o *Options) *time.Duration { return &o.Delay }),
	durationKnob("jitter", "largest time by which the delay is longer or shorter, at random, such as 2ms", func(o *Options) *time.Duration { return &o.Jitter }),
	shareKnob("loss", "share of datagrams lost, such as 1%", func(o *Options) *float64 { return &o.Loss }),
	{"loss-gemodel", "loss in bursts, as P,R,1-H,1-K: chance for each datagram that the cable turns bad, chance that the cable turns good, share lost while bad (default 100%), share lost while good (default 0%)", setBurst, burstText},
	{"rate", "largest number of bits per second, such as 100Mbit; a number without a unit is in kbit; 0: no limit", setRate, rateText},
	shareKnob("corruption", "share of datagrams with one to three bits flipped", func(o *Options) *float64 { return &o.Corrupt }),
	shareKnob("duplicate", "share of datagrams sent twice", func(o *Options) *float64 { return &o.Duplicate }),
	shareKnob("reorder", "share of datagrams held back for up to 2ms, so that others overtake them", func(o *Options) *float64 { return &o.Reorder }),
}

// Text returns the knob's value in o, in the form that [ParseChange] reads. If the option is zero
// in o, Text returns "".
func (k *Knob) Text(o Options) string { return k.text(&o) }

func knob(name string) *Knob {
	for i := range Knobs {
		if Knobs[i].Name == name {
			return &Knobs[i]
		}
	}
	return nil
}

func knobNames() string {
	var names []string
	for _, k := range Knobs {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

// String lists the options that have a knob and are not zero, in the form that [ParseChange] reads.
// If there is none, String returns "".
func (o Options) String() string {
	var out []string
	for _, k := range Knobs {
		if s := k.text(&o); s != "" {
			out = append(out, k.Name+"="+s)
		}
	}
	return strings.Join(out, ",")
}

// Change maps names of knobs to new values in text form. Knobs that a change does not name keep
// their values.
type Change map[string]string

// ParseChange reads a text such as "delay=10ms,loss=1%". A value may contain commas: ParseChange
// adds a part without "=" to the value before that part.
func ParseChange(s string) (Change, error) {
	c := Change{}
	last := ""
	for word := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		switch {
		case !ok && last == "":
			return nil, fmt.Errorf("%q: want KNOB=VALUE, such as delay=10ms", word)
		case !ok:
			c[last] += "," + name
			continue
		}
		if _, twice := c[name]; twice {
			return nil, fmt.Errorf("%q: %s is named twice", s, name)
		}
		c[name], last = value, name
	}
	_, err := c.Apply(Options{})
	return c, err
}

// Apply returns a copy of o with the new values of the change. The copy is useless if there is an
// error. If a knob is unknown or a value is out of range, the error names the knob or the value.
func (c Change) Apply(o Options) (Options, error) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		k := knob(name)
		if k == nil {
			return o, fmt.Errorf("%q: there is no such impairment; want %s", name, knobNames())
		}
		if err := k.set(&o, c[name]); err != nil {
			return o, fmt.Errorf("%s %q: %w", name, c[name], err)
		}
	}
	return o, o.Valid()
}

func durationKnob(name, help string, field func(*Options) *time.Duration) Knob {
	return Knob{name, help, func(o *Options, s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > MaxDelay {
			return fmt.Errorf("want a time from 0 to %v with its unit, such as 10ms", MaxDelay)
		}
		*field(o) = d
		return nil
	}, func(o *Options) string {
		if d := *field(o); d != 0 {
			return d.String()
		}
		return ""
	}}
}

func shareKnob(name, help string, field func(*Options) *float64) Knob {
	return Knob{name, help, func(o *Options, s string) error {
		v, err := parseShare(s)
		if err == nil {
			*field(o) = v
		}
		return err
	}, func(o *Options) string {
		if v := *field(o); v != 0 {
			return shareText(v)
		}
		return ""
	}}
}

// parseShare reads a percentage from 0 to 100, and returns a number from 0 to 1.
func parseShare(s string) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, "%")), 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return 0, fmt.Errorf("want a percentage from 0 to 100, such as 1%%")
	}
	return v / 100, nil
}

// shareDigits is the number of significant digits with which a percentage is printed. More digits
// would show the rounding errors of binary fractions.
const shareDigits = 9

func shareText(v float64) string { return strconv.FormatFloat(v*100, 'g', shareDigits, 64) + "%" }

// setBurst reads up to four percentages with commas between them. The percentages are the
// parameters P, R, 1-H and 1-K of "gemodel" in tc-netem(8). If P and 1-K are 0, bursts are off.
// The default of R is 100 % minus P, the default of 1-H is 100 %, and the default of 1-K is 0.
func setBurst(o *Options, s string) error {
	words := strings.Split(s, ",")
	if len(words) > 4 {
		return fmt.Errorf("want up to four percentages P,R,1-H,1-K, such as 1%%,20%%")
	}
	var v [4]float64
	for i, w := range words {
		var err error
		if v[i], err = parseShare(strings.TrimSpace(w)); err != nil {
			return err
		}
	}
	b := Burst{ToBad: v[0], ToGood: v[1], LossBad: v[2], LossGood: v[3]}
	if len(words) < 2 {
		b.ToGood = 1 - b.ToBad
	}
	if len(words) < 3 {
		b.LossBad = 1
	}
	switch {
	case b.ToBad == 0 && b.LossGood == 0:
		b = Burst{}
	case b.ToBad > 0 && b.ToGood == 0:
		return fmt.Errorf("the burst model turns bad and is never good again: set the second value above 0, or cut the link")
	}
	o.Burst = b
	return nil
}

func burstText(o *Options) string {
	b := o.Burst
	if b == (Burst{}) {
		return ""
	}
	return strings.Join([]string{shareText(b.ToBad), shareText(b.ToGood), shareText(b.LossBad), shareText(b.LossGood)}, ",")
}

// rateUnits are the units of a rate, the largest unit first.
var rateUnits = []struct {
	name string
	bits int64 // bits per second in one unit
}{{"Tbit", 1e12}, {"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}

// MaxRate is the highest rate limit that a knob accepts, in bits per second.
const MaxRate = 1e15

func setRate(o *Options, s string) error {
	number, bits := s, int64(1e3) // a number without a unit is in kbit, as in containerlab
	for _, u := range rateUnits {
		if n := len(s) - len(u.name); n > 0 && strings.EqualFold(s[n:], u.name) {
			number, bits = s[:n], u.bits
			break
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	r := math.Round(v * float64(bits))
	if err != nil || !(r >= 0 && r <= MaxRate) || r == 0 && v != 0 {
		return fmt.Errorf("want bits per second with bit, kbit, Mbit or Gbit, such as 100Mbit, or 0 for no limit")
	}
	o.Rate = int64(r)
	return nil
}

func rateText(o *Options) string {
	for _, u := range rateUnits {
		if o.Rate >= u.bits {
			return strconv.FormatFloat(float64(o.Rate)/float64(u.bits), 'f', -1, 64) + u.name
		}
	}
	return ""
}
