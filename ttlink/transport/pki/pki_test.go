package pki

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
)

func chipID(i int) wire.FabricNodeID { return wire.FabricNodeID{Chip: wire.ChipID(i)} }

func made(t *testing.T, fabric string, now time.Time, valid time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	if err := Make(dir, fabric, []wire.FabricNodeID{chipID(0), chipID(1)}, now, valid); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMakeAndLoad(t *testing.T) {
	for _, fabric := range []string{"default", "Lab_2", "a..b", "x-1.y"} {
		dir := t.TempDir()
		err := Make(dir, fabric, []wire.FabricNodeID{chipID(0)}, time.Now(), time.Hour)
		if fabric == "a..b" {
			if ents, _ := os.ReadDir(dir); err == nil || len(ents) != 0 {
				t.Errorf("%s: %v, %d files", fabric, err, len(ents))
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := Load(dir, Identity{fabric, chipID(0)})
		if err != nil {
			t.Fatal(err)
		}
		a, err := c.Secret("x")
		b, _ := c.Secret("y")
		d, _ := c.Secret("x")
		if err != nil || a == b || a != d {
			t.Errorf("secrets %x %x %x, %v", a, b, d, err)
		}
		for _, name := range []string{"ca.key", "M0D0.key"} {
			if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v", name, fi.Mode(), err)
			}
		}
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := made(t, "lab", time.Now(), time.Hour)
	before, _ := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err := Make(dir, "lab", []wire.FabricNodeID{chipID(0)}, time.Now(), time.Hour); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "ca.key")); string(after) != string(before) {
		t.Error("the authority's key was overwritten")
	}
	a, err := LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := a.Issue(Identity{"lab", chipID(0)}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := SaveChip(dir, chipID(0), cert, key, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
	if err := SaveChip(dir, chipID(0), cert, key, true); err != nil {
		t.Error(err)
	}
	if _, err := Load(dir, Identity{"lab", chipID(0)}); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	now := time.Now()
	dir, other, old, later := made(t, "lab", now, time.Hour), made(t, "lab", now, time.Hour), made(t, "lab", now.Add(-2*time.Hour), time.Hour), made(t, "lab", now.Add(time.Hour), time.Hour)
	c, err := Load(dir, Identity{"lab", chipID(0)})
	if err != nil {
		t.Fatal(err)
	}
	leaf := func(dir, name string) []*x509.Certificate {
		x, err := LoadCertificate(filepath.Join(dir, name+".pem"))
		if err != nil {
			t.Fatal(err)
		}
		return []*x509.Certificate{x}
	}
	for _, x := range []struct {
		certs []*x509.Certificate
		want  Identity
		err   string
	}{
		{leaf(dir, "M0D1"), Identity{"lab", chipID(1)}, ""},
		{leaf(dir, "M0D1"), Identity{"lab", chipID(0)}, "not of chip M0D0"},
		{leaf(dir, "M0D1"), Identity{"other", chipID(1)}, `not of fabric "other"`},
		{leaf(other, "M0D1"), Identity{"lab", chipID(1)}, "another authority"},
		{leaf(dir, "ca"), Identity{"lab", chipID(1)}, "names no chip"},
		{nil, Identity{"lab", chipID(1)}, "no certificate"},
	} {
		err := c.Check(x.certs, x.want, now)
		if (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%v, want %q", err, x.err)
		}
	}
	for d, want := range map[string]string{old: "expired", later: "look at the clocks"} {
		if _, err := Load(d, Identity{"lab", chipID(0)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := Load(dir, Identity{"lab", chipID(7)}); err == nil || !strings.Contains(err.Error(), "pki make") {
		t.Errorf("%v", err)
	}
	os.Chmod(filepath.Join(dir, "M0D0.key"), 0o644)
	if _, err := Load(dir, Identity{"lab", chipID(0)}); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
	os.Remove(filepath.Join(dir, "M0D1.key"))
	b, _ := os.ReadFile(filepath.Join(other, "M0D1.key"))
	os.WriteFile(filepath.Join(dir, "M0D1.key"), b, 0o600)
	if _, err := Load(dir, Identity{"lab", chipID(1)}); err == nil {
		t.Error("Load accepts the key of another certificate")
	}
	os.WriteFile(filepath.Join(dir, "M0D1.pem"), make([]byte, 1<<20), 0o600)
	if _, err := Load(dir, Identity{"lab", chipID(1)}); err == nil {
		t.Error("Load accepts a file of a megabyte of zeros")
	}
	a, _ := LoadAuthority(other)
	for _, d := range []time.Duration{0, -1, MaxValidity + 1} {
		if _, _, err := a.Issue(Identity{"lab", chipID(0)}, now, d); err == nil {
			t.Errorf("valid for %v", d)
		}
	}
}

// TestExposed checks that the mode of a key file decides who can read the key, except in Mounted.
func TestExposed(t *testing.T) {
	for _, x := range []struct {
		dir  string
		mode os.FileMode
		want bool
	}{
		{"pki", 0o600, false}, {"pki", 0o400, false}, {"pki", 0o640, true}, {"pki", 0o604, true}, {"/run/secrets.d", 0o444, true}, {"run/secrets", 0o444, true},
		{Mounted, 0o444, false}, {Mounted + "/", 0o644, false}, {Mounted + "/x", 0o444, true}, {Mounted + "/..", 0o444, true},
	} {
		if got := exposed(x.dir, x.mode); got != x.want {
			t.Errorf("%s, %v: exposed is %v", x.dir, x.mode, got)
		}
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add("ttfabric://default/M0D3")
	f.Add("ttfabric://a@b/M0D3?x#y")
	f.Add("ttfabric:///M0D3")
	f.Fuzz(func(t *testing.T, s string) {
		if i, err := ParseIdentity(s); err == nil && i.URI() != s {
			t.Fatalf("%q is written as %q", s, i.URI())
		}
	})
}
