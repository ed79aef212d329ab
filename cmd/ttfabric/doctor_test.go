package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// examined runs the doctor and returns what it found, by check.
func examined(t *testing.T, cmd *exec.Cmd) (map[string]finding, int) {
	t.Helper()
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Skipf("the doctor cannot be run like that here: %v", err)
	}
	var list []struct{ Check, Verdict, Found, Way_out string }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v: %s %s", err, out, errs.String())
	}
	m := map[string]finding{}
	for _, x := range list {
		v := fine
		for v.String() != x.Verdict {
			v++
		}
		m[x.Check] = finding{x.Check, v, x.Found, x.Way_out}
	}
	if len(m) != len(checks) {
		t.Errorf("%d findings of %d checks", len(m), len(checks))
	}
	return m, cmd.ProcessState.ExitCode()
}

// TestDoctorProvoked breaks one thing after the other, and wants the doctor to find that and say the way out.
func TestDoctorProvoked(t *testing.T) {
	c := newCLI(t)
	held, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	port := held.LocalAddr().(*net.UDPAddr).Port
	file := filepath.Join(c.dir, "file")
	fake := filepath.Join(c.dir, "bin") // an engine that may not be used
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(fake, 0o700); err != nil {
		t.Fatal(err)
	}
	denied := "#!/bin/sh\necho 'permission denied while trying to connect to the Docker daemon socket' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(fake, "docker"), []byte(denied), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name, args, env, limit string
		check                  string
		verdict                verdict
		found, way             string
	}{
		{"occupied port", fmt.Sprintf("--port-base %d", port-1), "PATH=" + c.dir, "", "ports", fails, fmt.Sprintf("UDP port %d", port), "ss -ulpn"},
		{"ports beyond the last", "--port-base 65530", "PATH=" + c.dir, "", "ports", fails, "65535", "65408 at most"},
		{"no docker", "", "PATH=" + c.dir, "", "docker engine", warns, "no docker command", "docker.io"},
		{"no docker where it is wanted", "--runtime docker", "PATH=" + c.dir, "", "docker engine", fails, "no docker command", "docker.io"},
		{"no compose", "--runtime docker", "PATH=" + c.dir, "", "compose", fails, "docker command is missing", "docker-compose"},
		{"no right to use docker", "", "PATH=" + fake + ":" + os.Getenv("PATH"), "", "docker engine", warns, "usermod -aG docker", ""},
		{"an engine that is not there", "", "DOCKER_HOST=unix:///nowhere.sock", "", "docker engine", warns, "", ""},
		{"no tshark", "", "PATH=" + c.dir, "", "wireshark", warns, "neither tshark nor wireshark", "install"},
		{"few open files", "", "PATH=" + c.dir, "ulimit -n 16", "open files", fails, "16 may be open", "ulimit -n 160"},
		{"a run folder that is a file", "", "XDG_RUNTIME_DIR=" + file, "", "run folder", fails, "is not a folder", "XDG_RUNTIME_DIR"},
	} {
		t.Run(x.name, func(t *testing.T) {
			cmd := c.command(append([]string{"doctor", "-o", "json"}, strings.Fields(x.args)...)...)
			if x.limit != "" {
				cmd.Args = append([]string{"sh", "-c", x.limit + ` && exec "$0" "$@"`}, cmd.Args...)
				cmd.Path = "/bin/sh"
			}
			cmd.Env = append(cmd.Env, x.env)
			found, code := examined(t, cmd)
			f := found[x.check]
			if f.Verdict != x.verdict || !strings.Contains(f.Found, x.found) || !strings.Contains(f.Way, x.way) {
				t.Errorf("%+v; want %s, %q and %q", f, x.verdict, x.found, x.way)
			}
			if want := exitOK; x.verdict == fails {
				want = exitFailed
				if code != want {
					t.Errorf("exit code %d, want %d", code, want)
				}
			}
		})
	}
}

