package topo

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"ttfabric/wire"
)

// Limits of the notes that a topology has about cables in addition to the wiring.
const (
	MaxLabels   = 8    // number of labels of one cable
	MaxDeclared = 1024 // length of one declared impairment, in bytes
	MaxNetem    = 1024 // number of impairments of a whole topology, not counting the impairments in notes of single cables
)

// labelForm is the form of a label. A label can be part of a word on a command line.
var labelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Note holds what a topology says about a cable in addition to the wiring. Notes are not part of
// [Topology.Hash].
type Note struct {
	Labels []string // names by which people select cables, sorted; at most [MaxLabels]
	Netem  string   // an impairment from the start, as "delay=1ms,loss=1%"; direction=a-to-b or b-to-a, where a is the lower end
}

func (n Note) empty() bool { return len(n.Labels) == 0 && n.Netem == "" }

// Labels returns the labels of the cable at port p, which may be either end. If the cable has no
// labels, Labels returns nil.
func (t *Topology) Labels(p wire.PortID) []string {
	if len(t.Notes) == 0 {
		return nil
	}
	if n, ok := t.Notes[p]; ok {
		return n.Labels
	}
	for _, q := range t.Ports(p.Node) {
		if q.Local == p {
			return t.Notes[q.Peer].Labels
		}
	}
	return nil
}

