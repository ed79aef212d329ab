package doctor

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// TestExamine makes all checks of this machine. One UDP port is in use, and there are
// neither docker nor Wireshark.
func TestExamine(t *testing.T) {
	held, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	port := held.LocalAddr().(*net.UDPAddr).Port
	machine, err := topo.Named("mesh:1x2")
	if err != nil {
		t.Fatal(err)
	}
	first := machine.Ports(machine.Chips[0].Node)[0].Local.Channel
	t.Setenv("PATH", t.TempDir()) // a PATH without docker and Wireshark
	r := &Request{Topology: machine, PortBase: port - int(first), Runtime: spec.Docker, Image: "ttfabric"}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	found := Examine(t.Context(), r)
	b, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	var read []Finding
	if err := json.Unmarshal(b, &read); err != nil || !slices.Equal(read, found) {
		t.Errorf("%v: %s is read as %+v", err, b, read)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Check)
		if f.Found == "" {
			t.Errorf("%s says nothing", f.Check)
		}
		if x, ok := map[string]Finding{
			"ports":         {"", Failure, fmt.Sprintf("UDP port %d cannot be opened", port), "ss -ulpn"},
			"loopback":      {"", Fine, "127.0.0.1", ""},
			"docker engine": {"", Failure, "no docker command", "docker.io"},
			"image":         {"", Failure, "no engine answers", "docker engine"},
			"compose":       {"", Failure, "docker command is missing", "docker-compose"},
			"wireshark":     {"", Warning, "neither tshark nor wireshark", "install"},
		}[f.Check]; ok && (f.Verdict != x.Verdict || !strings.Contains(f.Found, x.Found) || !strings.Contains(f.WayOut, x.WayOut)) {
			t.Errorf("%+v; want %+v", f, x)
		}
	}
	if !slices.Equal(names, Checks()) {
		t.Errorf("findings of %v; the checks are %v", names, Checks())
	}
}

func TestRefusedRequests(t *testing.T) {
	for want, r := range map[string]Request{"podman": {Runtime: "podman"}, "70000": {Runtime: spec.Process, PortBase: 70000}, "-1": {Runtime: spec.Docker, PortBase: -1}} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestJudge checks the verdicts for figures that a test machine may not have.
func TestJudge(t *testing.T) {
	bridge := func(mtu string) []container.Network {
		return []container.Network{{Name: "bridge", Options: map[string]string{"com.docker.network.driver.mtu": mtu}}}
	}
	for _, x := range []struct {
		name string
		got  Finding
		want Verdict
	}{
		{"memory for all", judgeMemory(1<<30, 8), Fine},
		{"memory for idle chips only", judgeMemory(100<<20, 8), Warning},
		{"no memory", judgeMemory(79<<20, 8), Failure},
		{"disk", judgeDisk(1<<30, 1000, true, 8, "/d"), Fine},
		{"full disk", judgeDisk(1<<20, 1000, true, 8, "/d"), Failure},
		{"no inodes", judgeDisk(1<<30, 10, true, 8, "/d"), Failure},
		{"a file system without inodes", judgeDisk(1<<30, 0, false, 8, "/d"), Fine},
		{"threads", judgeThreads(96, 100, 1000, false, -1), Fine},
		{"few threads", judgeThreads(96, 100, 150, false, -1), Failure},
		{"few threads, root", judgeThreads(96, 100, 150, true, -1), Fine},
		{"no limit", judgeThreads(96, 100, math.MaxUint64, false, -1), Fine},
		{"few threads in the control group", judgeThreads(96, 100, math.MaxUint64, true, 95), Failure},
		{"a core for each chip", judgeCores(2, 2), Fine},
		{"crowded", judgeCores(64, 2), Fine},
		{"too crowded", judgeCores(65, 2), Warning},
		{"a bridge with the MTU of the uplink", judgeNetworks(bridge("1400"), 8, true, "eth0", 1400), Fine},
		{"a bridge with a larger MTU than the uplink", judgeNetworks(bridge(""), 8, true, "eth0", 1400), Warning},
		{"no uplink", judgeNetworks(bridge(""), 8, true, "", 0), Fine},
		{"too many containers", judgeNetworks(nil, container.MaxContainers+1, true, "", 0), Failure},
		{"too many for containers, but processes are wanted", judgeNetworks(nil, container.MaxContainers+1, false, "", 0), Warning},
	} {
		if x.got.Verdict != x.want || x.want != Fine && x.got.WayOut == "" {
			t.Errorf("%s: %+v; want %s", x.name, x.got, x.want)
		}
	}
}

// TestPidsLeft reads files of both versions of control groups. The result must be the
// smallest number that the group or a group above has left.
func TestPidsLeft(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("v2", "0::/a/b\n")
	write("v1", "9:name=systemd:/\n8:pids:/c\n7:cpu,cpuacct:/\n")
	write("none", "0::/\n")
	write("root/a/pids.max", "100\n")
	write("root/a/pids.current", "40\n")
	write("root/a/b/pids.max", "max\n")
	write("root/a/b/pids.current", "30\n")
	write("root/pids/c/pids.max", "20\n")
	write("root/pids/c/pids.current", "30\n")
	for self, want := range map[string]int{"v2": 60, "v1": 0, "none": -1, "missing": -1} {
		if got := pidsLeft(filepath.Join(dir, self), filepath.Join(dir, "root")); got != want {
			t.Errorf("%s: %d left, want %d", self, got, want)
		}
	}
}
