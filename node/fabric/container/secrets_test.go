package container

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/membership/keyring"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/wire"
)

// checkFolder checks that the folder dir has exactly the wanted files, and that containers
// but no other user can read the files.
func checkFolder(t *testing.T, dir string, want ...string) {
	t.Helper()
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Fatalf("%s: %v, %v; want a folder that only its owner can enter", dir, fi, err)
	}
	ents, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range ents {
		if fi, err := e.Info(); err != nil || fi.Mode().Perm() != SecretMode {
			t.Errorf("%s: mode %v, %v; the program in the container could not read the file", e.Name(), fi.Mode(), err)
		}
		if e.Name() != ".gitignore" {
			got = append(got, e.Name())
		}
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%s holds %v; want %v", dir, got, want)
	}
}

// certified makes certificates for all chips of the topology m in a new folder. The
// parameter "name" is the fabric's name.
func certified(t *testing.T, name string, m *topo.Topology) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "pki")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := pki.Make(dir, name, m.Nodes(), time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	return dir
}

// renew replaces the certificates of some chips in the folder dir, as 'pki renew' does.
func renew(t *testing.T, dir, name string, chips ...wire.FabricNodeID) {
	t.Helper()
	a, err := pki.LoadAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range chips {
		cert, key, err := a.Issue(pki.Identity{Fabric: name, Chip: n}, time.Now(), time.Hour)
		if err == nil {
			err = pki.SaveChip(dir, n, cert, key, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestShare checks that Share copies the keys and the certificates to the folder that
// containers mount. After a renewal, Share must copy the new certificate.
func TestShare(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	dir := certified(t, "lab", m)
	d := folder.Dir(filepath.Join(t.TempDir(), "lab"))
	s := spec.Spec{Name: "lab", Place: spec.Place{Runtime: spec.Docker}, Security: spec.Security{Transport: spec.QUIC, Auth: spec.MTLS, PKI: dir, Keyed: true}}
	key, err := keyring.New(16)
	if err != nil {
		t.Fatal(err)
	}
	share := func(d folder.Dir) error { return Share(d, &s, m) }
	if err := d.Create(m, &s, folder.NewToken(), folder.WriteGossipKeys([][]byte{key}), share); err != nil {
		t.Fatal(err)
	}
	checkFolder(t, d.Path(SecretsName), folder.KeysFile, caCert, "M0D0.key", "M0D0.pem", "M0D1.key", "M0D1.pem")
	before, err := os.ReadFile(d.Path("secrets/M0D1.key"))
	if err != nil {
		t.Fatal(err)
	}
	renew(t, dir, "lab", wire.FabricNodeID{Chip: 1})
	if err := share(d); err != nil {
		t.Fatal(err)
	}
	renewed, _ := os.ReadFile(filepath.Join(dir, "M0D1.key"))
	if after, _ := os.ReadFile(d.Path("secrets/M0D1.key")); bytes.Equal(after, before) || !bytes.Equal(after, renewed) {
		t.Error("Share did not copy the renewed key")
	}
	os.Remove(d.Path(folder.KeysFile))
	if err := share(d); err == nil || !strings.Contains(err.Error(), folder.KeysFile) {
		t.Errorf("without the keys: %v", err)
	}
}

// TestLabelled sets the folders of a spec from labels. A missing label must give an empty folder.
func TestLabelled(t *testing.T) {
	s := spec.Spec{Records: spec.Records{Archive: "elsewhere"}}
	labelled(&s, "renamed", map[string]string{labelArchive: "/kept", labelRecord: "/calls", labelKeylog: "/logs", labelPKI: "/pki"})
	if s.Archive != "/kept/renamed" || s.Record != "/calls" || s.KeyLog != "/logs" || s.PKI != "/pki" {
		t.Errorf("%+v", s)
	}
	if labelled(&s, "renamed", nil); s.Archive != "" || s.Record != "" || s.KeyLog != "" || s.PKI != "" {
		t.Errorf("with no labels: %+v", s)
	}
}

// TestRenewed renews the certificates of both chips of a fabric that the user brought up
// with a compose file. Then renewed runs for chip M0D1. The mounted files of M0D1 must be
// new, and the files of M0D0 must be old. After the removal of the folder of the
// certificates, the mounted files must not change.
func TestRenewed(t *testing.T) {
	topology, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	dir, lab := certified(t, "lab", topology), t.TempDir()
	want := spec.Default()
	want.Transport, want.PKI = spec.QUIC, dir
	f := File{Topology: topology, Named: "n300", Options: DefaultOptions()}
	if f.Spec, err = Settle("lab", topology, want, f.Options); err != nil {
		t.Fatal(err)
	}
	keys := Keys{}
	if f.Secrets, err = keys.Write(t.Context(), nil, &f.Spec, topology, filepath.Join(lab, "lab.yml")); err != nil {
		t.Fatal(err)
	}
	text, err := f.Compose()
	if err != nil || !strings.Contains(string(text), "\n  "+labelPKI+": "+quoted(dir)+"\n") {
		t.Errorf("the compose file has no label for the folder %s of the certificates: %v\n%s", dir, err, text)
	}
	seen := filepath.Join(lab, "lab.secrets")
	if keys.Made != seen {
		t.Errorf("the keys are in %s; want %s", keys.Made, seen)
	}
	files := func(dir string) (out map[string]string) {
		out = map[string]string{}
		for _, name := range []string{caCert, "M0D0.pem", "M0D0.key", "M0D1.pem", "M0D1.key"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			out[name] = string(b)
		}
		return out
	}
	old := files(seen)
	renew(t, dir, "lab", topology.Nodes()...)
	m := spec.Spec{Security: spec.Security{Auth: spec.MTLS, PKI: dir}}
	one := wire.FabricNodeID{Chip: 1}
	var mounts []mount
	for name := range old {
		if !strings.HasPrefix(name, "M0D0") {
			mounts = append(mounts, mount{filepath.Join(seen, name), pki.Mounted + "/" + name})
		}
	}
	mounts = append(mounts, mount{filepath.Join(lab, "volume"), stateDir})
	if err := renewed(&m, one, mounts); err != nil {
		t.Fatal(err)
	}
	now := files(dir)
	for name, got := range files(seen) {
		if want := map[bool]string{true: old[name], false: now[name]}[strings.HasPrefix(name, "M0D0")]; got != want {
			t.Errorf("%s has the wrong content after the renewal for M0D1", name)
		}
	}
	checkFolder(t, seen, caCert, "M0D0.pem", "M0D0.key", "M0D1.pem", "M0D1.key")
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := renewed(&m, one, mounts); err != nil || files(seen)["M0D1.key"] != now["M0D1.key"] {
		t.Errorf("without the folder: %v", err)
	}
}
