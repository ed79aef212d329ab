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

// errEngineDown says that the docker command reaches no engine.
var errEngineDown = errors.New("the Docker engine does not run on this machine: 'sudo systemctl start docker' starts it; for an engine elsewhere, set DOCKER_HOST")

// engineAbsent reports whether err says that this machine has no running engine. Without an
// engine, no containers run.
func engineAbsent(err error) bool {
	return errors.Is(err, errNoEngine) || errors.Is(err, errEngineDown)
}

// docker runs the docker command with the given arguments, for at most engineTime, and
// returns the command's output.
func docker(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	return engine(ctx, nil, "docker", args...)
}

// engine runs docker or compose and returns the command's output. The variables in env
// replace variables of the environment. Ctrl-C interrupts only this program, which then
// ends ctx and thereby interrupts the command.
func engine(ctx context.Context, env []string, name string, args ...string) ([]byte, error) {
	var out, errs bytes.Buffer
	if err := engineTo(ctx, nil, &out, &errs, env, name, args...); err != nil {
		return nil, err
	}
	if args[0] == "logs" { // 'docker logs' prints the container's stderr on its own stderr
		out.Write(errs.Bytes())
	}
	return out.Bytes(), nil
}

// engineTo runs docker or compose as the function "engine" does. The command reads from in, which
// may be nil. The command's standard output goes to out, and its error messages go to errs.
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
		return fmt.Errorf("'%s %s' took too long and was interrupted; 'docker info' shows whether the engine works", name, args[0])
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return explain(name, args, errs.String(), err)
}

// advice lists texts in error messages of the engine, each with an error that says what the user can
// do.
var advice = []struct {
	words string
	err   error
}{
	{"permission denied", errors.New("you may not use the Docker engine: run 'sudo usermod -aG docker $USER' and log in again, or use sudo")},
	{"Cannot connect to the Docker daemon", errEngineDown},
	{"PermissionError(13", errors.New("you may not use the Docker engine: run 'sudo usermod -aG docker $USER' and log in again, or use sudo")},
	{"Couldn't connect to Docker daemon", errEngineDown},
	{"error during connect", errEngineDown},
	{"failed to connect to the docker API", errEngineDown},
	{"pull access denied", errors.New("the engine does not have the image: 'scripts/image' builds the image, or name another image with --image")},
	{"No such image", errors.New("the engine does not have the image: 'scripts/image' builds the image, or name another image with --image")},
	{"manifest unknown", errors.New("the engine does not have the image: 'scripts/image' builds the image, or name another image with --image")},
	{"lookup registry", errors.New("the engine does not have the image: 'scripts/image' builds the image, or name another image with --image")},
	{"Client.Timeout exceeded", errors.New("the engine does not have the image, and no registry answers: 'scripts/image' builds the image, or name another image with --image")},
	{"non-overlapping IPv4 address pool", errors.New("the engine has no addresses left for a network: 'docker network prune' removes unused networks")},
	{"has active endpoints", errEndpoints},
	{"no space left on device", errors.New("the engine's disk is full: 'docker system df' shows the use of the disk")},
}

// errEndpoints is the error if the engine refuses to remove a network. The network's containers
// have gone, but the engine still counts them.
var errEndpoints = errors.New("the engine still counts endpoints of a network without containers: run the command again in a minute, or restart the engine")

// explain returns an error that tells the user what to do. The parameter "said" has the engine's
// error messages. If the list "advice" has no entry for the messages, the error has the last line
// of said. If "said" is empty, the error wraps err.
func explain(name string, args []string, said string, err error) error {
	for _, a := range advice {
		if strings.Contains(said, a.words) {
			return a.err
		}
	}
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if n := len(lines); n > 1 && strings.HasPrefix(lines[n-1], "exit status ") { // the docker command ends its messages with its own exit code
		lines = lines[:n-1]
	}
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		err = errors.New(last)
	}
	return fmt.Errorf("%s %s: %w", name, args[0], err)
}

// container is a container that has the label of a fabric.
type container struct {
	id, name, state, status string
	fabric, project         string
	chip                    wire.FabricNodeID
	api                     string // host:port of the chip's API on this machine; "": no port is published, for example because the container does not run
}

func (c *container) runs() bool { return c.state == "running" || c.state == "paused" }

// psFormat is the format of each line that 'docker ps' prints for parseContainers.
var psFormat = strings.Join([]string{"{{.ID}}", "{{.Names}}", "{{.State}}", "{{.Status}}", `{{.Label "` + labelFabric + `"}}`, `{{.Label "com.docker.compose.project"}}`,
	`{{.Label "` + labelChip + `"}}`, "{{.Ports}}"}, "\t")

// findContainers returns the containers of a fabric's chips, including containers that do
// not run. If fabric is "", findContainers returns the containers of all fabrics.
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
			continue // another program made this container and uses the same label
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

// maxCopied is the largest size in bytes of a file that this program copies from a
// container. Recordings have a higher limit.
const maxCopied = 64 << 20

// errNotThere says that a container has no such file.
var errNotThere = errors.New("the container has no such file")

// copyOut reads a file of a container, or all files in a folder of a container. The parameter
// "from" is the path of the file or folder. The container need not run. For each file, copyOut
// calls the function "take" with the names of the folder and of the file, and the content. copyOut
// leaves out files with more bytes than the parameter most. copyOut itself writes no file.
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
		w.CloseWithError(err) // if err is nil, the reader gets io.EOF
		ended <- err
	}()
	err := eachFile(r, most, take)
	r.CloseWithError(err) // makes further writes of the command fail
	if err == nil {
		return <-ended
	}
	cancel()
	<-ended
	return err
}

// copyIn unpacks a tar archive in a folder of a container. The container need not run.
func copyIn(ctx context.Context, id, folder string, archive []byte) error {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	var errs bytes.Buffer
	return engineTo(ctx, bytes.NewReader(archive), nil, &errs, nil, "docker", "cp", "-", id+":"+folder)
}

// eachFile calls the function "take" for each regular file of a tar archive. eachFile leaves
// out files with more bytes than the parameter most.
func eachFile(r io.Reader, most int64, take func(folder, name string, r io.Reader) error) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, r) // reads the padding after the archive's last block
			return err
		}
		if err != nil {
			return fmt.Errorf("docker cp: %w", err)
		}
		// Neither the folder's nor the file's name has a slash. With these names, a caller
		// therefore cannot write a file outside the caller's folder.
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
