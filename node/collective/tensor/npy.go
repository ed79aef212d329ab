package tensor

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Version is a version of numpy's .npy format.
type Version [2]byte

// The versions. They differ in the size of the header's length, and in the header's encoding.
var (
	NPY1 = Version{1, 0} // at most 65,535 bytes of header, in Latin-1
	NPY2 = Version{2, 0} // at most 4 GiB of header, in Latin-1
	NPY3 = Version{3, 0} // at most 4 GiB of header, in UTF-8
)

// MaxHeader limits the header of an .npy file in bytes, as numpy does.
const MaxHeader = 10000

// magic is the first bytes of an .npy file, before the version.
const magic = "\x93NUMPY"

// headerUnit is the alignment of the first element in an .npy file, in bytes.
const headerUnit = 64

// npyTypes are the names of the types in an .npy file. Numpy has no bfloat16: the extension ml_dtypes writes "V2", and
// a program must then view the loaded array as ml_dtypes.bfloat16.
var npyTypes = [numTypes]string{"f4", "V2", "i4", "u1", "u2", "u4"}

// EncodeNPY returns an .npy file with elements in the order of their indexes, the last index fastest. With fortran, the
// file has the elements in the other order, the first index fastest.
func EncodeNPY(v Version, t Type, s Shape, elements []byte, fortran bool) ([]byte, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if v != NPY1 && v != NPY2 && v != NPY3 {
		return nil, fmt.Errorf("version %d.%d of .npy: want 1.0, 2.0 or 3.0", v[0], v[1])
	}
	if want := s.Elements() * t.Size(); t >= numTypes || len(elements) != want {
		return nil, fmt.Errorf("%d bytes for shape %d and %s: want %d bytes", len(elements), []int(s), t, want)
	}
	order, python := "<", "False"
	if t.Size() == 1 {
		order = "|"
	}
	if fortran {
		python, elements = "True", reorder(s, t.Size(), elements, true)
	}
	var dims strings.Builder
	for _, d := range s {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	shape := strings.TrimSuffix(dims.String(), " ")
	if len(s) != 1 {
		shape = strings.TrimSuffix(shape, ",")
	}
	header := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': %s, 'shape': (%s), }", order, npyTypes[t], python, shape)
	before := len(magic) + len(v) + 2
	if v != NPY1 {
		before += 2
	}
	n := divide(before+len(header)+1, headerUnit)*headerUnit - before
	out := append([]byte(magic), v[:]...)
	if v == NPY1 {
		out = binary.LittleEndian.AppendUint16(out, uint16(n))
	} else {
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
	}
	out = append(out, header+strings.Repeat(" ", n-len(header)-1)+"\n"...)
	return append(out, elements...), nil
}

// DecodeNPY returns the type, the shape and the elements of an .npy file. The elements have the order of their indexes,
// the last index fastest, and are little-endian. DecodeNPY needs at most the file's size in further memory.
func DecodeNPY(file []byte) (t Type, s Shape, elements []byte, err error) {
	fail := func(format string, args ...any) (Type, Shape, []byte, error) {
		return 0, nil, nil, fmt.Errorf(".npy file: "+format, args...)
	}
	if len(file) < len(magic)+2 || string(file[:len(magic)]) != magic {
		return fail("the first bytes are not those of numpy; want \"\\x93NUMPY\" and a version")
	}
	v := Version(file[len(magic):])
	rest := file[len(magic)+len(v):]
	var n int
	switch {
	case v == NPY1 && len(rest) >= 2:
		n, rest = int(binary.LittleEndian.Uint16(rest)), rest[2:]
	case (v == NPY2 || v == NPY3) && len(rest) >= 4:
		n, rest = int(binary.LittleEndian.Uint32(rest)), rest[4:]
	case v == NPY1 || v == NPY2 || v == NPY3:
		return fail("the file ends within the length of the header")
	default:
		return fail("version %d.%d: want 1.0, 2.0 or 3.0", v[0], v[1])
	}
	if n > MaxHeader || n > len(rest) {
		return fail("a header of %d bytes: %d bytes are left, and at most %d are allowed", n, len(rest), MaxHeader)
	}
	header, data := string(rest[:n]), rest[n:]
	if v == NPY3 && !utf8.ValidString(header) {
		return fail("the header of version 3.0 is not UTF-8")
	}
	h, err := parseHeader(header)
	if err != nil {
		return fail("header: %w", err)
	}
	t, big, err := parseDescr(h.descr)
	if err != nil {
		return fail("%w", err)
	}
	if err := h.shape.check(); err != nil {
		return fail("%w", err)
	}
	if want := h.shape.Elements() * t.Size(); want != len(data) {
		return fail("%d bytes of elements for shape %d and %s: want %d", len(data), []int(h.shape), t, want)
	}
	if h.fortran {
		elements = reorder(h.shape, t.Size(), data, false)
	} else {
		elements = append([]byte(nil), data...)
	}
	if big {
		swap(elements, t.Size())
	}
	return t, h.shape, elements, nil
}

// swap turns big-endian elements into little-endian ones.
func swap(b []byte, size int) {
	for at := 0; at < len(b); at += size {
		for i := range size / 2 {
			b[at+i], b[at+size-1-i] = b[at+size-1-i], b[at+i]
		}
	}
}

// parseDescr returns the type with a name in a header, and whether its elements are big-endian.
func parseDescr(descr string) (t Type, big bool, err error) {
	if len(descr) == 3 {
		for i, name := range npyTypes {
			if descr[1:] == name && strings.Contains("<>|=", descr[:1]) {
				return Type(i), descr[0] == '>', nil
			}
		}
	}
	return 0, false, fmt.Errorf("elements of type %q: want f4, i4, u1, u2, u4, or V2 for bfloat16; convert the array with astype", descr)
}

// reorder copies elements between the two orders of indexes. If "to" is true, the first index becomes the fastest;
// otherwise, the last index becomes the fastest.
func reorder(s Shape, size int, in []byte, to bool) []byte {
	out := make([]byte, len(in))
	at := make([]int, len(s))
	stride := make([]int, len(s)) // of the order with the first index fastest
	for i, n := 0, 1; i < len(s); i++ {
		stride[i] = n
		n *= s[i]
	}
	other := 0
	for i := 0; i < len(in); i += size {
		a, b := i, other*size
		if to {
			a, b = b, a
		}
		copy(out[a:a+size], in[b:b+size])
		for d := len(s) - 1; d >= 0; d-- {
			at[d]++
			if other += stride[d]; at[d] < s[d] {
				break
			}
			other -= at[d] * stride[d]
			at[d] = 0
		}
	}
	return out
}

// npyHeader is the dictionary of a header.
type npyHeader struct {
	descr   string
	fortran bool
	shape   Shape
}

// headerReader reads the Python literal of a header.
type headerReader struct{ left string }

// skip removes spaces.
func (r *headerReader) skip() { r.left = strings.TrimLeft(r.left, " \t\n\r") }

// take removes a word, and reports whether the word was next.
func (r *headerReader) take(word string) bool {
	r.skip()
	rest, ok := strings.CutPrefix(r.left, word)
	if ok {
		r.left = rest
	}
	return ok
}

// text removes a string in quotes.
func (r *headerReader) text() (string, error) {
	r.skip()
	if r.left == "" || r.left[0] != '\'' && r.left[0] != '"' {
		return "", fmt.Errorf("want a string in quotes at %q", r.near())
	}
	s, rest, ok := strings.Cut(r.left[1:], r.left[:1])
	if !ok || strings.Contains(s, `\`) {
		return "", fmt.Errorf("want a string without escapes and with its last quote at %q", r.near())
	}
	r.left = rest
	return s, nil
}

// near returns the next characters for a message.
func (r *headerReader) near() string { return r.left[:min(len(r.left), 20)] }

// tuple removes a tuple of numbers.
func (r *headerReader) tuple() (s Shape, err error) {
	if !r.take("(") {
		return nil, fmt.Errorf("want a tuple at %q", r.near())
	}
	for comma := true; !r.take(")"); comma = r.take(",") {
		r.skip()
		digits := r.left[:len(r.left)-len(strings.TrimLeft(r.left, "0123456789"))]
		n, err := strconv.ParseUint(digits, 10, 62)
		if err != nil || !comma || len(s) == MaxDims {
			return nil, fmt.Errorf("want at most %d numbers with commas at %q", MaxDims, r.near())
		}
		s, r.left = append(s, int(n)), strings.TrimPrefix(r.left[len(digits):], "L") // Python 2 wrote 3L
	}
	return s, nil
}

// parseHeader reads a header: a dictionary with exactly three keys, in any order.
func parseHeader(header string) (h npyHeader, err error) {
	r := &headerReader{header}
	if !r.take("{") {
		return h, fmt.Errorf("want a dictionary at %q", r.near())
	}
	seen := map[string]bool{}
	for comma := true; !r.take("}"); comma = r.take(",") {
		key, err := r.text()
		switch {
		case err != nil:
			return h, err
		case !comma || !r.take(":"):
			return h, fmt.Errorf("want a comma before key %q, and a colon behind the key", key)
		case seen[key]:
			return h, fmt.Errorf("key %q comes twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			if r.take("[") {
				return h, fmt.Errorf("elements with fields: a tensor has elements of one type")
			}
			h.descr, err = r.text()
		case "fortran_order":
			if h.fortran = r.take("True"); !h.fortran && !r.take("False") {
				err = fmt.Errorf("fortran_order: want True or False at %q", r.near())
			}
		case "shape":
			h.shape, err = r.tuple()
		default:
			err = fmt.Errorf("key %q is unknown", key)
		}
		if err != nil {
			return h, err
		}
	}
	if r.skip(); r.left != "" || len(seen) != 3 {
		return h, fmt.Errorf("want the keys descr, fortran_order and shape, and nothing behind; %d keys came, and %q is behind", len(seen), r.near())
	}
	return h, nil
}
