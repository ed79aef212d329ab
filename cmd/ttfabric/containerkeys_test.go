package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ttfabric/membership/gossip"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/wire"
)

// keyed is what the tests look at of the keys in a compose or stack file.
type keyed struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Labels      map[string]string
		Secrets     []any // of a chip: maps; "token" of a stack's
	}
	Secrets map[string]struct{ File string }
}

// mounted are the files that a service sees, by their names in its container.
func (k *keyed) mounted(t *testing.T, service string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, s := range k.Services[service].Secrets {
		m, ok := s.(map[string]any)
		if !ok {
			continue
		}
		file := k.Secrets[m["source"].(string)].File
		if file == "" {
			t.Errorf("%s has secret %v, of which the file says nothing", service, m)
		}
		out[m["target"].(string)] = file
	}
	return out
}

func parseKeyed(t *testing.T, path string) (k keyed, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(b, &k)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, b)
	}
	return k, string(b)
}

// checkFolder finds the files of a folder as containers need them, and nothing of them in a text.
func checkFolder(t *testing.T, dir, text string, want ...string) {
	t.Helper()
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Fatalf("%s: %v, %v; want a folder for its owner alone", dir, fi, err)
	}
	ents, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range ents {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if fi, _ := e.Info(); err != nil || fi.Mode().Perm() != 0o444 {
			t.Errorf("%s: mode %v, %v; the image's user could not read it", e.Name(), fi.Mode(), err)
		}
		if e.Name() == ".gitignore" {
			continue
		}
		got = append(got, e.Name())
		for line := range strings.Lines(string(b)) {
			if line = strings.Trim(line, "[]\"\n"); len(line) > 30 && strings.Contains(text, line) {
				t.Errorf("the file holds a line of %s", e.Name())
			}
		}
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%s holds %v; want %v", dir, got, want)
	}
}

func TestComposeWithKeys(t *testing.T) {
	c := newCLI(t)
	file := filepath.Join(c.dir, "lab", "sealed.yml")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	c.must("compose", "n300", "--auth", "psk", "--gossip-key", "generate", "--record", filepath.Join(c.dir, "a$b"), "-f", file)
	k, text := parseKeyed(t, file)
	checkFolder(t, filepath.Join(c.dir, "lab", "sealed.secrets"), text, keysFile, pskFile)
	from := "${TTFABRIC_SECRETS:-" + filepath.Join(c.dir, "lab", "sealed.secrets") + "}/"
	for name, s := range k.Services {
		if got := k.mounted(t, name); len(got) != 2 || got[keysFile] != from+keysFile || got[pskFile] != from+pskFile {
			t.Errorf("%s sees %v", name, got)
		}
		args := strings.Join(s.Command, " ")
		for _, w := range []string{"--transport udp --auth psk --psk-file /run/secrets/psk.key", "--gossip-key /run/secrets/gossip-keys.json", "--record /state/record --record-limit 256"} {
			if !strings.Contains(args, w) {
				t.Errorf("%s has no %s: %s", name, w, args)
			}
		}
		if strings.Contains(args, "--trust-network") {
			t.Errorf("%s trusts a network, and its links are sealed: %s", name, args)
		}
		if s.Labels[labelRecord] != filepath.Join(c.dir, "a$$b") {
			t.Errorf("%s: recordings go to %q", name, s.Labels[labelRecord])
		}
	}
	// The same again overwrites no key that a fabric may be running with.
	if _, errs, code := c.run("compose", "n300", "--auth", "psk", "-f", file); code != exitUsage || !strings.Contains(errs, "sealed.secrets is there already") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, err := gossipKeys(filepath.Join(c.dir, "lab", "sealed.secrets", keysFile)); err != nil {
		t.Error(err)
	}
}

