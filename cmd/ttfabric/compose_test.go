package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

var rewrite = flag.Bool("rewrite", false, "write the files of docker/ again; review the changes afterwards")

// composed holds the parts of a compose file that the tests examine.
type composed struct {
	Services map[string]struct {
		Image       string
		Command     []string
		Environment map[string]string
		Labels      map[string]string
		Healthcheck struct{ Test []string }
		Ports       []string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		SecurityOpt []string `yaml:"security_opt"`
		MemLimit    string   `yaml:"mem_limit"`
		PidsLimit   int      `yaml:"pids_limit"`
		Restart     string
		Volumes     []string
		Privileged  bool
		NetworkMode string `yaml:"network_mode"`
	}
	Networks, Volumes map[string]struct {
		DriverOpts map[string]string `yaml:"driver_opts"`
		Labels     map[string]string
	}
	Version, Name string // must be empty: docker-compose or Compose v2 refuses these keys, or warns of them
}

func parseComposed(t *testing.T, b []byte) (c composed) {
	t.Helper()
	if err := yaml.Unmarshal(b, &c); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if c.Version != "" || c.Name != "" {
		t.Errorf("version %q, name %q: want a file without these two keys", c.Version, c.Name)
	}
	return c
}

// TestCommittedComposeFiles compares the files of docker/ with the output of 'compose'.
func TestCommittedComposeFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"n300", "t3000", "galaxy", "torus:4x4", "2xt3000"} {
		c := newCLI(t)
		got := c.must("compose", name)
		file := filepath.Join("..", "..", "docker", strings.ReplaceAll(name, ":", "-")+".yml")
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || string(want) != got {
			t.Errorf("%s is not what 'ttfabric compose %s' prints (%v); 'go test ./cmd/ttfabric -run ComposeFiles -rewrite' writes the file", file, name, err)
		}
		topology, err := topo.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		checkComposed(t, name, topology, parseComposed(t, []byte(got)))
	}
}

// checkComposed reports an error if a compose file does not hold one confined container
// for each chip of the topology.
func checkComposed(t *testing.T, name string, topology *topo.Topology, c composed) {
	t.Helper()
	if len(c.Services) != len(topology.Chips) {
		t.Errorf("%s: %d services of %d chips", name, len(c.Services), len(topology.Chips))
	}
	for _, chip := range topology.Chips {
		s, ok := c.Services[container.ServiceName(chip.Node)]
		if !ok || s.Environment["TTFABRIC_NODE_CHIP"] != chip.Node.String() || s.Labels["ttfabric.chip"] != chip.Node.String() || s.Labels["ttfabric.fabric"] == "" {
			t.Errorf("%s: chip %s has service %+v", name, chip.Node, s)
			continue
		}
		if !s.ReadOnly || s.Privileged || s.NetworkMode != "" || fmt.Sprint(s.CapDrop) != "[ALL]" || fmt.Sprint(s.SecurityOpt) != "[no-new-privileges:true]" || spec.Bytes(s.MemLimit) == 0 || s.PidsLimit == 0 {
			t.Errorf("%s: chip %s is not confined: %+v", name, chip.Node, s)
		}
		if len(s.Ports) != 1 || !strings.HasPrefix(s.Ports[0], "127.0.0.1:") {
			t.Errorf("%s: chip %s publishes %v", name, chip.Node, s.Ports)
		}
		if fmt.Sprint(s.Healthcheck.Test) != "[CMD /ttfabric ready]" {
			t.Errorf("%s: chip %s is checked by %v", name, chip.Node, s.Healthcheck.Test)
		}
		if strings.Contains(fmt.Sprint(s.Environment, s.Command), "TTFABRIC_TOKEN") {
			t.Errorf("%s: the token is in the file", name)
		}
	}
	if len(c.Networks) != 1 || len(c.Volumes) != 1 || c.Networks["default"].Labels["ttfabric.fabric"] == "" || c.Volumes["state"].Labels["ttfabric.fabric"] == "" {
		t.Errorf("%s: 'down' would not find networks %v, volumes %v", name, c.Networks, c.Volumes)
	}
}

