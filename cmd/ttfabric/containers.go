package main

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

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// containers are the chips of a fabric as containers, found by their labels,
// whoever started them. The run folder holds what commands need to reach them:
//
//	compose.yml   of 'up --runtime docker'
//	engine.json   the containers that were seen last: once none of them is left, the folder is nobody's
//	archive/      a copy of the archive in the containers' volume, see fetch
type containers struct {
	dir     runDir
	m       meshFile
	discard bool   // what the chips recorded or logged goes with the volume
	strange string // folder for recordings of which nobody knows where they belong; "": they are not removed
}

const (
	composeName = "compose.yml"
	engineName  = "engine.json"
	unpublished = "127.0.0.1:0" // in place of the API's address of one that is on no network: nobody answers there
)

// name is the fabric's.
func (d runDir) name() string { return filepath.Base(string(d)) }

// list finds the fabric's containers; none where the engine does not answer.
func (h containers) list() []container {
	all, _ := findContainers(context.Background(), h.dir.name())
	return slices.DeleteFunc(all, func(c container) bool { return c.project != h.m.Project })
}

// byChip is list by their chips.
func (h containers) byChip() map[wire.FabricNodeID]container {
	out := map[wire.FabricNodeID]container{}
	for _, c := range h.list() {
		out[c.chip] = c
	}
	return out
}

func (h containers) chips() (out []chipFile) {
	for _, c := range h.list() {
		if c.runs() {
			out = append(out, chipFile{Chip: c.chip, API: cmp.Or(c.api, unpublished), Container: c.id, Name: c.name})
		}
	}
	sortChips(out)
	return out
}

// gone reports whether none of the containers is left that the folder is
// about. It notes those that are there, as single ones are made anew.
func (h containers) gone() bool {
	var seen []string
	b, err := os.ReadFile(h.dir.path(engineName))
	if err != nil || json.Unmarshal(b, &seen) != nil || len(seen) == 0 {
		return false // they are about to be made
	}
	all, err := findContainers(context.Background(), h.dir.name())
	if err != nil {
		return false // nobody knows
	}
	var ids []string
	for _, c := range all {
		if c.project == h.m.Project {
			ids = append(ids, c.id)
		}
	}
	slices.Sort(ids)
	if !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(seen, id) }) {
		return true
	}
	if !slices.Equal(ids, seen) {
		_ = h.dir.note(ids) // an older note does no harm
	}
	return false
}

// note writes down which containers the folder is about.
func (d runDir) note(ids []string) error {
	slices.Sort(ids)
	b, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return writeFile(d.path(engineName), b)
}

