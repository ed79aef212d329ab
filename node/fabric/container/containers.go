// Package container runs the chips of a fabric as containers, and writes the
// files that bring them up: compose files, and stack files for Docker Swarm. It
// speaks to the engine through the docker command.
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

// Host is the containers of a fabric, found by their labels, whoever started
// them. The run folder holds what commands need to reach the chips:
//
//	compose.yml   of 'up --runtime docker'
//	engine.json   the containers that were seen last: once none of them is left, the folder is nobody's
//	archive/      a copy of the archive in the containers' volume, see [Host.Archive]
type Host struct {
	Dir     folder.Dir
	Spec    spec.Spec
	Discard bool   // what the chips recorded or logged goes with the volume
	Strange string // folder for recordings of which nobody knows where they belong; "": they are not removed
}

const (
	ComposeName = "compose.yml"
	engineName  = "engine.json"
	unpublished = "127.0.0.1:0" // in place of the API's address of one that is on no network: nobody answers there
)

// list finds the fabric's containers; none where the engine does not answer.
func (h Host) list() []container {
	all, _ := findContainers(context.Background(), h.Dir.Name())
	return slices.DeleteFunc(all, func(c container) bool { return c.project != h.Spec.Project })
}

// byChip is list by their chips.
func (h Host) byChip() map[wire.FabricNodeID]container {
	out := map[wire.FabricNodeID]container{}
	for _, c := range h.list() {
		out[c.chip] = c
	}
	return out
}

func (h Host) Chips() (out []folder.Chip) {
	for _, c := range h.list() {
		if c.runs() {
			out = append(out, folder.Chip{Chip: c.chip, API: cmp.Or(c.api, unpublished), Container: c.id, Name: c.name})
		}
	}
	folder.SortChips(out)
	return out
}

// note writes down which containers the folder is about.
func note(d folder.Dir, ids []string) error {
	slices.Sort(ids)
	b, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return folder.WriteFile(d.Path(engineName), b)
}

// launch starts containers: those that are there, and by compose those that are not.
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

// compose makes the containers of some services, and with them their network and volume.
func (h Host) compose(ctx context.Context, services []string) error {
	file := h.Dir.Path(ComposeName)
	cmd, err := composeCommand(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("no container is there for %s; '%s -p %s -f FILE up -d' makes it, from the file that made the others", strings.Join(services, ", "), strings.Join(cmd, " "), h.Spec.Project)
	}
	ctx, cancel := context.WithTimeout(ctx, composeTime)
	defer cancel()
	args := slices.Concat(cmd[1:], []string{"-p", h.Spec.Project, "-f", file, "up", "-d", "--no-recreate"}, services)
	// The file says what the flags said; the user's environment is for files of the user's own.
	_, err = engine(ctx, []string{"TTFABRIC_NAME=" + h.Dir.Name(), "TTFABRIC_IMAGE=", "TTFABRIC_MTU=", "COMPOSE_HTTP_TIMEOUT=300"}, cmd[0], args...)
	if ctx.Err() != nil {
		h.settle()
	}
	return err
}

// Times of asking containers that come up.
const (
	pollInterval = 50 * time.Millisecond // between two looks
	askTime      = 2 * time.Second       // that one chip may take to answer
)

// engineQuiet is for how long no container may be added until the engine counts as done with what it was asked for.
const engineQuiet = 3 * time.Second

// settle waits until no more containers are made. A compose that is ended leaves
// the engine at what it had asked for, and what is made only after a removal stays.
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

// token waits until the first chip has made the API's token, and notes it and who is there.
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
				return fmt.Errorf("chip %s, container %s, died at start: %s", c.chip, c.name, h.LastWords(c.chip))
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return spec.NotReadyf("not ready in time: %w; more time with --timeout", err)
		case <-time.After(pollInterval):
		}
	}
}

// readContainerToken reads the token that the chips share in their volume,
// which only those can read who may use the engine.
func readContainerToken(ctx context.Context, cs []container) (token string, err error) {
	err = errors.New("there is no container")
	for _, c := range cs {
		if err = copyOut(ctx, c.id, stateToken, maxCopied, func(_, _ string, r io.Reader) error {
			b, err := io.ReadAll(io.LimitReader(r, 1<<10))
			token = strings.TrimSpace(string(b))
			return err
		}); err == nil && len(token) >= folder.MinToken {
			return token, nil
		}
	}
	return "", fmt.Errorf("the API's token is not in the containers' volume: %w", err)
}

// watchPoll is how often containers are looked at for those that have ended.
const watchPoll = time.Second

// watch tells of containers that end, until there is no folder any more, or the program ends.
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

func (h Host) Do(ctx context.Context, f folder.Chip, k fault.Kind) error {
	args := map[fault.Kind][]string{
		fault.KindKilled: {"kill"}, fault.KindPaused: {"pause"}, fault.KindResumed: {"unpause"},
		fault.KindRemoved: {"stop", "--time", fmt.Sprint(int(folder.StopTime.Seconds()))},
	}[k]
	if k == fault.KindRemoved {
		_, _ = docker(ctx, "unpause", f.Container) // one that is paused has to hear it; the others say that they are not
	}
	if _, err := docker(ctx, append(args, f.Container)...); err != nil {
		return fmt.Errorf("chip %s: %w", f.Chip, err)
	}
	return nil
}

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

// archive copies the archive from the containers' volume, which a chip that is dead has written to as well.
func (h Host) Archive(ctx context.Context) (err error) {
	err = errors.New("there is no container left")
	for _, c := range h.list() {
		if err = h.copyArchive(ctx, c.id); err == nil {
			return nil
		}
	}
	return err
}

// copyArchive copies the archive from the volume of a container.
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
		return fmt.Errorf("the archive in the containers' volume cannot be read: %w", err)
	}
	return nil
}

// remove takes away all that carries the fabric's label, and the folder.
func (h Host) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), composeTime)
	defer cancel()
	var errs []error
	var ids []string
	for _, c := range h.list() {
		ids = append(ids, c.id)
	}
	if (h.Spec.Archive != "" || len(places(&h.Spec)) > 0 && !h.Discard) && len(ids) > 0 { // they outlive the volume, so let the chips write the last of them
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

// removeLabelled removes containers, networks and volumes of a fabric, and returns how many there were.
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
			_, err = engine(ctx, nil, "docker", append(kind.remove, ids...)...)
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}