// AllLabels returns the labels of all cables, sorted, each once.
func (t *Topology) AllLabels() []string {
	set := map[string]bool{}
	for _, n := range t.Notes {
		for _, l := range n.Labels {
			set[l] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Keys of the rendered form that say how the links of the topology are secured.
const (
	transportKey = "transport"
	authKey      = "auth"
)

// The allowed values of the keys transport and auth. The code that opens the links checks whether
// the two values fit together, since the command line may override both values.
var (
	Transports = []string{"udp", "quic"}
	Auths      = []string{"none", "psk", "mtls"}
)

// readWord reads a value that must be one of the given words.
func (f file) readWord(p pair, words []string) (string, error) {
	s, err := f.scalar(p.val, p.key.Value)
	if err == nil && !slices.Contains(words, s) {
		err = f.fail(p.val, "%s %s: want %s", p.key.Value, show(p.val), oneOf(words))
	}
	return s, err
}

// oneOf joins words into the form "a, b or c".
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// refuseSecured refuses the keys transport and auth in a descriptor. Only the rendered form has
// these keys. If the reader ignored them like other unknown keys, links would be open although
// their owner believes that they are sealed.
func (f file) refuseSecured(keys map[string]pair) error {
	for _, k := range []string{transportKey, authKey} {
		if p, ok := keys[k]; ok {
			return f.fail(p.key, "key %s: a descriptor has no such key; 'ttfabric generate FILE' writes ttfabric's own form, which has it, or use the flag --%s", k, k)
		}
	}
	return nil
}

// checkSecured reports a value of transport or auth that the rendered form does not know.
func (t *Topology) checkSecured() *fault {
	for _, x := range []struct {
		key, value string
		words      []string
	}{{transportKey, t.Transport, Transports}, {authKey, t.Auth, Auths}} {
		if x.value != "" && !slices.Contains(x.words, x.value) {
			return faultOf(-1, -1, "%s %q: want %s", x.key, x.value, oneOf(x.words))
		}
	}
	return nil
}

// SameNotes reports whether both topologies have the same notes about their cables, and secure
// their links in the same way.
func (t *Topology) SameNotes(o *Topology) bool {
	same := func(a, b Note) bool { return slices.Equal(a.Labels, b.Labels) && a.Netem == b.Netem }
	return maps.EqualFunc(t.Notes, o.Notes, same) && slices.Equal(t.Netem, o.Netem) && t.Transport == o.Transport && t.Auth == o.Auth
}

// checkNotes reports the first note that belongs to no cable or exceeds a limit.
func (t *Topology) checkNotes() *fault {
	for p, n := range t.Notes {
		i := t.lower(p)
		if i >= len(t.Cables) || t.Cables[i].A != p {
			return faultOf(-1, -1, "a note about a cable from %s: no cable has this lower end", p)
		}
		if err := n.check(); err != nil {
			return faultOf(-1, i, "cable %s-%s: %v", t.Cables[i].A, t.Cables[i].B, err)
		}
	}
	if len(t.Netem) > MaxNetem {
		return faultOf(-1, -1, "%d declared impairments: at most %d", len(t.Netem), MaxNetem)
	}
	for _, d := range t.Netem {
		if len(d) > MaxDeclared {
			return faultOf(-1, -1, "a declared impairment of %d bytes: at most %d", len(d), MaxDeclared)
		}
	}
	return t.checkSecured()
}

func (n *Note) check() error {
	if len(n.Labels) > MaxLabels {
		return fmt.Errorf("%d labels: at most %d", len(n.Labels), MaxLabels)
	}
	for i, l := range n.Labels {
		if !labelForm.MatchString(l) {
			return fmt.Errorf("label %q: want letters, digits, '-', '_' and '.', at most 64", l)
		}
		if i > 0 && n.Labels[i-1] >= l {
			return fmt.Errorf("label %q: it is there already, or the labels are not sorted", l)
		}
	}
	if len(n.Netem) > MaxDeclared {
		return fmt.Errorf("a declared impairment of %d bytes: at most %d", len(n.Netem), MaxDeclared)
	}
	return nil
}

// readLabels reads labels: [wan, east].
func (f file) readLabels(v *yaml.Node, n *Note) error {
	list, err := f.items(v, "labels", "a list of words")
	if err != nil {
		return err
	}
	for _, x := range list {
		l, err := f.scalar(x, "label")
		if err != nil {
			return err
		}
		one := Note{Labels: []string{l}}
		if err := one.check(); err != nil {
			return f.fail(x, "%v", err)
		}
		if slices.Contains(n.Labels, l) {
			return f.fail(x, "label %q: the cable has it already", l)
		}
		n.Labels = append(n.Labels, l)
	}
	slices.Sort(n.Labels)
	if len(n.Labels) > MaxLabels {
		return f.fail(v, "%d labels: at most %d", len(n.Labels), MaxLabels)
	}
	return nil
}

// readDeclared reads an impairment. The code that applies the impairment checks whether the
// impairment is possible.
func (f file) readDeclared(v *yaml.Node) (string, error) {
	s, err := f.scalar(v, "netem")
	if err != nil {
		return "", err
	}
	if s == "" || len(s) > MaxDeclared || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\uFFFD' }) {
		return "", f.fail(v, "netem: want an impairment of at most %d bytes on one line, such as delay=1ms,loss=1%%", MaxDeclared)
	}
	return s, nil
}

// note stores a note of the file about a cable, under the cable's lower end.
func (r *renderedFile) note(c Cable, n Note) {
	if n.empty() {
		return
	}
	at := c.A
	if c.B.Less(c.A) {
		at, n.Netem = c.B, turned(n.Netem)
	}
	if r.t.Notes == nil {
		r.t.Notes = map[wire.PortID]Note{}
	}
	r.t.Notes[at] = n
}

// readNetem reads netem: a list of impairments of the topology.
func (r *renderedFile) readNetem(p pair) error {
	list, err := r.items(p.val, "netem", "a list of impairments, such as label:wan,delay=1ms")
	if err != nil {
		return err
	}
	if len(list) > MaxNetem {
		return r.fail(p.key, "%d declared impairments: at most %d", len(list), MaxNetem)
	}
	for _, v := range list {
		d, err := r.readDeclared(v)
		if err != nil {
			return err
		}
		r.t.Netem = append(r.t.Netem, d)
	}
	return nil
}

// turned returns a declared impairment of a cable after the ends of the cable have changed places.
func turned(s string) string {
	return strings.NewReplacer("direction=a-to-b", "direction=b-to-a", "direction=b-to-a", "direction=a-to-b").Replace(s)
}