// launch starts containers: those that are there, and by compose those that are not.
func (h containers) launch(ctx context.Context, ns []wire.FabricNodeID, rec recordFlags, exits chan<- exit) (err error) {
	there := h.byChip()
	if err := h.certify(ctx, ns, there); err != nil {
		return err
	}
	if rec.dir != "" {
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
			build = append(build, serviceName(n))
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
func (h containers) compose(ctx context.Context, services []string) error {
	file := h.dir.path(composeName)
	cmd, err := composeCommand(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("no container is there for %s; '%s -p %s -f FILE up -d' makes it, from the file that made the others", strings.Join(services, ", "), strings.Join(cmd, " "), h.m.Project)
	}
	ctx, cancel := context.WithTimeout(ctx, composeTime)
	defer cancel()
	args := slices.Concat(cmd[1:], []string{"-p", h.m.Project, "-f", file, "up", "-d", "--no-recreate"}, services)
	// The file says what the flags said; the user's environment is for files of the user's own.
	_, err = engine(ctx, []string{"TTFABRIC_NAME=" + h.dir.name(), "TTFABRIC_IMAGE=", "TTFABRIC_MTU=", "COMPOSE_HTTP_TIMEOUT=300"}, cmd[0], args...)
	if ctx.Err() != nil {
		h.settle()
	}
	return err
}

// engineQuiet is for how long no container may be added until the engine counts as done with what it was asked for.
const engineQuiet = 3 * time.Second

// settle waits until no more containers are made. A compose that is ended leaves
// the engine at what it had asked for, and what is made only after a removal stays.
func (h containers) settle() {
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
func (h containers) token(ctx context.Context) error {
	for {
		cs := h.list()
		var ids []string
		for _, c := range cs {
			ids = append(ids, c.id)
		}
		token, err := readContainerToken(ctx, cs)
		if err == nil {
			return errors.Join(writeFile(h.dir.path("token"), []byte(token)), h.dir.note(ids))
		}
		for _, c := range cs {
			if c.state == "exited" {
				return fmt.Errorf("chip %s, container %s, died at start: %s", c.chip, c.name, h.lastWords(c.chip))
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return coded(exitNotReady, "not ready in time: %w; more time with --timeout", err)
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
		}); err == nil && len(token) >= minToken {
			return token, nil
		}
	}
	return "", fmt.Errorf("the API's token is not in the containers' volume: %w", err)
}

// watchPoll is how often containers are looked at for those that have ended.
const watchPoll = time.Second

// watch tells of containers that end, until there is no folder any more, or the program ends.
func (h containers) watch(ns []wire.FabricNodeID, exits chan<- exit) {
	ran := map[string]bool{}
	for ; ; time.Sleep(watchPoll) {
		if _, err := os.Stat(h.dir.path("mesh.json")); err != nil {
			return
		}
		for _, c := range h.list() {
			if c.state == "exited" && ran[c.id] {
				exits <- exit{c.chip, errors.New(c.status)}
			}
			ran[c.id] = c.runs() || !slices.Contains(ns, c.chip) && c.state != "exited"
		}
	}
}

func (h containers) do(ctx context.Context, f chipFile, k fault.Kind) error {
	args := map[fault.Kind][]string{
		fault.KindKilled: {"kill"}, fault.KindPaused: {"pause"}, fault.KindResumed: {"unpause"},
		fault.KindRemoved: {"stop", "--time", fmt.Sprint(int(stopTime.Seconds()))},
	}[k]
	if k == fault.KindRemoved {
		_, _ = docker(ctx, "unpause", f.Container) // one that is paused has to hear it; the others say that they are not
	}
	if _, err := docker(ctx, append(args, f.Container)...); err != nil {
		return fmt.Errorf("chip %s: %w", f.Chip, err)
	}
	return nil
}

func (h containers) lastWords(n wire.FabricNodeID) string {
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
func (h containers) archive(ctx context.Context) (err error) {
	err = errors.New("there is no container left")
	for _, c := range h.list() {
		if err = h.copyArchive(ctx, c.id); err == nil {
			return nil
		}
	}
	return err
}

// copyArchive copies the archive from the volume of a container.
func (h containers) copyArchive(ctx context.Context, id string) error {
	to := h.m.archiveDir(h.dir)
	err := os.MkdirAll(to, 0o700)
	if err == nil {
		err = copyOut(ctx, id, stateArchive+"/"+h.dir.name(), maxCopied, func(_, name string, r io.Reader) error {
			b, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			return writeFile(filepath.Join(to, name), b)
		})
	}
	if err != nil {
		return fmt.Errorf("the archive in the containers' volume cannot be read: %w", err)
	}
	return nil
}

// remove takes away all that carries the fabric's label, and the folder.
func (h containers) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), composeTime)
	defer cancel()
	var errs []error
	var ids []string
	for _, c := range h.list() {
		ids = append(ids, c.id)
	}
	if (h.m.Archive != "" || len(h.m.places()) > 0 && !h.discard) && len(ids) > 0 { // they outlive the volume, so let the chips write the last of them
		_, err := engine(ctx, nil, "docker", append([]string{"stop", "--time", fmt.Sprint(int(stopTime.Seconds()))}, ids...)...)
		errs = append(errs, err)
		if h.m.Archive != "" {
			errs = append(errs, h.archive(ctx))
		}
	}
	if err := h.rescue(ctx, ids); err != nil {
		return err
	}
	_, err := removeLabelled(ctx, h.dir.name())
	return errors.Join(errors.Join(errs...), err, os.RemoveAll(string(h.dir)))
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

// found is a fabric that was found by its containers.
type found struct {
	mesh  meshFile
	t     *topo.Topology
	token string
	ids   []string
}

// adopt finds a fabric by its containers, asks one of them what it is, and makes the run folder.
func (d runDir) adopt() (m meshFile, err error) {
	name := d.name()
	if !validName.MatchString(name) {
		return m, os.ErrNotExist
	}
	none := fmt.Errorf("no fabric named %q is running; start one with 'ttfabric up'", name)
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	cs, err := findContainers(ctx, name)
	switch {
	case engineAbsent(err):
		return m, none
	case err != nil:
		return m, fmt.Errorf("no fabric named %q runs as processes; start one with 'ttfabric up'. Whether as containers is not known: %w", name, err)
	case len(cs) == 0:
		if _, err := d.read(); err != nil {
			return m, none
		}
		if _, err := os.Stat(d.path(composeName)); err == nil {
			return m, fmt.Errorf("no container of fabric %q is left; 'ttfabric up --runtime docker' starts it anew, 'ttfabric down' removes what is left", name)
		}
		_ = os.RemoveAll(string(d)) // it was found by its containers, and has nothing of its own
		return m, none
	}
	f, err := inquire(ctx, name, cs)
	if err != nil {
		return m, unheard{err, starting(cs)}
	}
	if err := makeRoot(runRoot()); err != nil {
		return m, err
	}
	// Another command may do the same; what is there whole first is taken.
	tmp, err := os.MkdirTemp(runRoot(), ".new-*")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(tmp)
	old, known := d.read()
	f.mesh.RecordOnce = old.RecordOnce // of the volume, which may be that of containers that are no more
	b, err := json.MarshalIndent(f.mesh, "", "  ")
	if err == nil {
		err = errors.Join(writeFile(filepath.Join(tmp, "topology.yaml"), f.t.Encode()), writeFile(filepath.Join(tmp, "token"), []byte(f.token)),
			writeFile(filepath.Join(tmp, "mesh.json"), b), runDir(tmp).note(f.ids))
	}
	if err != nil {
		return m, err
	}
	if known == nil && old.Runtime == runtimeDocker {
		_ = os.RemoveAll(string(d))
	}
	if err := os.Rename(tmp, string(d)); err != nil && !errors.Is(err, os.ErrExist) {
		return m, err
	}
	return f.mesh, nil
}

// inquire asks containers of one fabric what it is.
func inquire(ctx context.Context, name string, cs []container) (f found, err error) {
	for _, c := range cs {
		if c.project != cs[0].project { // see starting
			return f, fmt.Errorf("compose projects %q and %q both have a fabric named %q; bring one of them up with another TTFABRIC_NAME", cs[0].project, c.project, name)
		}
		f.ids = append(f.ids, c.id)
	}
	if f.token, err = readContainerToken(ctx, cs); err != nil {
		return f, fmt.Errorf("fabric %q: %w", name, err)
	}
	view, t, err := askContainers(ctx, name, f.token, cs)
	f.mesh, f.t = view.Mesh, t
	f.mesh.Name, f.mesh.Runtime, f.mesh.Project, f.mesh.Archive, f.mesh.ArchiveMiB = name, runtimeDocker, cs[0].project, "", 0
	if err == nil {
		err = f.mesh.composed(ctx, cs[0].id)
	}
	return f, err
}

// stray is a fabric of containers that has no run folder.
type stray struct {
	name, topology, project string
	running, chips          int
	created                 time.Time
}

// strays are the fabrics that are found by their containers alone; none where there is no engine.
func strays(ctx context.Context, known func(name string) bool) (out []stray) {
	all, _ := findContainers(ctx, "")
	by := map[string][]container{}
	for _, c := range all {
		if !known(c.fabric) {
			by[c.fabric] = append(by[c.fabric], c)
		}
	}
	for name, cs := range by {
		s := stray{name: name, topology: "-", project: cs[0].project, chips: len(cs)}
		for _, c := range cs {
			if c.runs() {
				s.running++
			}
		}
		if f, err := inquire(ctx, name, cs); err == nil {
			s.topology, s.chips, s.created = f.t.Name, len(f.t.Chips), f.mesh.Created
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b stray) int { return strings.Compare(a.name, b.name) })
	return out
}

// askContainers asks the chips that run, one after the other, what their fabric is.
func askContainers(ctx context.Context, name, token string, cs []container) (v fabricView, t *topo.Topology, err error) {
	err = fmt.Errorf("none of the %s of fabric %q runs; 'docker compose up -d', or docker-compose, starts them, 'ttfabric down' removes them", counted(len(cs), "container"), name)
	for _, c := range cs {
		if c.state != "running" || c.api == "" {
			continue
		}
		one, cancel := context.WithTimeout(ctx, pollPatience)
		e := api.NewClient(c.api, token, c.chip, nil).Fabric(one, &v)
		cancel()
		if e == nil {
			t, e = topo.Load("what chip "+c.chip.String()+" says", []byte(v.Topology))
		}
		if e == nil {
			return v, t, nil
		}
		err = fmt.Errorf("fabric %q has %s, and none says what it is: %w", name, counted(len(cs), "container"), e)
	}
	return v, nil, err
}
