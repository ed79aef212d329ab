package spec

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// listValue is the value of a flag that may be repeated.
type listValue struct{ list *[]string }

func (l listValue) String() string     { return "" }
func (l listValue) Set(s string) error { *l.list = append(*l.list, s); return nil }

// flags returns one flag for each of [Options]. A parsed flag writes its value to s.
func flags(t *testing.T, s *Spec) *flag.FlagSet {
	t.Helper()
	fl := flag.NewFlagSet("node", flag.ContinueOnError)
	for i := range Options {
		o := &Options[i]
		switch p := o.Value(s).(type) {
		case *string:
			fl.StringVar(p, o.Name, *p, o.Usage)
		case *int:
			fl.IntVar(p, o.Name, *p, o.Usage)
		case *bool:
			fl.BoolVar(p, o.Name, *p, o.Usage)
		case *time.Duration:
			fl.DurationVar(p, o.Name, *p, o.Usage)
		case *[]string:
			fl.Var(listValue{p}, o.Name, o.Usage)
		default:
			t.Fatalf("option %s points to a %T", o.Name, p)
		}
	}
	return fl
}

// change sets an option in s to a value other than the default. Different numbers i give
// different values.
func change(o *Option, s *Spec, i int) {
	switch p := o.Value(s).(type) {
	case *string:
		usual := *p
		*p = fmt.Sprintf("/folder of/%s %d", o.Name, i)
		if len(o.Words) > 0 {
			*p = o.Words[slices.IndexFunc(o.Words, func(w string) bool { return w != usual })]
		}
	case *int:
		*p += 7 + i
	case *bool:
		*p = !*p
	case *time.Duration:
		*p += 1500 * time.Millisecond
	case *[]string:
		*p = []string{"M0D0-M0D1,delay=1ms,loss=1%", fmt.Sprintf("label:wan $%d,jitter=2ms", i)}
	}
}

// fields returns the keys of a spec's JSON, and the JSON text of each key's value.
func fields(t *testing.T, s *Spec) (out map[string]string) {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	out = map[string]string{}
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

// TestEachOptionIsAField changes one option at a time. Each change must appear in exactly
// one field of the spec. A flag that parses the option's text must give the same spec.
func TestEachOptionIsAField(t *testing.T) {
	seen := map[string]string{}
	for i := range Options {
		o := &Options[i]
		usual, s, again := Default(), Default(), Default()
		change(o, &s, i)
		text := o.Text(&s)
		if text == o.Text(&usual) {
			t.Errorf("--%s: the changed value has the text of the default, %q", o.Name, text)
		}
		before, after := fields(t, &usual), fields(t, &s)
		var changed []string
		for k := range after {
			if before[k] != after[k] {
				changed = append(changed, k)
			}
		}
		if o.Name == "psk-file" { // no file of the fabric contains the path of the secret
			if len(changed) != 0 {
				t.Errorf("--psk-file is in the JSON, as %v", changed)
			}
		} else if len(changed) != 1 || seen[changed[0]] != "" {
			t.Errorf("--%s changes the fields %v, of which %v belong to other options", o.Name, changed, seen)
		} else {
			seen[changed[0]] = o.Name
		}
		if _, list := o.Value(&s).(*[]string); list {
			continue // a flag cannot read several values from one text
		}
		if err := flags(t, &again).Set(o.Name, text); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("--%s=%s: %v, read back as %s", o.Name, text, err, o.Text(&again))
		}
		if o.Usage == "" || OptionByName(o.Name) != o {
			t.Errorf("--%s has no help, or two options have this name", o.Name)
		}
		for _, w := range o.Words {
			if !strings.Contains(o.Usage, w) {
				t.Errorf("--%s: the help has no %q", o.Name, w)
			}
		}
	}
}

// TestArgumentsRoundTrip sets every option to a value other than the default. Flags that parse the
// arguments must give the same spec, except options that have no [Option.Container].
func TestArgumentsRoundTrip(t *testing.T) {
	want, got := Default(), Default()
	for i := range Options {
		change(&Options[i], &want, i)
	}
	args := want.Arguments()
	fl := flags(t, &got)
	if err := fl.Parse(args); err != nil || fl.NArg() > 0 {
		t.Fatalf("%q: %v, left over %q", args, err, fl.Args())
	}
	named := map[string]bool{}
	fl.Visit(func(f *flag.Flag) { named[f.Name] = true })
	usual := Default()
	for i := range Options {
		o := &Options[i]
		if named[o.Name] != o.Container {
			t.Errorf("--%s is among the arguments: %v, want %v", o.Name, named[o.Name], o.Container)
		}
		wanted := o.Value(&want)
		if !o.Container {
			wanted = o.Value(&usual)
		}
		if !reflect.DeepEqual(o.Value(&got), wanted) {
			t.Errorf("--%s came back as %q, want %q", o.Name, o.Text(&got), o.Text(&want))
		}
	}
	if args := usual.Arguments(); len(args) != 0 {
		t.Errorf("arguments of the default: %q", args)
	}
}

// TestRefuseRunning names each option for a running fabric, first with the fabric's value
// and then with another value.
func TestRefuseRunning(t *testing.T) {
	for i := range Options {
		o := &Options[i]
		running, same, other := Default(), Default(), Default()
		running.Name, running.Profile = "lab", "lan"
		same.Profile = "lan"
		change(o, &other, i)
		if other.Profile == "lan" {
			other.Profile = "paced"
		}
		refused := func(err error, want string) {
			t.Helper()
			var e *Error
			if !errors.As(err, &e) || e.Kind != Usage || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--"+o.Name) || !strings.Contains(err.Error(), `fabric "lab" runs already`) {
				t.Errorf("--%s: %v; want a usage error with %q", o.Name, err, want)
			}
		}
		if o.Running != "" { // RefuseRunning refuses every value, also the fabric's value
			refused(o.RefuseRunning(&running, &other), o.Running)
			refused(o.RefuseRunning(&running, &same), o.Running)
			continue
		}
		if err := o.RefuseRunning(&running, &same); err != nil {
			t.Errorf("--%s with the fabric's value: %v", o.Name, err)
		}
		refused(o.RefuseRunning(&running, &other), "--"+o.Name+" "+o.Text(&other)+":")
		refused(o.RefuseRunning(&running, &other), "with --"+o.Name+" "+o.Text(&running)+";")
		for _, runtime := range []string{Docker, Elsewhere} {
			found := running
			found.Runtime = runtime
			if err := o.RefuseRunning(&found, &other); (err == nil) != o.Unknown {
				t.Errorf("--%s of a fabric that runs as %s: %v; Unknown is %v", o.Name, runtime, err, o.Unknown)
			}
		}
	}
	old := Spec{Name: "lab"} // the spec in an old run folder, where all texts are ""
	want := Default()
	for _, name := range []string{"profile", "slots", "order", "engine", "offload"} {
		if err := OptionByName(name).RefuseRunning(&old, &want); err != nil {
			t.Errorf("a fabric with an empty --%s: %v", name, err)
		}
	}
}

// TestOptionByName looks up every name in [RoutingOptions] and [RecordOptions], and a name
// that no option has.
func TestOptionByName(t *testing.T) {
	for _, name := range slices.Concat(RoutingOptions, RecordOptions) {
		if o := OptionByName(name); o.Name != name {
			t.Errorf("%s is %s", name, o.Name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("OptionByName accepted the name of no option")
		}
	}()
	OptionByName("nonsense")
}
