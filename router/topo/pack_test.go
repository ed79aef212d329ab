package topo

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// packTexts returns the texts of topology files: the rendered form of built-in and generated
// topologies, and the files in testdata that Load accepts.
func packTexts(t testing.TB) map[string][]byte {
	texts := map[string][]byte{}
	for _, name := range []string{"t3000", "galaxy", "2xt3000", "n300", "mesh:16x16", "torus:4x4", "ring:6"} {
		tp, err := Named(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = tp.Encode()
	}
	names, _ := filepath.Glob("testdata/*")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil {
			if _, err := Load(name, b); err == nil {
				texts[name] = b
			}
		}
	}
	return texts
}

// TestPack packs topologies. The unpacked topology must equal the topology that Load reads, with its
// index.
func TestPack(t *testing.T) {
	texts := packTexts(t)
	if len(texts) < 10 {
		t.Fatalf("only %d topologies", len(texts))
	}
	for name, text := range texts {
		want, err := Load(name, text)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := Unpack(want.Pack(text), text)
		if !ok {
			t.Errorf("%s: the packed form is refused", name)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: unpacked\n%+v\nwant\n%+v", name, got, want)
		}
	}
}

// TestPackIsRefused changes the text and damages the packed form. Unpack must refuse both.
func TestPackIsRefused(t *testing.T) {
	tp, _ := Named("t3000")
	text := tp.Encode()
	b := tp.Pack(text)
	if _, ok := Unpack(b, append(text, '\n')); ok {
		t.Error("Unpack accepts the packed form of another text")
	}
	for n := range len(b) {
		if _, ok := Unpack(b[:n], text); ok {
			t.Fatalf("Unpack accepts the first %d of %d bytes", n, len(b))
		}
	}
	tp.Chips = tp.Chips[:3]
	if _, ok := Unpack(tp.Pack(text), text); ok {
		t.Error("Unpack accepts a mesh without one of its chips")
	}
}

// FuzzUnpack changes bytes of a packed form. Unpack must not panic, and must return valid topologies
// only.
func FuzzUnpack(f *testing.F) {
	tp, _ := Named("n300")
	text := tp.Encode()
	f.Add(tp.Pack(text))
	f.Fuzz(func(t *testing.T, b []byte) {
		if tp, ok := Unpack(b, text); ok {
			if err := tp.Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	tp, _ := Named("mesh:16x16")
	text := tp.Encode()
	for b.Loop() {
		if _, err := Load("x.yaml", text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	tp, _ := Named("mesh:16x16")
	text := tp.Encode()
	p := tp.Pack(text)
	for b.Loop() {
		if _, ok := Unpack(p, text); !ok {
			b.Fatal("refused")
		}
	}
}
