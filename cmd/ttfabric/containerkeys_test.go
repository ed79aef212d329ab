package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ttfabric/node/fabric/folder"
	"ttfabric/ttlink/transport/pki"
)

// keyed holds the parts of a compose or stack file that say where keys are.
type keyed struct {
	Services map[string]struct {
		Command     []string
		Environment map[string]string
		Labels      map[string]string
		Secrets     []any // maps with the secrets of the chip; in a stack file, also the string "token"
	}
	Secrets map[string]struct{ File string }
}

// mounted returns the files with the secrets of a service, by their names in the
// service's container.
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

// checkFolder checks that a folder holds exactly the wanted files, with the permissions
// that containers need. The parameter "text" must not contain a secret of these files.
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
	checkFolder(t, filepath.Join(c.dir, "lab", "sealed.secrets"), text, folder.KeysFile, folder.PSKFile)
	from := "${TTFABRIC_SECRETS:-" + filepath.Join(c.dir, "lab", "sealed.secrets") + "}/"
	for name, s := range k.Services {
		if got := k.mounted(t, name); len(got) != 2 || got[folder.KeysFile] != from+folder.KeysFile || got[folder.PSKFile] != from+folder.PSKFile {
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
		if s.Labels["ttfabric.record"] != filepath.Join(c.dir, "a$$b") {
			t.Errorf("%s: recordings go to %q", name, s.Labels["ttfabric.record"])
		}
	}
	// A second call overwrites no key, because a fabric with this key may be running.
	if _, errs, code := c.run("compose", "n300", "--auth", "psk", "-f", file); code != exitUsage || !strings.Contains(errs, "sealed.secrets exists already") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, err := folder.GossipKeys(filepath.Join(c.dir, "lab", "sealed.secrets", folder.KeysFile)); err != nil {
		t.Error(err)
	}
}

// TestComposeWithCertificates makes compose and stack files with certificates. Each
// container must get the key of its own chip, and no container the authority's key.
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
		checkFolder(t, filepath.Join(c.dir, "keys-"+command), text, "ca.pem", "M0D0.key", "M0D0.pem", "M0D1.key", "M0D1.pem", "M0D2.key", "M0D2.pem", "M0D3.key", "M0D3.pem")
		for i := range 4 {
			chip, name := fmt.Sprintf("M0D%d", i), fmt.Sprintf("m0d%d", i)
			from := "${TTFABRIC_SECRETS:-./keys-" + command + "}/"
			got := k.mounted(t, name)
			if len(got) != 3 || got["ca.pem"] != from+"ca.pem" || got[chip+".pem"] != from+chip+".pem" || got[chip+".key"] != from+chip+".key" {
				t.Errorf("%s: %s sees %v", command, name, got)
			}
			if args := strings.Join(k.Services[name].Command, " "); !strings.Contains(args, "--transport quic --auth mtls --pki "+pki.Mounted) || !strings.Contains(args, "--profile paced") {
				t.Errorf("%s: %s", name, args)
			}
			if logs := strings.Contains(strings.Join(k.Services[name].Command, " "), "--keylog /state/keylog"); logs != (command == "compose") || logs && k.Services[name].Labels["ttfabric.keylog"] != c.dir {
				t.Errorf("%s: %s logs secrets: %v, for %q", command, name, logs, k.Services[name].Labels["ttfabric.keylog"])
			}
			want := map[string]string{"compose": filepath.Join(c.dir, "kept")}[command] // 'events' adds the fabric's name to this folder
			if got := k.Services[name].Labels["ttfabric.archive"]; got != want {
				t.Errorf("%s: %s archives in %q; want %q", command, name, got, want)
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
