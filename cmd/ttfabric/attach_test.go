package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ttfabric/node/fabric/container"

	"go.yaml.in/yaml/v3"
)

// lone starts chips of ring:4. Each chip has an IP address of its own, as if each chip
// ran on a machine of its own.
type lone struct {
	c     *cli
	chips map[string]*exec.Cmd
}

func loneHost(i int) string {
	return fmt.Sprintf("127.%d.%d.%d", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff, 100+i)
}

func (l *lone) start(chip, host int) {
	l.c.t.Helper()
	cmd := l.c.command("node", "--chip", fmt.Sprintf("M0D%d", chip), "--topology", "ring:4", "--name", "lab", "--listen", loneHost(host), "--port-base", "17000",
		"--seeds", loneHost(0)+","+loneHost(1), "--api", loneHost(host)+":8474", "--profile", "crowded")
	cmd.Env = append(cmd.Env, "TTFABRIC_TOKEN=0123456789abcdef")
	if err := cmd.Start(); err != nil {
		l.c.t.Fatal(err)
	}
	l.chips[fmt.Sprintf("M0D%d", chip)] = cmd
	l.c.t.Cleanup(func() { l.kill(cmd) })
}

func (l *lone) kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// TestAttach starts chips one by one. Then 'attach' gets the API address of one chip,
// and other commands must reach all chips.
func TestAttach(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	l := &lone{c, map[string]*exec.Cmd{}}
	for i := range 4 {
		l.start(i, i)
	}
	c.env = []string{"TTFABRIC_TOKEN=0123456789abcdef"}
	defer func() { c.env = nil }() // the cleanup of the test runs without this environment
	c.must("attach", "--api", loneHost(2), "--wait", "60s")
	lab := func(args ...string) string {
		t.Helper()
		return c.must(append([]string{"--name", "lab"}, args...)...)
	}
	where := func() map[string]string {
		var v struct {
			Chips []struct{ Chip, Gossip string }
		}
		if err := json.Unmarshal([]byte(lab("inspect", "-o", "json")), &v); err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		for _, x := range v.Chips {
			m[x.Chip] = x.Gossip
		}
		return m
	}
	if at := where(); len(at) != 4 || at["M0D0"] != loneHost(0)+":7946" {
		t.Errorf("chips at %v; want all four", at)
	}
	lab("ping", "--all", "-c", "1")
	lab("traffic", "all-to-all", "--packets", "400")
	lab("mem", "write", "M0D3", "1-1:0x10", "from afar")
	lab("link", "down", "M0D0-M0D1")
	lab("link", "up", "M0D0-M0D1")
	lab("netem", "set", "M0D1-M0D2", "--delay", "1ms")
	if !strings.Contains(lab("netem", "show"), "1ms") {
		t.Error("netem show does not show what netem set has set")
	}
	lab("netem", "reset")
	if out := lab("events", "--follow=false", "-o", "json"); strings.Count(out, "\n") < 10 {
		t.Errorf("events: %s", out)
	}
	for _, verb := range []string{"kill", "pause", "resume", "restart", "remove", "start"} {
		if _, errs, code := c.run("--name", "lab", "chip", verb, "M0D1"); code == exitOK || verb != "start" && !strings.Contains(errs, "other machines") {
			t.Errorf("chip %s: exit code %d: %s", verb, code, errs)
		}
	}
	if _, errs, code := c.run("--name", "lab", "gossip", "keys", "list"); code != exitUsage || !strings.Contains(errs, "gossip show") {
		t.Errorf("gossip keys: exit code %d: %s", code, errs)
	}
	if out := lab("events", "--follow=false", "--type", "fault", "-o", "json"); strings.Contains(out, "killed") || strings.Contains(out, "paused") {
		t.Errorf("the events report faults that did not happen: %s", out)
	}
	// The chip that --api named ends, and starts again at another address. The other chips know the new address.
	l.kill(l.chips["M0D2"])
	l.start(2, 9)
	for end := time.Now().Add(soon); where()["M0D2"] != loneHost(9)+":7946"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("M0D2 is not found at its present address: %v", where())
		}
	}
	for end := time.Now().Add(soon); ; time.Sleep(200 * time.Millisecond) {
		if _, errs, code := c.run("--name", "lab", "ping", "--all", "-c", "1"); code == exitOK {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%s\n%s", errs, lab("inspect", "--links"))
		}
	}
	if !strings.Contains(c.must("ls"), "lab") {
		t.Error("ls does not list the attached fabric")
	}
	if _, errs, code := c.run("--name", "lab", "down"); code != exitOK || !strings.Contains(errs, "continue to run") {
		t.Errorf("down: exit code %d: %s", code, errs)
	}
	c.must("ready", "--live", "--api", loneHost(0)+":8474")
	if _, err := os.Stat(c.dir + "/ttfabric/lab"); err == nil {
		t.Error("down left the run folder")
	}
	c.must("up", "ring:3", "-d", patient, "--name", "lab")
	if _, errs, code := c.run("attach", "--api", loneHost(0)); code != exitUsage || !strings.Contains(errs, "choose another --name") {
		t.Errorf("attach over a fabric of this machine: exit code %d: %s", code, errs)
	}
	c.env = []string{"TTFABRIC_TOKEN=another token"}
	if _, errs, code := c.run("attach", "--api", loneHost(0), "--name", "x"); code != exitFailed || !strings.Contains(errs, loneHost(0)) || !strings.Contains(errs, "token") {
		t.Errorf("attach with another token: exit code %d: %s", code, errs)
	}
}