// TestDoctorWithoutLoopback runs it in a network namespace whose loopback is down.
func TestDoctorWithoutLoopback(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	cmd := c.command("doctor", "-o", "json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}}
	}
	found, code := examined(t, cmd)
	if f := found["loopback"]; f.Verdict != fails || !strings.Contains(f.Way, "ip link set lo up") || code != exitFailed {
		t.Errorf("%+v, exit code %d", f, code)
	}
}

// TestDoctorHere is what it says of this machine: every check has words, and a warning or failure has a way out.
func TestDoctorHere(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	found, code := examined(t, c.command("doctor", "mesh:1x2", "-o", "json"))
	failed := 0
	for name, f := range found {
		if f.Found == "" {
			t.Errorf("%s says nothing", name)
		}
		if f.Verdict == fails {
			failed++
			t.Logf("%+v", f)
		}
	}
	if (code == exitOK) != (failed == 0) {
		t.Errorf("exit code %d with %d failures", code, failed)
	}
	for _, x := range [][2]string{{"--runtime podman", "podman"}, {"--port-base 70000", "70000"}, {"mesh:0x1", "mesh:0x1"}} {
		if _, errs, code := c.run(append([]string{"doctor"}, strings.Fields(x[0])...)...); code != exitUsage && code != exitTopology || !strings.Contains(errs, x[1]) {
			t.Errorf("doctor %s: exit code %d, %s", x[0], code, errs)
		}
	}
}

// TestDoctorJudges is what is made of figures that no test can bring about.
func TestDoctorJudges(t *testing.T) {
	bridge := func(mtu string) []engineNetwork {
		return []engineNetwork{{Name: "bridge", Options: map[string]string{mtuOption: mtu}}}
	}
	for _, x := range []struct {
		name string
		got  finding
		want verdict
	}{
		{"memory for all", judgeMemory(1<<30, 8), fine},
		{"memory for idle ones", judgeMemory(100<<20, 8), warns},
		{"no memory", judgeMemory(79<<20, 8), fails},
		{"disk", judgeDisk(1<<30, 1000, true, 8, "/d"), fine},
		{"full disk", judgeDisk(1<<20, 1000, true, 8, "/d"), fails},
		{"no inodes", judgeDisk(1<<30, 10, true, 8, "/d"), fails},
		{"a file system without inodes", judgeDisk(1<<30, 0, false, 8, "/d"), fine},
		{"threads", judgeThreads(96, 100, 1000, false, -1), fine},
		{"few threads", judgeThreads(96, 100, 150, false, -1), fails},
		{"few threads, root", judgeThreads(96, 100, 150, true, -1), fine},
		{"no limit", judgeThreads(96, 100, math.MaxUint64, false, -1), fine},
		{"few in the control group", judgeThreads(96, 100, math.MaxUint64, true, 95), fails},
		{"a core each", judgeCores(2, 2), fine},
		{"crowded", judgeCores(64, 2), fine},
		{"too crowded", judgeCores(65, 2), warns},
		{"a bridge as wide as the way out", judgeNetworks(bridge("1400"), 8, true, "eth0", 1400), fine},
		{"a bridge wider than the way out", judgeNetworks(bridge(""), 8, true, "eth0", 1400), warns},
		{"no way out", judgeNetworks(bridge(""), 8, true, "", 0), fine},
		{"too many containers", judgeNetworks(nil, maxContainers+1, true, "", 0), fails},
		{"too many for containers", judgeNetworks(nil, maxContainers+1, false, "", 0), warns},
	} {
		if x.got.Verdict != x.want || x.want != fine && x.got.Way == "" {
			t.Errorf("%s: %+v; want %s", x.name, x.got, x.want)
		}
	}
	for in, want := range map[string]string{"TShark (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u1).\n\nCopyright": "4.0.17", "Wireshark 3.6.2.": "3.6.2", "": "", "none": ""} {
		if got := wiresharkVersion(in); got != want {
			t.Errorf("version of %q is %q, want %q", in, got, want)
		}
	}
}

// TestPidsLeft reads both versions of control groups, and takes the least of a group and those above it.
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
