package container

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"

	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

// Times of the engine's command.
const (
	engineTime  = 30 * time.Second // that one call may take
	composeTime = 5 * time.Minute  // that bringing up, or removing, all containers may take
)

// errNoEngine is that there is no docker command.
var errNoEngine = errors.New("the docker command is missing: install Docker Engine (docker.io and docker-compose on Debian), or leave '--runtime docker' out")

// errEngineDown is that the command finds no engine: no container of this machine runs.
var errEngineDown = errors.New("the Docker engine does not run here: 'sudo systemctl start docker' starts it; or set DOCKER_HOST")

// engineAbsent reports whether there is no engine, and so no container.
func engineAbsent(err error) bool {
	return errors.Is(err, errNoEngine) || errors.Is(err, errEngineDown)
}

// docker runs the engine's command and returns what it says.
func docker(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	return engine(ctx, nil, "docker", args...)
}

// engine runs a command of the engine's; env comes over the environment. Ctrl-C
// is for this program, which then ends the command itself.
func engine(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	if err := engineTo(ctx, nil, &out, &errs, env, name, args...); err != nil {
		return nil, err
	}
	if args[0] == "logs" { // a container's stderr comes on stderr
		out.Write(errs.Bytes())
	}
	return out.Bytes(), nil
}

// engineTo is engine with what the command reads, nil for nothing, and somewhere to write what it says.
func engineTo(ctx context.Context, in io.Reader, out io.Writer, errs *bytes.Buffer, env []string, name string, args ...string) error {
	if _, err := exec.LookPath("docker"); err != nil {
		return errNoEngine
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("'%s %s' takes too long; does the engine work? 'docker info' says", name, args[0])
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return explain(name, args, errs.String(), err)
}

// advice is what to do about an error of the engine, by words in it; "" where there is none to talk to.
var advice = []struct{ words, way string }{
	{"permission denied", "you may not use the Docker engine: 'sudo usermod -aG docker $USER' and log in anew, or use sudo"},
	{"Cannot connect to the Docker daemon", ""},
	{"PermissionError(13", "you may not use the Docker engine: 'sudo usermod -aG docker $USER' and log in anew, or use sudo"},
	{"Couldn't connect to Docker daemon", ""},
	{"error during connect", ""},
	{"failed to connect to the docker API", ""},
	{"pull access denied", "the image is not there: 'scripts/image' builds it, or name one with --image"},
	{"No such image", "the image is not there: 'scripts/image' builds it, or name one with --image"},
	{"manifest unknown", "the image is not there: 'scripts/image' builds it, or name one with --image"},
	{"lookup registry", "the image is not there: 'scripts/image' builds it, or name one with --image"},
	{"Client.Timeout exceeded", "the image is not there, and no registry answers: 'scripts/image' builds it, or name one with --image"},
	{"non-overlapping IPv4 address pool", "the engine has no addresses left for a network: 'docker network prune' removes those that nobody uses"},
	{"no space left on device", "the engine's disk is full: 'docker system df' says of what"},
}

// explain turns what the engine said into a sentence with a way out.
func explain(name string, args []string, said string, err error) error {
	for _, a := range advice {
		switch {
		case !strings.Contains(said, a.words):
		case a.way == "":
			return errEngineDown
		default:
			return errors.New(a.way)
		}
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		err = errors.New(last)
	}
	return fmt.Errorf("%s %s: %w", name, args[0], err)
}

// container is one that carries a fabric's label.
type container struct {
	id, name, state, status string
	fabric, project         string
	chip                    wire.FabricNodeID
	api                     string // host:port on this machine; "": not published, as of one that does not run
}

func (c *container) runs() bool { return c.state == "running" || c.state == "paused" }

// psFormat is one line of 'docker ps' for each container; see findContainers.
var psFormat = strings.Join([]string{"{{.ID}}", "{{.Names}}", "{{.State}}", "{{.Status}}", `{{.Label "` + labelFabric + `"}}`, `{{.Label "com.docker.compose.project"}}`,
	`{{.Label "` + labelChip + `"}}`, "{{.Ports}}"}, "\t")

// findContainers lists the chips' containers of a fabric, or of all with "", whether they run or not.
func findContainers(ctx context.Context, fabric string) ([]container, error) {
	label := "label=" + labelFabric
	if fabric != "" {
		label += "=" + fabric
	}
	out, err := docker(ctx, "ps", "-a", "--no-trunc", "--filter", label, "--filter", "label="+labelChip, "--format", psFormat)
	if err != nil {
		return nil, err
	}
	return parseContainers(string(out)), nil
}

func parseContainers(text string) (cs []container) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) < 8 {
			continue
		}
		n, err := wire.ParseFabricNodeID(f[6])
		if err != nil {
			continue // somebody else's, with our label
		}
		c := container{id: f[0], name: f[1], state: strings.ToLower(f[2]), status: f[3], fabric: f[4], project: f[5], chip: n}
		for p := range strings.SplitSeq(f[7], ", ") {
			if host, port, ok := strings.Cut(p, "->"); ok && port == spec.APIPort+"/tcp" {
				c.api = host
				break
			}
		}
		cs = append(cs, c)
	}
	return cs
}

// maxCopied is the largest file that is taken from a container, in bytes, but for recordings.
const maxCopied = 64 << 20

// errNotThere is that a container has no such file.
var errNotThere = errors.New("the container has no such file")

// copyOut reads files of a container, which need not run, as they come: those
// below the path named, each by its name and that of its folder. Those of more
// than most bytes are left out. None is written anywhere.
func copyOut(ctx context.Context, id, from string, most int64, take func(folder, name string, r io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		var errs bytes.Buffer
		err := engineTo(ctx, nil, w, &errs, nil, "docker", "cp", id+":"+from, "-")
		if said := errs.String(); err != nil && (strings.Contains(said, "Could not find the file") || strings.Contains(said, "No such container:path")) {
			err = errNotThere
		}
		w.CloseWithError(err) // nil: the end of the file
		ended <- err
	}()
	err := eachFile(r, most, take)
	r.CloseWithError(err) // nil: nobody reads on
	if err == nil {
		return <-ended
	}
	cancel()
	<-ended
	return err
}

// copyIn puts files of a tar archive into a folder of a container, which need not run.
func copyIn(ctx context.Context, id, folder string, archive []byte) error {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	var errs bytes.Buffer
	return engineTo(ctx, bytes.NewReader(archive), nil, &errs, nil, "docker", "cp", "-", id+":"+folder)
}

// eachFile gives the regular files of a tar archive to take.
func eachFile(r io.Reader, most int64, take func(folder, name string, r io.Reader) error) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, r) // what fills the last block
			return err
		}
		if err != nil {
			return fmt.Errorf("docker cp: %w", err)
		}
		// Neither of the two is a path, so that none outside is written to.
		if h.Typeflag == tar.TypeReg && h.Size <= most {
			if err := take(path.Base(path.Dir(h.Name)), path.Base(h.Name), tr); err != nil {
				return err
			}
		}
	}
}

// composeCommand is the compose that this machine has, as a command and its first arguments.
func composeCommand(ctx context.Context) ([]string, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, errNoEngine
	}
	if _, err := docker(ctx, "compose", "version"); err == nil {
		return []string{"docker", "compose"}, nil
	}
	if _, err := exec.LookPath("docker-compose"); err == nil {
		return []string{"docker-compose"}, nil
	}
	return nil, errors.New("neither 'docker compose' nor 'docker-compose' is here: install docker-compose, Debian's name, or Docker's compose plugin")
}
