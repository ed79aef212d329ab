// Package container runs the chips of a fabric as containers. The package also writes
// compose files, and stack files for Docker Swarm. The package controls the container
// engine through the docker command.
package container

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// Host runs the chips of a fabric as containers. A Host finds the containers by their
// labels, and therefore also finds containers that the user started with compose. A Host
// uses these files of the run folder:
//
//	compose.yml   the compose file of 'up --runtime docker'
//	engine.json   ids of the fabric's containers at the last look; if none of these containers exists, the folder is obsolete
//	sockets/      the chips' Unix sockets for local programs, if this program wrote the compose file
//	archive/      a copy of the archive in the containers' volume, see [Host.Archive]
type Host struct {
	Dir     folder.Dir
	Spec    spec.Spec
	Discard bool   // whether Remove deletes recordings and logged secrets without a copy
	Strange string // folder for recordings whose folder on this machine is not known any more; "": Remove fails if there are such recordings
}

// Names of files in the run folder, and an address of a chip's API.
const (
	ComposeName = "compose.yml"
	SocketsName = "sockets"
	engineName  = "engine.json"
	unpublished = "127.0.0.1:0" // address of the API of a container without a published port; nobody answers at this address
)

// list returns the fabric's containers. list returns no containers if the engine does not answer.
func (h Host) list() []container {
	all, _ := findContainers(context.Background(), h.Dir.Name())
	return slices.DeleteFunc(all, func(c container) bool { return c.project != h.Spec.Project })
}

// byChip returns the fabric's containers, by chip.
func (h Host) byChip() map[wire.FabricNodeID]container {
	out := map[wire.FabricNodeID]container{}
	for _, c := range h.list() {
		out[c.chip] = c
	}
	return out
}

// Chips returns the running and the paused chips of the fabric, sorted by mesh and number.
func (h Host) Chips() (out []folder.Chip) {
	sockets := folder.Dir(h.Dir.Path(SocketsName))
	_, err := os.Stat(string(sockets))
	for _, c := range h.list() {
		if c.runs() {
			f := folder.Chip{Chip: c.chip, API: cmp.Or(c.api, unpublished), Container: c.id, Name: c.name}
			if err == nil {
				f.Socket = sockets.ChipPath(c.chip, ".sock")
			}
			out = append(out, f)
		}
	}
	folder.SortChips(out)
	return out
}

// MakeSockets makes the folder of the chips' Unix sockets in a run folder. The program in a container
// has another user than the run folder, so everybody may write into the folder. The mode of the run
// folder keeps other users of this machine out.
func MakeSockets(d folder.Dir) error {
	path := d.Path(SocketsName)
	err := os.Mkdir(path, 0o700)
	if err == nil {
		err = os.Chmod(path, 0o777|os.ModeSticky)
	}
	if err != nil {
		return fmt.Errorf("cannot make the folder for the chips' sockets: %w", err)
	}
	return nil
}

// note writes the ids of the fabric's containers into the file engine.json of the run folder.
func note(d folder.Dir, ids []string) error {
	slices.Sort(ids)
	b, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return folder.WriteFile(d.Path(engineName), b)
}

// Launch starts the containers of the chips ns, which do not run. Launch makes missing containers
// with compose. If rec.Record is not "", the chips make a recording of this start. Until the run
// folder is removed, Launch sends a value to exits for each container of the fabric that ends.
func (h Host) Launch(ctx context.Context, ns []wire.FabricNodeID, rec spec.Records, exits chan<- folder.Exit) (err error) {
	there := h.byChip()
	if err := h.certify(ctx, ns, there); err != nil {
		return err
	}
	if rec.Record != "" {
		if err := h.recordOnce(ctx, ns, there, rec); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				h.forgetOnce(ns, there)
			}
		}()
	}
	start, build := []string{"start"}, []string{}
	for _, n := range ns {
		if c, ok := there[n]; ok {
			start = append(start, c.id)
		} else {
			build = append(build, ServiceName(n))
		}
	}
	if len(start) > 1 {
		ctx, cancel := context.WithTimeout(ctx, composeTime)
		defer cancel()
		if _, err := engine(ctx, nil, "docker", start...); err != nil {
			return err
		}
	}
	if len(build) > 0 {
		if err := h.compose(ctx, build); err != nil {
			return err
		}
	}
	if err := h.token(ctx); err != nil {
		return err
	}
	go h.watch(ns, exits)
	return nil
}