// TestComposeWithCertificates gives each container its own key, and none the authority's.
func TestComposeWithCertificates(t *testing.T) {
	c := newCLI(t)
	c.must("pki", "make", "ring:4", "--name", "lab", "-d", filepath.Join(c.dir, "pki"))
	for _, command := range []string{"compose", "stack"} {
		file := filepath.Join(c.dir, command+".yml")
		cmd := c.command(command, "ring:4", "--name", "lab", "--transport", "quic", "--pki", "pki", "-f", command+".yml", "--secrets", "keys-"+command)
		if command == "compose" {
			cmd.Args = append(cmd.Args, "--keylog", ".", "--archive", "kept")
		}
		cmd.Dir = c.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		k, text := parseKeyed(t, file)
		checkFolder(t, filepath.Join(c.dir, "keys-"+command), text, caCert, "M0D0.key", "M0D0.pem", "M0D1.key", "M0D1.pem", "M0D2.key", "M0D2.pem", "M0D3.key", "M0D3.pem")
		for i := range 4 {
			chip, name := fmt.Sprintf("M0D%d", i), fmt.Sprintf("m0d%d", i)
			from := "${TTFABRIC_SECRETS:-./keys-" + command + "}/"
			got := k.mounted(t, name)
			if len(got) != 3 || got[caCert] != from+caCert || got[chip+".pem"] != from+chip+".pem" || got[chip+".key"] != from+chip+".key" {
				t.Errorf("%s: %s sees %v", command, name, got)
			}
			if args := strings.Join(k.Services[name].Command, " "); !strings.Contains(args, "--transport quic --auth mtls --pki "+pki.Mounted) || !strings.Contains(args, "--profile paced") {
				t.Errorf("%s: %s", name, args)
			}
			if logs := strings.Contains(strings.Join(k.Services[name].Command, " "), "--keylog "+stateKeylog); logs != (command == "compose") || logs && k.Services[name].Labels[labelKeylog] != c.dir {
				t.Errorf("%s: %s logs secrets: %v, for %q", command, name, logs, k.Services[name].Labels[labelKeylog])
			}
			m := spec.Spec{Archive: "elsewhere"}
			if m.labelled("renamed", k.Services[name].Labels); command == "compose" && m.Archive != filepath.Join(c.dir, "kept", "renamed") || command != "compose" && m.Archive != "" {
				t.Errorf("%s: %s archives in %q", command, name, m.Archive)
			}
			owned := fmt.Sprint(k.Services[name].Secrets)
			if command == "stack" && (strings.Count(owned, "mode:256") != 3 || strings.Count(owned, "uid:65532") != 3 || !strings.HasPrefix(owned, "[token ")) { // 256 is 0400
				t.Errorf("stack: %s has %s", name, owned)
			}
		}
	}
	if _, errs, code := c.run("compose", "ring:4", "--name", "other", "--transport", "quic", "--pki", filepath.Join(c.dir, "pki"), "-f", filepath.Join(c.dir, "x.yml")); code != exitUsage || !strings.Contains(errs, `not of fabric "other"`) {
		t.Errorf("certificates of another fabric: exit code %d: %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "x.secrets")); err == nil {
		t.Error("keys were written of a fabric that has none")
	}
}

// TestShare is what the containers of a run folder see: what is there now, of the certificates too that 'pki renew' has made.
func TestShare(t *testing.T) {
	c := newCLI(t)
	dir := filepath.Join(c.dir, "pki")
	c.must("pki", "make", "n300", "--name", "lab", "-d", dir)
	topology, err := loadTopology(t.Context(), "n300")
	if err != nil {
		t.Fatal(err)
	}
	d := runDir(filepath.Join(c.dir, "lab"))
	m := spec.Spec{Name: "lab", Runtime: spec.Docker, Transport: spec.QUIC, Auth: spec.MTLS, PKI: dir, Keyed: true}
	key, err := gossip.NewKey(16)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.create(topology, m, [][]byte{key}, nil); err != nil {
		t.Fatal(err)
	}
	checkFolder(t, d.path(secretsName), "", keysFile, caCert, "M0D0.key", "M0D0.pem", "M0D1.key", "M0D1.pem")
	before, err := os.ReadFile(d.path("secrets/M0D1.key"))
	if err != nil {
		t.Fatal(err)
	}
	c.must("pki", "renew", "M0D1", "-d", dir)
	if err := d.share(&m, topology); err != nil {
		t.Fatal(err)
	}
	renewed, _ := os.ReadFile(filepath.Join(dir, "M0D1.key"))
	if after, _ := os.ReadFile(d.path("secrets/M0D1.key")); bytes.Equal(after, before) || !bytes.Equal(after, renewed) {
		t.Error("a container that starts again would have its old key")
	}
	os.Remove(d.path(keysFile))
	if err := d.share(&m, topology); err == nil || !strings.Contains(err.Error(), keysFile) {
		t.Errorf("without the keys: %v", err)
	}
}

// TestRenewed is what a container of a compose file of the user's own sees after 'pki renew': the new
// certificate, of its own chip, and nothing of a folder that is gone.
func TestRenewed(t *testing.T) {
	c := newCLI(t)
	dir := filepath.Join(c.dir, "pki")
	c.must("pki", "make", "n300", "-d", dir)
	c.must("compose", "n300", "--transport", "quic", "--pki", dir, "-f", filepath.Join(c.dir, "lab.yml"))
	k, _ := parseKeyed(t, filepath.Join(c.dir, "lab.yml"))
	if got := k.Services["m0d0"].Labels[labelPKI]; got != dir {
		t.Errorf("certificates are from %q; want %s", got, dir)
	}
	seen := filepath.Join(c.dir, "lab.secrets")
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
	c.must("pki", "renew", "-d", dir)
	m := spec.Spec{Auth: spec.MTLS, PKI: dir}
	one := wire.FabricNodeID{Chip: 1}
	var mounts []mount
	for name := range old {
		if !strings.HasPrefix(name, "M0D0") {
			mounts = append(mounts, mount{filepath.Join(seen, name), pki.Mounted + "/" + name})
		}
	}
	mounts = append(mounts, mount{filepath.Join(c.dir, "volume"), stateDir})
	if err := renewed(&m, one, mounts); err != nil {
		t.Fatal(err)
	}
	now := files(dir)
	for name, got := range files(seen) {
		if want := map[bool]string{true: old[name], false: now[name]}[strings.HasPrefix(name, "M0D0")]; got != want {
			t.Errorf("%s is not the one that the container of M0D1 is to see", name)
		}
	}
	checkFolder(t, seen, "", caCert, "M0D0.pem", "M0D0.key", "M0D1.pem", "M0D1.key")
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := renewed(&m, one, mounts); err != nil || files(seen)["M0D1.key"] != now["M0D1.key"] {
		t.Errorf("without the folder: %v", err)
	}
}

// TestEachFile reads what 'docker cp' writes: nothing of it is taken for a path.
func TestEachFile(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "record/", Typeflag: tar.TypeDir, Mode: 0o700},
		{Name: "record/../../../etc/a", Size: 3},
		{Name: "record/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "record/large", Size: 11},
		{Name: "record/b", Size: 10},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Write(bytes.Repeat([]byte("x"), int(h.Size)))
	}
	w.Close()
	got := map[string]int{}
	take := func(folder, name string, r io.Reader) error {
		b, err := io.ReadAll(r)
		got[folder+" "+name] = len(b)
		return err
	}
	if err := eachFile(bytes.NewReader(b.Bytes()), 10, take); err != nil || fmt.Sprint(got) != "map[etc a:3 record b:10]" {
		t.Errorf("%v, %v", got, err)
	}
	for n := 512; n < b.Len()-1024; n += 512 { // cut within what the last two blocks end
		if err := eachFile(io.MultiReader(bytes.NewReader(b.Bytes()[:n]), failing{}), 10, take); err == nil {
			t.Errorf("cut after %d bytes, and nothing is said", n)
		}
	}
}

// failing is a reader whose command has failed.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errNotThere }

// FuzzKeyList reads lists of keys: what is taken comes back, within the limits.
func FuzzKeyList(f *testing.F) {
	f.Add([]byte(`["pUqJrVyVRj5jsiYEkM/tFQYfWyJIv4s3XkvDwy7Cu5s="]`))
	f.Add([]byte(`["AAAAAAAAAAAAAAAAAAAAAA==","/////////////////////w=="]`))
	for _, s := range []string{"", "[]", "{}", `[""]`, `["x"]`, "[1]", strings.Repeat(`["AAAAAAAAAAAAAAAAAAAAAA=="`, 9)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := parseKeyList(b)
		if err != nil {
			return
		}
		if len(keys) == 0 || len(keys) > gossip.MaxKeys {
			t.Fatalf("%d keys", len(keys))
		}
		again, err := parseKeyList(keyList(keys))
		if err != nil || !slices.EqualFunc(again, keys, bytes.Equal) {
			t.Fatalf("read back as %v, %v; want %v", again, err, keys)
		}
	})
}
