package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin/api"
)

// TestSecuredLinks brings up a fabric over each transport that authenticates the peers.
// The test sends traffic, kills a chip, and starts the chip again.
func TestSecuredLinks(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.must("pki", "make", "n300", "-d", filepath.Join(c.dir, "pki"), "--name", "lab")
	key := filepath.Join(c.dir, "key")
	c.must("gossip", "keygen", "-f", key)
	logs := filepath.Join(c.dir, "logs")
	if err := os.Mkdir(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	// Each subtest has a fabric of its own. The group "over" ends after all subtests.
	t.Run("over", func(t *testing.T) {
		for name, flags := range map[string][]string{
			"sealed":  {patient, "--auth", "psk"},
			"sealed2": {patient, "--auth", "psk", "--psk-file", key},
			"quic":    {"--transport", "quic", "--keylog", logs}, // the default profile over QUIC has longer timers than patient
			"lab":     {"--transport", "quic", "--pki", filepath.Join(c.dir, "pki")},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := &cli{t: t, dir: c.dir}
				c.must(append([]string{"up", "n300", "-d", "-n", name}, flags...)...)
				c.must("traffic", "all-to-all", "--packets", "500", "-n", name)
				c.must("chip", "kill", "M0D1", "-n", name)
				c.must("chip", "start", "M0D1", "-n", name)
				c.must("up", "-d", "-n", name)
				c.must("traffic", "all-to-all", "--packets", "500", "-n", name)
				for _, v := range []api.ChipView{read[api.ChipView](c, "inspect", "M0D0", "-n", name), read[api.ChipView](c, "inspect", "M0D1", "-n", name)} {
					for _, l := range v.Links {
						if l.Auth["keyings"] == 0 {
							t.Errorf("%s: chip %s channel %d: %v", name, v.Chip, l.Channel, l.Auth)
						}
					}
				}
				c.fails(exitUsage, append([]string{"up", "-d", "-n", name}, flags...)...)
				filepath.Walk(filepath.Join(c.dir, "ttfabric", name), func(path string, fi os.FileInfo, err error) error {
					if err == nil && fi.Mode().IsRegular() && strings.HasSuffix(path, ".key") && fi.Mode().Perm() != 0o600 {
						t.Errorf("%s has mode %v", path, fi.Mode())
					}
					return nil
				})
				c.must("down", "-n", name)
			})
		}
	})
	b, err := os.ReadFile(filepath.Join(logs, "keylog-M0D0.txt"))
	if err != nil || !strings.Contains(string(b), "CLIENT_TRAFFIC_SECRET_0 ") {
		t.Errorf("the key log: %v, %d bytes", err, len(b))
	}
	if fi, err := os.Stat(filepath.Join(logs, "keylog-M0D0.txt")); err == nil && fi.Mode().Perm() != 0o600 {
		t.Errorf("the key log has mode %v", fi.Mode())
	}
}

func TestSecureMessages(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	dir := filepath.Join(c.dir, "pki")
	c.must("pki", "make", "n300", "-d", dir)
	key := filepath.Join(c.dir, "key")
	c.must("gossip", "keygen", "-f", key)
	alone := "node --chip M0D0 --topology n300 --token-file " + filepath.Join(c.dir, "token") + " "
	if err := os.WriteFile(filepath.Join(c.dir, "token"), []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ args, want string }{
		{"up -d --transport tcp", `--transport "tcp"`},
		{"up -d --auth x", `--auth "x"`},
		{"up -d --transport quic --auth psk", "QUIC needs certificates"},
		{"up -d --auth mtls", "--transport quic"},
		{"up -d --psk-file " + key, "--auth psk"},
		{"up -d --auth psk --psk-file none", "gossip keygen"},
		{"up -d --pki " + dir, "--transport quic"},
		{"up -d n300 --name other --transport quic --pki " + dir, `not of fabric "other"`},
		{"up -d t3000 --transport quic --pki " + dir, "M0D2.pem"},
		{"up -d --keylog " + c.dir, "only QUIC"},
		{"up -d --transport quic --keylog nowhere", "want an existing folder"},
		{"pki make n300 -d " + dir, "overwrites no file"},
		{"pki make n300 --valid -1s -d " + dir + "2", "--valid"},
		{"pki renew X -d " + dir, "X"},
		{alone + "--listen 0.0.0.0 --advertise 192.0.2.1", "--trust-network"},
		{alone + "--listen 192.0.2.1", "--auth psk --psk-file"},
		{alone + "--listen 192.0.2.1 --trust-network 8.0.0.0/8", "not a private network"},
		{alone + "--listen 192.0.2.1 --trust-network 10.0.0.0/7", "not a private network"},
		{alone + "--listen 192.0.2.1 --trust-network nope", "want a network such as"},
		{alone + "--listen 172.20.0.5 --trust-network 172.21.0.0/16", "--auth none at 172.20.0.5"},
		{alone + "--auth psk", "--psk-file"},
		{alone + "--transport quic", "--pki"},
	} {
		if _, errs, code := c.run(strings.Fields(x.args)...); code != exitUsage || !strings.Contains(errs, x.want) {
			t.Errorf("%s: exit code %d: %s; want %q", x.args, code, errs, x.want)
		}
	}
}

func TestPKIShowsWhatIsWrong(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	dir := filepath.Join(c.dir, "pki")
	c.must("pki", "make", "n300", "-d", dir, "--name", "lab", "--valid", "48h")
	rows := read[[]pkiRow](c, "pki", "show", "-d", dir)
	if len(rows) != 3 || rows[1].Identity != "ttfabric://lab/M0D0" || rows[1].Problem != "" || time.Until(rows[1].Until) > 48*time.Hour {
		t.Fatalf("%+v", rows)
	}
	c.must("pki", "renew", "M0D1", "-d", dir, "--valid", "24h")
	again := read[[]pkiRow](c, "pki", "show", "-d", dir)
	if again[1] != rows[1] || again[2].Fingerprint == rows[2].Fingerprint || again[2].Problem != "" || again[0] != rows[0] {
		t.Errorf("%+v", again)
	}
	if err := os.Chmod(filepath.Join(dir, "M0D0.key"), 0o640); err != nil {
		t.Fatal(err)
	}
	if out, _, code := c.run("pki", "show", "-d", dir); code != exitFailed || !strings.Contains(out, "chmod 600") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
