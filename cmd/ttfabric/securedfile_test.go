package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
)

// TestSecuredByTheFile brings up fabrics whose topology file says how the links are
// secured. A flag, or the flag's environment variable, must overrule the file.
func TestSecuredByTheFile(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	sealed, quic := filepath.Join(c.dir, "sealed.yaml"), filepath.Join(c.dir, "quic.yaml")
	c.must("generate", "n300", "--auth", "psk", "-f", sealed)
	c.must("generate", "n300", "--transport", "quic", "-f", quic)
	for _, x := range []struct {
		name, file, env string
		flags           []string
		transport, auth string
	}{
		{name: "file", file: sealed, transport: spec.UDP, auth: spec.PSK},
		{name: "quic", file: quic, transport: spec.QUIC, auth: spec.MTLS},
		{name: "flag", file: sealed, flags: []string{"--auth", "none"}, transport: spec.UDP, auth: spec.None},
		{name: "both", file: quic, flags: []string{"--transport", "udp", "--auth", "psk"}, transport: spec.UDP, auth: spec.PSK},
		{name: "env", file: sealed, env: "TTFABRIC_UP_AUTH=none", transport: spec.UDP, auth: spec.None},
	} {
		cmd := c.command(append([]string{"up", x.file, "-d", patient, "-n", x.name}, x.flags...)...)
		if x.env != "" {
			cmd.Env = append(cmd.Env, x.env)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", x.name, err, out)
		}
		m, err := folder.Dir(filepath.Join(c.dir, "ttfabric", x.name)).Spec()
		if err != nil || m.Transport != x.transport || m.Auth != x.auth {
			t.Errorf("%s: transport %q, auth %q, %v", x.name, m.Transport, m.Auth, err)
		}
		for _, l := range read[api.ChipView](c, "inspect", "M0D0", "-n", x.name).Links {
			if (l.Auth["keyings"] > 0) != (x.auth != spec.None) {
				t.Errorf("%s: channel %d: %v", x.name, l.Channel, l.Auth)
			}
		}
		if x.name == "file" {
			// A file with another value of auth does not fit the running fabric.
			other := filepath.Join(c.dir, "other.yaml")
			c.must("generate", sealed, "--auth", "none", "-f", other)
			if _, errs, code := c.run("up", other, "-d", "-n", x.name); code != exitUsage || !strings.Contains(errs, "other labels, impairments, transport or auth now") {
				t.Errorf("exit code %d: %s", code, errs)
			}
		}
		c.must("down", "-n", x.name)
	}
}

// TestTheFilesKeysAreShown gives topology files with the keys transport and auth to
// commands that start no chip. The commands must print the values of these keys, or must
// refuse values that exclude each other.
func TestTheFilesKeysAreShown(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	write := func(name, text string) string {
		file := filepath.Join(c.dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	plain := c.must("generate", "n300")
	file := write("sealed.yaml", strings.Replace(plain, "arch:", "auth: psk\narch:", 1))
	if v := read[output.Topology](c, "validate", file); v.Transport != spec.UDP || v.Auth != spec.PSK {
		t.Errorf("validate: %q, %q", v.Transport, v.Auth)
	}
	if v := read[output.Topology](c, "validate", "n300"); v.Transport != spec.UDP || v.Auth != spec.None {
		t.Errorf("validate of a topology without these keys: %q, %q", v.Transport, v.Auth)
	}
	if out := c.must("validate", file); !strings.Contains(out, "The file sets links over udp with auth psk.") {
		t.Error(out)
	}
	if out := c.must("generate", file); !strings.Contains(out, "\nauth: psk\n") {
		t.Error(out)
	}
	composed := filepath.Join(c.dir, "a.yml")
	c.must("compose", file, "-f", composed)
	k, text := parseKeyed(t, composed)
	checkFolder(t, filepath.Join(c.dir, "a.secrets"), text, folder.PSKFile)
	if args := strings.Join(k.Services["m0d0"].Command, " "); !strings.Contains(args, "--transport udp --auth psk --psk-file") || !strings.Contains(k.Services["m0d0"].Environment[spec.TopologyEnv], "auth: psk") {
		t.Errorf("compose: %s", args)
	}
	// A flag overrules the file, and also overrules the text of the file that containers get.
	if out := c.must("compose", file, "--auth", "none"); !strings.Contains(out, `"--transport", "udp", "--auth", "none"`) || !strings.Contains(out, "--trust-network") {
		t.Errorf("compose --auth none: %s", out)
	}
	open := write("open.yaml", strings.Replace(plain, "arch:", "transport: udp\nauth: none\narch:", 1))
	token := write("token", "0123456789abcdef")
	unknown := write("unknown.yaml", strings.Replace(plain, "arch:", "auth: pks\narch:", 1))
	clash := write("clash.yaml", strings.Replace(plain, "arch:", "transport: quic\nauth: psk\narch:", 1))
	for _, x := range []struct {
		args, want string
		code       int
	}{
		{"node --chip M0D0 --token-file " + token + " --listen 192.0.2.1 --topology " + open, "--auth none at 192.0.2.1", exitUsage},
		{"node --chip M0D0 --token-file " + token + " --listen 192.0.2.1 --topology " + file, "--auth psk: all chips share one key; name its file with --psk-file", exitUsage},
		{"up -d " + unknown, `unknown.yaml:5: auth "pks": want none, psk or mtls`, exitTopology},
		{"validate " + unknown, `unknown.yaml:5: auth "pks": want none, psk or mtls`, exitTopology},
		{"validate " + clash, "QUIC needs certificates", exitTopology},
		{"up -d " + clash, "transport: quic of the topology's file and auth: psk of the topology's file: QUIC", exitUsage},
		{"up -d " + file + " --transport quic", "--transport quic and auth: psk of the topology's file: QUIC", exitUsage},
		{"scenario run flapping --topology " + clash, "QUIC needs certificates", exitUsage},
		{"stack " + file, "--secrets", exitUsage},
		{"generate n300 --auth x", `--auth "x"`, exitUsage},
		{"generate n300 --transport quic --auth none", "QUIC needs certificates", exitUsage},
		{"generate --format umd " + file, "how its links are secured", exitUsage},
	} {
		if _, errs, code := c.run(strings.Fields(x.args)...); code != x.code || !strings.Contains(errs, x.want) {
			t.Errorf("%s: exit code %d: %s; want %d and %q", x.args, code, errs, x.code, x.want)
		}
	}
}
