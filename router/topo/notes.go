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

// Limits of a topology's notes about cables.
const (
	MaxLabels   = 8    // largest number of labels of one cable
	MaxDeclared = 1024 // largest length of one impairment in a topology file, in bytes
	MaxNetem    = 1024 // largest number of impairments in the list netem of a topology
)

// labelForm matches a valid label. A label needs no quotes on a command line.
var labelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Note holds a cable's labels and impairment. Notes are not part of [Topology.Hash].
type Note struct {
	Labels []string // names by which people select the cable in commands, sorted; at most [MaxLabels]
	Netem  string   // impairment that applies from the start, such as "delay=1ms,loss=1%"; it may contain direction=a-to-b or direction=b-to-a, where a is the lower end of the cable
}

func (n Note) empty() bool { return len(n.Labels) == 0 && n.Netem == "" }

// Labels returns the labels of the cable at port p, which may be either end of the cable. If the
// cable has no labels, or if p is the upper end of an unused cable, Labels returns nil.
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

// The allowed values of the keys transport and auth. This package does not check whether the two
// values fit together. The code that opens the links checks whether the values fit, because the
// command line may override both values.
var (
	Transports = []string{"udp", "quic"}
	Auths      = []string{"none", "psk", "mtls"}
)

// readWord reads the value of an entry. The value must be one of the given words.
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

// refuseSecured returns an error if a YAML descriptor has the key transport or auth. Only the
// rendered form has these keys. If the reader ignored these two keys like other unknown keys, links
// would have no encryption although the file asks for encryption.
func (f file) refuseSecured(keys map[string]pair) error {
	for _, k := range []string{transportKey, authKey} {
		if p, ok := keys[k]; ok {
			return f.fail(p.key, "key %s: a descriptor has no such key; use the flag --%s, or use 'ttfabric generate FILE' to convert the file to ttfabric's own form, which has this key", k, k)
		}
	}
	return nil
}

// checkSecured returns a fault if the value of transport or auth is not allowed.
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

// SameNotes reports whether two topologies have equal notes, impairments, transport and auth.
func (t *Topology) SameNotes(o *Topology) bool {
	same := func(a, b Note) bool { return slices.Equal(a.Labels, b.Labels) && a.Netem == b.Netem }
	return maps.EqualFunc(t.Notes, o.Notes, same) && slices.Equal(t.Netem, o.Netem) && t.Transport == o.Transport && t.Auth == o.Auth
}

// checkNotes returns a fault if a note belongs to no cable or exceeds a limit. checkNotes also
// checks transport and auth.
func (t *Topology) checkNotes() *fault {
	for p, n := range t.Notes {
		i := t.lower(p)
		if i >= len(t.Cables) || t.Cables[i].A != p {
			return faultOf(-1, -1, "there is a note about the cable with the lower end %s, but no cable has this lower end", p)
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
			return fmt.Errorf("label %q occurs twice, or the labels are not sorted", l)
		}
	}
	if len(n.Netem) > MaxDeclared {
		return fmt.Errorf("a declared impairment of %d bytes: at most %d", len(n.Netem), MaxDeclared)
	}
	return nil
}

// readLabels reads the labels of a cable, such as [wan, east].
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
			return f.fail(x, "label %q occurs twice", l)
		}
		n.Labels = append(n.Labels, l)
	}
	slices.Sort(n.Labels)
	if len(n.Labels) > MaxLabels {
		return f.fail(v, "%d labels: at most %d", len(n.Labels), MaxLabels)
	}
	return nil
}

// readDeclared reads an impairment. readDeclared checks only the length and the characters. The
// code that applies the impairment checks the meaning.
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

// note stores a note about cable c under the cable's lower end.
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

// readNetem reads the key netem, a list of impairments for several cables.
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

// turned exchanges the ends a and b in an impairment.
func turned(s string) string {
	return strings.NewReplacer("direction=a-to-b", "direction=b-to-a", "direction=b-to-a", "direction=a-to-b").Replace(s)
}
