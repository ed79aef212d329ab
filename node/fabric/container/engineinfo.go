package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxContainers is the largest number of chips of a fabric of containers on one machine. Each chip
// is a container and needs a port of a Linux bridge. A Linux bridge has 1,023 ports.
const MaxContainers = maxContainers

// mtuOption is the name of the option that sets the MTU of an engine's network.
const mtuOption = "com.docker.network.driver.mtu"

// engineMTU is the MTU in bytes of a network without [mtuOption], which is the MTU of ethernet.
const engineMTU = 1500

// NoCommand reports whether err says that this machine has no docker command.
func NoCommand(err error) bool { return errors.Is(err, errNoEngine) }

// Versions are the versions that the docker command and its engine report.
type Versions struct{ Client, Server string }

// EngineVersions asks the engine for its version. If no engine answers, the error tells the
// user what to do. [NoCommand] recognizes the error of a machine without a docker command.
func EngineVersions(ctx context.Context) (v Versions, err error) {
	s, err := ask(ctx, "version", "--format", "{{.Client.Version}} {{.Server.Version}}")
	v.Client, v.Server, _ = strings.Cut(s, " ")
	return v, err
}

// BuildxVersion returns the first line of the version that buildx prints. The program
// buildx is the docker command's plugin that builds images with BuildKit. BuildxVersion
// returns an error if there is no buildx.
func BuildxVersion(ctx context.Context) (string, error) {
	s, err := ask(ctx, "buildx", "version")
	return firstLine(s), err
}

// ComposeCommand returns the compose command of this machine with its first arguments, such as
// "docker compose" or "docker-compose", one word in each element.
// ComposeCommand returns an error if this machine has no compose.
func ComposeCommand(ctx context.Context) ([]string, error) { return composeCommand(ctx) }

// ComposeVersion returns the first line of the version that a [ComposeCommand] prints.
func ComposeVersion(ctx context.Context, command []string) (string, error) {
	b, err := engine(ctx, nil, command[0], append(command[1:len(command):len(command)], "version")...)
	return firstLine(string(b)), err
}

// Image is a container image that the engine has.
type Image struct {
	ID           string // id of the image, in hexadecimal digits
	Bytes        int    // size of the image
	Architecture string // processor architecture of the image's programs, such as amd64
}

// FindImage returns the image with the given name. The result "missing" is true if the engine
// has no such image, or does not answer. The result err is not nil if FindImage cannot read
// the engine's answer.
func FindImage(ctx context.Context, name string) (i Image, missing bool, err error) {
	s, err := ask(ctx, "image", "inspect", "--format", "{{.Id}} {{.Size}} {{.Architecture}}", name)
	if err != nil {
		return i, true, nil
	}
	f := strings.Fields(s)
	if len(f) != 3 {
		return i, false, fmt.Errorf("the engine answers %q; want an id, a size and an architecture", s)
	}
	i.ID, i.Architecture = strings.TrimPrefix(f[0], "sha256:"), f[2]
	i.Bytes, err = strconv.Atoi(f[1])
	return i, false, err
}

// Network is a network of the engine.
type Network struct {
	Name    string            // name of the network
	Options map[string]string // options of the network's driver, such as [mtuOption]
}

// MTU returns the network's MTU in bytes.
func (n *Network) MTU() int {
	if mtu, err := strconv.Atoi(n.Options[mtuOption]); err == nil {
		return mtu
	}
	return engineMTU
}

// BridgeIDs returns the ids of the engine's networks that are Linux bridges.
func BridgeIDs(ctx context.Context) ([]string, error) {
	s, err := ask(ctx, "network", "ls", "-q", "--filter", "driver=bridge")
	return strings.Fields(s), err
}

// Networks returns the networks with the given ids. Networks returns an error if one of the
// networks does not exist any more.
func Networks(ctx context.Context, ids []string) (nets []Network, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	s, err := ask(ctx, append([]string{"network", "inspect"}, ids...)...)
	if err == nil {
		err = json.Unmarshal([]byte(s), &nets)
	}
	return nets, err
}

// ask runs the docker command and returns the command's output, without leading and
// trailing white space.
func ask(ctx context.Context, args ...string) (string, error) {
	b, err := docker(ctx, args...)
	return strings.TrimSpace(string(b)), err
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