// TestComposeOfAFile makes a compose file of a topology that has no built-in name. The
// compose file must hold the text of this topology.
func TestComposeOfAFile(t *testing.T) {
	c := newCLI(t)
	file := filepath.Join(c.dir, "lab.yaml")
	text := strings.Replace(c.must("generate", "ring:4"), "cables:", "netem:\n  - M0D0-M0D1,delay=1ms\ncables:", 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := topo.Load(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := c.must("compose", file, "--name", "lab", "--slots", "fast", "--netem", "M0D1-M0D2,loss=1%", "--stuck", "drain", "--mtu", "9000", "--image", "mine:1", "--memory", "1g")
	got := parseComposed(t, []byte(out))
	checkComposed(t, "lab", want, got)
	var js map[string]any
	if err := json.Unmarshal([]byte(c.must("compose", file, "-o", "json")), &js); err != nil || len(js["services"].(map[string]any)) != 4 {
		t.Errorf("-o json: %v, %v", err, js)
	}
	parseComposed(t, []byte(c.must("compose", file, "-o", "json")))
	s := got.Services["m0d2"]
	back, err := topo.Load(spec.TopologyEnv, []byte(strings.ReplaceAll(s.Environment[spec.TopologyEnv], "$$", "$")))
	if err != nil || back.Hash() != want.Hash() || !back.SameNotes(want) {
		t.Errorf("the topology came back as %v, %v", back, err)
	}
	for _, w := range []string{"--slots fast", "--netem M0D1-M0D2,loss=1%", "--stuck drain", "--name ${TTFABRIC_NAME:-lab}", "--profile crowded", "--tile-memory 524288k"} {
		if !strings.Contains(strings.Join(s.Command, " "), w) {
			t.Errorf("the command has no %s: %v", w, s.Command)
		}
	}
	if s.Image != "${TTFABRIC_IMAGE:-mine:1}" || got.Networks["default"].DriverOpts["com.docker.network.driver.mtu"] != "${TTFABRIC_MTU:-9000}" || s.MemLimit != "1g" {
		t.Errorf("image %s, network %+v, memory %s", s.Image, got.Networks, s.MemLimit)
	}
}

func TestComposeRefuses(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, x := range []struct {
		args, want string
		code       int
	}{
		{"compose nope:1", "nope", exitTopology},
		{"compose /none.yaml", "no such file", exitTopology},
		{"compose t3000 --name ../x", "../x", exitUsage},
		{"compose t3000 --mtu 10", "--mtu 10", exitUsage},
		{"compose t3000 --memory lots", `--memory "lots"`, exitUsage},
		{"compose t3000 --slots x", "--slots", exitUsage},
		{"compose t3000 --netem M9D9,loss=1%", "M9D9", exitUsage},
		{"compose t3000 --auth psk", "--secrets with a folder, or --file with the file to write", exitUsage},
		{"compose t3000 --transport quic", "'ttfabric pki make t3000 --name default'", exitUsage},
		{"compose t3000 --transport quic --mtu 1200", "--mtu 1200: QUIC needs an MTU of at least 1280", exitUsage},
		{"compose t3000 --transport quic --auth psk", "QUIC needs certificates", exitUsage},
		{"compose t3000 --secrets x", "--secrets x: this fabric has no keys", exitUsage},
		{"compose t3000 --auth psk --secrets a}b", "cannot contain this name", exitUsage},
		{"compose t3000 --auth psk --secrets /none/x", "/none/x", exitUsage},
		{"compose t3000 --gossip-key nope", "gossip keygen", exitUsage},
		{"compose t3000 --keylog /tmp", "--keylog /tmp: only QUIC", exitUsage},
		{"compose t3000 --transport quic --keylog /none/x", "want an existing folder", exitUsage},
		{"stack t3000 --transport quic --keylog /tmp", "--keylog", exitUsage},
		{"stack t3000 --record /tmp/x", "--record", exitUsage},
		{"compose t3000 -f /none/x.yml", "/none/x.yml", exitFailed},
		{"up t3000 --runtime podman", `--runtime "podman"`, exitUsage},
		{"up t3000 --image x", "--image is an option of containers; add --runtime docker", exitUsage},
		{"up t3000 --runtime docker --gossip-key nope", "--gossip-key", exitUsage},
		{"up t3000 --runtime docker --port-base 17000", "--port-base", exitUsage},
		{"up t3000 --runtime docker", "docker", exitFailed}, // these tests reach no Docker engine
	} {
		if out, errs, code := c.run(strings.Fields(x.args)...); code != x.code || !strings.Contains(errs, x.want) || out != "" {
			t.Errorf("%s: exit code %d: %s%s; want %d and %q", x.args, code, errs, out, x.code, x.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(c.dir, "ttfabric", "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
