package capture

import (
	"fmt"
	"strconv"

	"github.com/google/gopacket"
)

// Field is one field of a frame or packet. The Wireshark dissector has a field with the same name.
type Field struct {
	Name  string
	Value string // value as text; the package documentation gives the form for each name
}

// fields is a list of fields. Each method appends one field.
type fields []Field

func (f *fields) num(name string, v uint64) {
	*f = append(*f, Field{name, strconv.FormatUint(v, 10)})
}

func (f *fields) hex(name string, digits int, v uint64) {
	*f = append(*f, Field{name, fmt.Sprintf("0x%0*x", digits, v)})
}

func (f *fields) flag(name string, v bool) {
	s := "0"
	if v {
		s = "1"
	}
	*f = append(*f, Field{name, s})
}

func (f *fields) text(name, v string) { *f = append(*f, Field{name, v}) }

// Fields returns the fields of all layers TTLink and Fabric in ls, in the order of the layers.
func Fields(ls []gopacket.Layer) []Field {
	var out fields
	for _, l := range ls {
		if s, ok := l.(interface{ Fields() []Field }); ok {
			out = append(out, s.Fields()...)
		}
	}
	return out
}
