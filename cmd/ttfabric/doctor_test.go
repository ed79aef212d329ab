package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ttfabric/node/doctor"
)

// examined runs 'doctor', and returns its findings by the name of the check, and its exit
// code.
func examined(t *testing.T, cmd *exec.Cmd) (map[string]doctor.Finding, int) {
	t.Helper()
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		t.Skipf("the doctor cannot be run like that here: %v", err)
	}
	var list []doctor.Finding
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatalf("%v: %s %s", err, out, errs.String())
	}
	m := map[string]doctor.Finding{}
	for _, x := range list {
		m[x.Check] = x
	}
	if len(m) != len(doctor.Checks()) {
		t.Errorf("%d findings of %d checks", len(m), len(doctor.Checks()))
	}
	return m, cmd.ProcessState.ExitCode()
}

// TestDoctorProvoked runs 'doctor' on a machine with one problem at a time. 'doctor' must
// find the problem, and say what to do about it.
func TestDoctorProvoked(t *testing.T) {
	c := newCLI(t)
	held, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	port := held.LocalAddr().(*net.UDPAddr).Port
	file := filepath.Join(c.dir, "file")
	fake := filepath.Join(c.dir, "bin") // folder with a docker command that has no right to use the engine
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
		verdict                doctor.Verdict
		found, way             string
	}{
		{"occupied port", fmt.Sprintf("--port-base %d", port-1), "PATH=" + c.dir, "", "ports", doctor.Failure, fmt.Sprintf("UDP port %d", port), "ss -ulpn"},
		{"ports beyond the last", "--port-base 65530", "PATH=" + c.dir, "", "ports", doctor.Failure, "65535", "at most 65408"},
		{"no docker", "", "PATH=" + c.dir, "", "docker engine", doctor.Warning, "no docker command", "docker.io"},
		{"no docker where it is wanted", "--runtime docker", "PATH=" + c.dir, "", "docker engine", doctor.Failure, "no docker command", "docker.io"},
		{"no compose", "--runtime docker", "PATH=" + c.dir, "", "compose", doctor.Failure, "docker command is missing", "docker-compose"},
		{"no right to use docker", "", "PATH=" + fake + ":" + os.Getenv("PATH"), "", "docker engine", doctor.Warning, "usermod -aG docker", ""},
		{"an engine that is not there", "", "DOCKER_HOST=unix:///nowhere.sock", "", "docker engine", doctor.Warning, "", ""},
		{"no tshark", "", "PATH=" + c.dir, "", "wireshark", doctor.Warning, "neither tshark nor wireshark", "install"},
		{"few open files", "", "PATH=" + c.dir, "ulimit -n 16", "open files", doctor.Failure, "may have 16 open files", "ulimit -n 160"},
		{"a run folder that is a file", "", "XDG_RUNTIME_DIR=" + file, "", "run folder", doctor.Failure, "is not a folder", "XDG_RUNTIME_DIR"},
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
			if f.Verdict != x.verdict || !strings.Contains(f.Found, x.found) || !strings.Contains(f.WayOut, x.way) {
				t.Errorf("%+v; want %s, %q and %q", f, x.verdict, x.found, x.way)
			}
			if want := exitOK; x.verdict == doctor.Failure {
				want = exitFailed
				if code != want {
					t.Errorf("exit code %d, want %d", code, want)
				}
			}
		})
	}
}

// TestDoctorWithoutLoopback runs 'doctor' in a network namespace in which the loopback
// interface is down.
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
	if f := found["loopback"]; f.Verdict != doctor.Failure || !strings.Contains(f.WayOut, "ip link set lo up") || code != exitFailed {
		t.Errorf("%+v, exit code %d", f, code)
	}
}

// TestDoctorHere runs 'doctor' on this machine. Every check must give a finding, and the
// exit code must say whether a check failed.
func TestDoctorHere(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	found, code := examined(t, c.command("doctor", "mesh:1x2", "-o", "json"))
	failed := 0
	for name, f := range found {
		if f.Found == "" {
			t.Errorf("%s says nothing", name)
		}
		if f.Verdict == doctor.Failure {
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
