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

// Limits for calls of the docker command.
const (
	engineTime  = 30 * time.Second // longest time of one call
	composeTime = 5 * time.Minute  // longest time to bring up, or to remove, all containers
)

// errNoEngine says that there is no docker command.
var errNoEngine = errors.New("the docker command is missing: install Docker Engine (docker.io and docker-compose on Debian), or leave out '--runtime docker'")

// errEngineDown says that the docker command reaches no engine. In this case, no
// container of this machine runs.
var errEngineDown = errors.New("the Docker engine does not run on this machine: 'sudo systemctl start docker' starts it; for an engine elsewhere, set DOCKER_HOST")

// engineAbsent reports whether an error means that there is no engine, and so no container.
func engineAbsent(err error) bool {
	return errors.Is(err, errNoEngine) || errors.Is(err, errEngineDown)
}

// docker runs the docker command and returns its output.
func docker(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	return engine(ctx, nil, "docker", args...)
}

// engine runs docker or compose and returns the command's output. The list "env"
// replaces variables of the environment. Ctrl-C does not reach the command: this
// program receives the signal and ends the command itself.
func engine(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	if err := engineTo(ctx, nil, &out, &errs, env, name, args...); err != nil {
		return nil, err
	}
	if args[0] == "logs" { // docker prints a container's stderr on stderr
		out.Write(errs.Bytes())
	}
	return out.Bytes(), nil
}

// engineTo runs docker or compose, in the same way as the function engine. The reader
// "in" is the command's input, or nil for no input. The command's output goes to out
// and errs.
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
		return fmt.Errorf("'%s %s' took too long and was ended; 'docker info' tells whether the engine works", name, args[0])
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return explain(name, args, errs.String(), err)
}

// advice holds words of the engine's errors, and the advice for the user. If the field
// way is empty, the words mean that no engine answers.
var advice = []struct{ words, way string }{
	{"permission denied", "you may not use the Docker engine: run 'sudo usermod -aG docker $USER' and log in again, or use sudo"},
	{"Cannot connect to the Docker daemon", ""},
	{"PermissionError(13", "you may not use the Docker engine: run 'sudo usermod -aG docker $USER' and log in again, or use sudo"},
	{"Couldn't connect to Docker daemon", ""},
	{"error during connect", ""},
	{"failed to connect to the docker API", ""},
	{"pull access denied", "the image is not there: 'scripts/image' builds it, or name one with --image"},
	{"No such image", "the image is not there: 'scripts/image' builds it, or name one with --image"},
	{"manifest unknown", "the image is not there: 'scripts/image' builds it, or name one with --image"},
	{"lookup registry", "the image is not there: 'scripts/image' builds it, or name one with --image"},
	{"Client.Timeout exceeded", "the image is not there, and no registry answers: 'scripts/image' builds it, or name one with --image"},
	{"non-overlapping IPv4 address pool", "the engine has no addresses left for a network: 'docker network prune' removes unused networks"},
	{"no space left on device", "the engine's disk is full: 'docker system df' shows what fills it"},
}

// explain turns an error text of the engine into an error that tells the user what to
// do.
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

// container is a container with a fabric's label.
type container struct {
	id, name, state, status string
	fabric, project         string
	chip                    wire.FabricNodeID
	api                     string // host:port on this machine; "": not published, for example because the container does not run
}

func (c *container) runs() bool { return c.state == "running" || c.state == "paused" }

// psFormat is the format of a line of 'docker ps', one for each container; see parseContainers.
var psFormat = strings.Join([]string{"{{.ID}}", "{{.Names}}", "{{.State}}", "{{.Status}}", `{{.Label "` + labelFabric + `"}}`, `{{.Label "com.docker.compose.project"}}`,
	`{{.Label "` + labelChip + `"}}`, "{{.Ports}}"}, "\t")

// findContainers lists the chips' containers of a fabric, or of all fabrics if
// fabric is "", including containers that do not run.
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
			continue // a container of another program with the same label
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

// maxCopied is the largest size of a file that this program copies from a container, in
// bytes. Recordings may be larger.
const maxCopied = 64 << 20

// errNotThere says that a container has no such file.
var errNotThere = errors.New("the container has no such file")

// copyOut reads a file or folder of a container. The parameter "from" names the file or
// folder. The container need not run. copyOut calls the function "take" for each file,
// with the names of the file and of its folder. copyOut leaves out files of more than
// "most" bytes. copyOut itself writes no file.
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
		w.CloseWithError(err) // a nil err is the end of the file
		ended <- err
	}()
	err := eachFile(r, most, take)
	r.CloseWithError(err) // also with nil, because nothing more is read
	if err == nil {
		return <-ended
	}
	cancel()
	<-ended
	return err
}

// copyIn unpacks a tar archive into a folder of a container. The container need not
// run.
func copyIn(ctx context.Context, id, folder string, archive []byte) error {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	var errs bytes.Buffer
	return engineTo(ctx, bytes.NewReader(archive), nil, &errs, nil, "docker", "cp", "-", id+":"+folder)
}

// eachFile calls the function "take" for each regular file of a tar archive.
func eachFile(r io.Reader, most int64, take func(folder, name string, r io.Reader) error) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, r) // the padding after the last block
			return err
		}
		if err != nil {
			return fmt.Errorf("docker cp: %w", err)
		}
		// Both names are single names without a slash. Therefore the function "take"
		// cannot write outside its folder.
		if h.Typeflag == tar.TypeReg && h.Size <= most {
			if err := take(path.Base(path.Dir(h.Name)), path.Base(h.Name), tr); err != nil {
				return err
			}
		}
	}
}

// composeCommand returns the compose command of this machine, with its first arguments.
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
	return nil, errors.New("this machine has neither 'docker compose' nor 'docker-compose': install the package docker-compose (Debian), or Docker's compose plugin")
}