// compose makes and starts the containers of the given services with the compose command.
// The command also makes the network and the volume, if the engine does not have these yet.
func (h Host) compose(ctx context.Context, services []string) error {
	file := h.Dir.Path(ComposeName)
	cmd, err := composeCommand(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("there is no container for %s; '%s -p %s -f FILE up -d' makes the container, with the compose file that made the other containers", strings.Join(services, ", "), strings.Join(cmd, " "), h.Spec.Project)
	}
	ctx, cancel := context.WithTimeout(ctx, composeTime)
	defer cancel()
	args := slices.Concat(cmd[1:], []string{"-p", h.Spec.Project, "-f", file, "up", "-d", "--no-recreate"}, services)
	// The compose file of 'up' contains the values of the flags of 'up'. Variables in the user's
	// environment are meant for compose files of the user, and must not replace these values.
	_, err = engine(ctx, []string{"TTFABRIC_NAME=" + h.Dir.Name(), "TTFABRIC_IMAGE=", "TTFABRIC_MTU=", "COMPOSE_HTTP_TIMEOUT=300"}, cmd[0], args...)
	if ctx.Err() != nil {
		h.settle()
	}
	return err
}

// Times of waiting for containers that come up.
const (
	pollInterval = 50 * time.Millisecond // time between two checks
	askTime      = 2 * time.Second       // longest time to wait for the answer of one chip
)

// engineQuiet is how long settle waits for another new container. After this time without a
// new container, settle assumes that the engine has carried out all requests.
const engineQuiet = 3 * time.Second

// settle waits until the engine makes no more containers, but for at most engineTime. The engine
// carries out all requests of an interrupted compose command. A container that the engine makes
// after the caller has removed all containers would stay.
func (h Host) settle() {
	limit := time.Now().Add(engineTime)
	most, since := 0, time.Now()
	for time.Since(since) < engineQuiet && time.Now().Before(limit) {
		time.Sleep(pollInterval)
		if n := len(h.list()); n > most {
			most, since = n, time.Now()
		}
	}
}