// TestAttachRefuses compares the errors of 'attach' for arguments that it cannot use.
func TestAttachRefuses(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.env = []string{"TTFABRIC_TOKEN="}
	for _, x := range []struct {
		args string
		code int
		want string
	}{
		{"", exitUsage, "api"},
		{"--api 127.0.0.1:1", exitUsage, "TTFABRIC_TOKEN"},
		{"--api 127.0.0.1:1 --token-file /none", exitUsage, "/none"},
		{"--api :5 --token-file /etc/hostname", exitUsage, `--api ":5"`},
		{"--api a:b:c --token-file /etc/hostname", exitUsage, `--api "a:b:c"`},
		{"--api 127.0.0.1:1 --token-file /proc/version", exitNotReady, "127.0.0.1:1"},
	} {
		if _, errs, code := c.run(append([]string{"attach"}, strings.Fields(x.args)...)...); code != x.code && x.args != "" || !strings.Contains(errs, x.want) {
			t.Errorf("attach %s: exit code %d: %s; want %d and %q", x.args, code, errs, x.code, x.want)
		}
	}
}

// TestStack reads a stack file as a Swarm does, and compares the output of 'stack' with
// the committed stack file.
func TestStack(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	text := c.must("stack", "t3000", "--name", "t3000")
	if b, err := os.ReadFile("../../docker/stack-t3000.yml"); err != nil || string(b) != text {
		t.Errorf("docker/stack-t3000.yml is not what 'ttfabric stack t3000 --name t3000' writes: %v", err)
	}
	type service struct {
		Image       string
		Command     []string
		Environment map[string]string
		Ports       []any
		Read_only   bool
		Cap_drop    []string
		Healthcheck struct{ Test []string }
		Deploy      struct {
			Endpoint_mode string
			Resources     struct {
				Limits struct {
					Memory string
					Pids   int
				}
			}
		}
	}
	var f struct {
		Version  string
		Services map[string]service
		Networks map[string]struct {
			Driver      string
			Driver_opts map[string]string
			Ipam        struct{ Config []struct{ Subnet string } }
		}
	}
	if err := yaml.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Services) != 9 {
		t.Errorf("%d services; want eight chips and a console", len(f.Services))
	}
	for name, s := range f.Services {
		if s.Deploy.Endpoint_mode != "dnsrr" || !s.Read_only || len(s.Cap_drop) != 1 || len(s.Ports) != 0 || s.Deploy.Resources.Limits.Pids == 0 || s.Deploy.Resources.Limits.Memory == "" {
			t.Errorf("%s: %+v", name, s)
		}
		chip := strings.ToUpper(name)
		if name != "console" && (s.Environment["TTFABRIC_NODE_CHIP"] != chip || !strings.Contains(strings.Join(s.Command, " "), "M0D3/tasks.m0d3") ||
			strings.Join(s.Healthcheck.Test, " ") != "CMD /ttfabric ready --live") {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if n := f.Networks["fabric"]; n.Driver != "overlay" || n.Driver_opts["com.docker.network.driver.mtu"] != "1500" || n.Ipam.Config[0].Subnet != container.Subnet {
		t.Errorf("network: %+v", n)
	}
	for _, x := range [][2]string{{"--subnet 10.0.0.0/29", "has room for 4"}, {"--subnet 10.0.0.1/16", "want an IPv4 network"}, {"--subnet x", "want an IPv4 network"},
		{"--archive /tmp", "--archive"}, {"--memory 1k", "--memory"}, {"--mtu 1", "--mtu"}} {
		if _, errs, code := c.run(append([]string{"stack", "t3000"}, strings.Fields(x[0])...)...); code != exitUsage || !strings.Contains(errs, x[1]) {
			t.Errorf("stack %s: exit code %d: %s", x[0], code, errs)
		}
	}
}
