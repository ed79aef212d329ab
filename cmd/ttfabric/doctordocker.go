package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/fabric/spec"
)

// doctorTime bounds a question to another program.
const doctorTime = 10 * time.Second

// say runs the engine's command for a check.
func say(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	b, err := docker(ctx, args...)
	return strings.TrimSpace(string(b)), err
}

// engineVersions are what the engine says of itself.
type engineVersions struct{ client, server string }

func askEngine(ctx context.Context) (v engineVersions, err error) {
	s, err := say(ctx, "version", "--format", "{{.Client.Version}} {{.Server.Version}}")
	v.client, v.server, _ = strings.Cut(s, " ")
	return v, err
}

func lookEngine(_ context.Context, p *request) finding {
	v, err := p.engine()
	switch {
	case errors.Is(err, errNoEngine):
		return bad(p.without(), "install Docker Engine (docker.io on Debian); fabrics of processes need none", "there is no docker command")
	case err != nil:
		way := ""
		if os.Getenv("DOCKER_HOST") != "" {
			way = "DOCKER_HOST is " + os.Getenv("DOCKER_HOST") + ": is that right?"
		}
		return bad(p.without(), way, "%v", err)
	}
	return ok("engine %s, client %s", v.server, v.client)
}

// noEngine is the finding where an engine is asked for that does not answer.
func noEngine(p *request) (finding, bool) {
	if _, err := p.engine(); err != nil {
		return bad(p.without(), "see 'docker engine'", "not known, as no engine answers"), true
	}
	return finding{}, false
}

func lookBuilder(ctx context.Context, p *request) finding {
	if f, none := noEngine(p); none {
		return f
	}
	v, err := say(ctx, "buildx", "version")
	switch {
	case err == nil:
		return ok("BuildKit, by %s; 'scripts/image' needs none", firstLine(v))
	case os.Getenv("DOCKER_BUILDKIT") == "1":
		return bad(p.without(), "unset DOCKER_BUILDKIT, or install buildx", "DOCKER_BUILDKIT=1 asks for BuildKit, and there is no buildx")
	}
	return ok("the classic builder, which is enough for 'scripts/image' and docker/Dockerfile")
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func lookCompose(ctx context.Context, p *request) finding {
	command, err := composeCommand(ctx)
	if err != nil {
		return bad(p.without(), "install docker-compose (Debian), or docker-compose-plugin (Docker's packages)", "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	b, err := engine(ctx, nil, command[0], append(command[1:], "version")...)
	if err != nil {
		return bad(p.without(), "see 'docker engine'", "%s: %v", strings.Join(command, " "), err)
	}
	return ok("%s: %s", strings.Join(command, " "), firstLine(string(b)))
}

func lookImage(ctx context.Context, p *request) finding {
	if f, none := noEngine(p); none {
		return f
	}
	s, err := say(ctx, "image", "inspect", "--format", "{{.Id}} {{.Size}} {{.Architecture}}", p.image)
	if err != nil {
		return bad(p.without(), "'scripts/image' builds it, in the sources; --image names another", "there is no image %s", p.image)
	}
	f := strings.Fields(s)
	if len(f) != 3 {
		return bad(p.without(), "", "image %s: the engine says %q", p.image, s)
	}
	size, _ := strconv.Atoi(f[1])
	return ok("%s: %s, %d MiB, %s", p.image, strings.TrimPrefix(f[0], "sha256:")[:12], size>>20, f[2])
}

// engineNetwork is a part of what 'docker network inspect' says.
type engineNetwork struct {
	Name       string
	Driver     string
	Options    map[string]string
	Containers map[string]any
}

// mtuOption is the option of a network by which the engine sets its MTU.
const mtuOption = "com.docker.network.driver.mtu"

func lookNetworks(ctx context.Context, p *request) finding {
	if f, none := noEngine(p); none {
		return f
	}
	ids, err := say(ctx, "network", "ls", "-q", "--filter", "driver=bridge")
	if err != nil {
		return bad(p.without(), "", "%v", err)
	}
	var nets []engineNetwork
	if ids != "" {
		s, err := say(ctx, append([]string{"network", "inspect"}, strings.Fields(ids)...)...)
		if err == nil {
			err = json.Unmarshal([]byte(s), &nets)
		}
		if err != nil {
			return bad(warns, "", "the engine's networks cannot be read: %v", err) // one may have gone meanwhile
		}
	}
	name, mtu := uplink()
	return judgeNetworks(nets, len(p.t.Chips), p.runtime == spec.Docker, name, mtu)
}

// judgeNetworks weighs the engine's bridges against the interface to other machines, where there is one.
func judgeNetworks(nets []engineNetwork, chips int, wanted bool, uplink string, most int) finding {
	var mtus, wide []string
	for _, n := range nets {
		mtu, err := strconv.Atoi(n.Options[mtuOption])
		if err != nil {
			mtu = defaultMTU
		}
		mtus = append(mtus, n.Name+" "+strconv.Itoa(mtu))
		if most > 0 && mtu > most {
			wide = append(wide, n.Name+" "+strconv.Itoa(mtu))
		}
	}
	switch {
	case chips > maxContainers && wanted:
		return bad(fails, "several machines, by 'ttfabric stack', or '--runtime process'", "%d chips: a bridge takes %d containers", chips, maxContainers)
	case chips > maxContainers:
		return bad(warns, "'--runtime process', or several machines", "%d chips: a bridge takes %d containers", chips, maxContainers)
	case len(wide) > 0:
		return bad(warns, fmt.Sprintf("nothing while all is on this machine; \"mtu\": %d in /etc/docker/daemon.json, and 'up --mtu %d', otherwise", most, most),
			"MTU above the %d of %s, by which other machines are reached: %s", most, uplink, join(wide))
	}
	return ok("a bridge takes %d containers; MTU: %s", maxContainers, join(mtus))
}

func lookWireshark(ctx context.Context, _ *request) finding {
	path, err := exec.LookPath("tshark")
	if err != nil {
		if path, err = exec.LookPath("wireshark"); err != nil {
			return bad(warns, "install wireshark or tshark, 4.0 or later, to look into captures", "neither tshark nor wireshark is here")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	version := wiresharkVersion(string(out))
	if err != nil || version == "" {
		return bad(warns, "", "%s does not say its version: %v", path, err)
	}
	if major, _ := strconv.Atoi(strings.Split(version, ".")[0]); major < 4 {
		return bad(warns, "Wireshark 4.0 or later", "%s %s is too old for the dissector", filepath.Base(path), version)
	}
	const way = "'ttfabric wireshark install' puts the dissector in place"
	if filepath.Base(path) != "tshark" {
		return ok("wireshark %s; whether it has the dissector only tshark would say", version)
	}
	out, err = exec.CommandContext(ctx, path, "-G", "protocols").Output()
	if err != nil {
		return bad(warns, "", "tshark -G protocols: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) > 2 && f[2] == "ttlink" {
			return ok("tshark %s knows TT-link", version)
		}
	}
	return bad(warns, way, "tshark %s does not know TT-link", version)
}

// wiresharkVersion finds the version in "TShark (Wireshark) 4.0.17 (Git …)".
func wiresharkVersion(s string) string {
	for f := range strings.FieldsSeq(firstLine(s)) {
		if f[0] >= '0' && f[0] <= '9' && strings.Contains(f, ".") {
			return strings.TrimRight(f, ".")
		}
	}
	return ""
}