// token waits until a chip has written the API's bearer token into the containers' volume. Then
// token writes the bearer token and the ids of the containers into the run folder. If a container
// ends before this, token returns an error.
func (h Host) token(ctx context.Context) error {
	for {
		cs := h.list()
		var ids []string
		for _, c := range cs {
			ids = append(ids, c.id)
		}
		token, err := readContainerToken(ctx, cs)
		if err == nil {
			return errors.Join(folder.WriteFile(h.Dir.Path("token"), []byte(token)), note(h.Dir, ids))
		}
		for _, c := range cs {
			if c.state == "exited" {
				return fmt.Errorf("chip %s in container %s ended right after its start; the last line of its log: %s", c.chip, c.name, h.LastWords(c.chip))
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return spec.NotReadyf("the fabric is not ready in time: %w; allow more time with --timeout", err)
		case <-time.After(pollInterval):
		}
	}
}

// readContainerToken reads the API's bearer token, which all chips share, from the
// containers' volume. Only users who may use the engine can read the volume.
func readContainerToken(ctx context.Context, cs []container) (token string, err error) {
	err = errors.New("there is no container to read the token from")
	for _, c := range cs {
		if err = copyOut(ctx, c.id, stateToken, maxCopied, func(_, _ string, r io.Reader) error {
			b, err := io.ReadAll(io.LimitReader(r, 1<<10))
			token = strings.TrimSpace(string(b))
			return err
		}); err == nil && len(token) >= folder.MinToken {
			return token, nil
		}
	}
	return "", fmt.Errorf("cannot read the API's token from the containers' volume: %w", err)
}

// watchPoll is the time between two looks for containers that have ended.
const watchPoll = time.Second

// watch sends a value to exits for each container of the fabric that ends. watch returns
// after the removal of the run folder.
func (h Host) watch(ns []wire.FabricNodeID, exits chan<- folder.Exit) {
	ran := map[string]bool{}
	for ; ; time.Sleep(watchPoll) {
		if !h.Dir.Has() {
			return
		}
		for _, c := range h.list() {
			if c.state == "exited" && ran[c.id] {
				exits <- folder.Exit{Chip: c.chip, Err: errors.New(c.status)}
			}
			ran[c.id] = c.runs() || !slices.Contains(ns, c.chip) && c.state != "exited"
		}
	}
}

// Do kills, pauses, resumes or stops a chip's container. Do returns when the engine has carried out
// the command.
func (h Host) Do(ctx context.Context, f folder.Chip, k fault.Kind) error {
	args := map[fault.Kind][]string{
		fault.KindKilled: {"kill"}, fault.KindPaused: {"pause"}, fault.KindResumed: {"unpause"},
		fault.KindRemoved: {"stop", "--time", fmt.Sprint(int(folder.StopTime.Seconds()))},
	}[k]
	if k == fault.KindRemoved {
		_, _ = docker(ctx, "unpause", f.Container) // a paused container cannot receive the signal of stop; the command fails for a container that is not paused
	}
	if _, err := docker(ctx, append(args, f.Container)...); err != nil {
		return fmt.Errorf("chip %s: %w", f.Chip, err)
	}
	return nil
}

// LastWords returns the last line of a chip's log, or "" if the chip has no container. If the
// engine cannot read the log, LastWords returns the text of the error.
func (h Host) LastWords(n wire.FabricNodeID) string {
	for _, c := range h.list() {
		if c.chip != n {
			continue
		}
		out, err := docker(context.Background(), "logs", "--tail", "1", c.id)
		if err != nil {
			return err.Error()
		}
		return strings.TrimPrefix(string(bytes.TrimSpace(out)), "ttfabric: ")
	}
	return ""
}

// Archive copies the event archive from the containers' volume to the archive's folder on
// this machine. The archive in the volume also has the events of chips that have ended.
func (h Host) Archive(ctx context.Context) (err error) {
	err = errors.New("no container is left from which the archive can be copied")
	for _, c := range h.list() {
		if err = h.copyArchive(ctx, c.id); err == nil {
			return nil
		}
	}
	return err
}

// copyArchive copies the event archive from the volume of the container with the given id
// to the archive's folder on this machine.
func (h Host) copyArchive(ctx context.Context, id string) error {
	to := h.Dir.ArchiveDir(&h.Spec)
	err := os.MkdirAll(to, 0o700)
	if err == nil {
		err = copyOut(ctx, id, stateArchive+"/"+h.Dir.Name(), maxCopied, func(_, name string, r io.Reader) error {
			b, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			return folder.WriteFile(filepath.Join(to, name), b)
		})
	}
	if err != nil {
		return fmt.Errorf("cannot copy the archive from the containers' volume to %s: %w", to, err)
	}
	return nil
}

// Remove removes all containers, networks and volumes with the fabric's label, and the run folder.
// Before the removal, Remove copies the archive to this machine, if the user named a folder for the
// archive. If Discard is not set, Remove also copies recordings and logged secrets. If this second
// copy fails, Remove removes nothing.
func (h Host) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), composeTime)
	defer cancel()
	var errs []error
	var ids []string
	for _, c := range h.list() {
		ids = append(ids, c.id)
	}
	if (h.Spec.Archive != "" || len(places(&h.Spec)) > 0 && !h.Discard) && len(ids) > 0 { // stops the chips first, because each chip writes its last events and recordings at its end
		_, err := engine(ctx, nil, "docker", append([]string{"stop", "--time", fmt.Sprint(int(folder.StopTime.Seconds()))}, ids...)...)
		errs = append(errs, err)
		if h.Spec.Archive != "" {
			errs = append(errs, h.Archive(ctx))
		}
	}
	if err := h.rescue(ctx, ids); err != nil {
		return err
	}
	_, err := removeLabelled(ctx, h.Dir.Name())
	return errors.Join(errors.Join(errs...), err, os.RemoveAll(string(h.Dir)))
}

// Times for another try to remove a network. The engine may count a container as an endpoint of its
// network for a moment after the container has gone.
const (
	removePause = 500 * time.Millisecond
	removeTries = 10
)

// removeAll removes containers, networks or volumes by a command of the engine. For networks that the
// engine still counts endpoints of, removeAll tries again.
func removeAll(ctx context.Context, remove, ids []string) (err error) {
	for range removeTries {
		if _, err = engine(ctx, nil, "docker", append(remove, ids...)...); !errors.Is(err, errEndpoints) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(removePause):
		}
	}
	return err
}

// removeLabelled removes the containers, networks and volumes of a fabric. The result n
// is the number of removed objects.
func removeLabelled(ctx context.Context, fabric string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, composeTime)
	defer cancel()
	var errs []error
	for _, kind := range []struct{ list, remove []string }{
		{[]string{"ps", "-a", "-q"}, []string{"rm", "--force", "--volumes"}},
		{[]string{"network", "ls", "-q"}, []string{"network", "rm"}},
		{[]string{"volume", "ls", "-q"}, []string{"volume", "rm"}},
	} {
		out, err := docker(ctx, append(kind.list, "--filter", "label="+labelFabric+"="+fabric)...)
		if err != nil {
			return n, err
		}
		if ids := strings.Fields(string(out)); len(ids) > 0 {
			n += len(ids)
			err := removeAll(ctx, kind.remove, ids)
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}
