package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// Unheard says that a fabric has containers, but that no chip in these containers answers a request
// for the fabric's spec.
type Unheard struct {
	error
	Yet bool // the containers run or start, and a chip may answer soon
}

// Error returns the text of the error. If Yet is true, the text ends with the command that
// waits for the containers.
func (u Unheard) Error() string {
	if u.Yet {
		return u.error.Error() + "; if its containers have just been started, 'ttfabric up -d' waits for the containers"
	}
	return u.error.Error()
}

// Unwrap returns the error without the advice.
func (u Unheard) Unwrap() error { return u.error }

// starting reports whether a chip in the containers may answer soon. A chip may answer if at least
// one container runs or is about to run, and if all containers belong to one compose project.
func starting(cs []container) (some bool) {
	for _, c := range cs {
		if c.project != cs[0].project {
			return false
		}
		some = some || c.state == "running" || c.state == "created"
	}
	return some
}

// found is what [Adopt] and [Strays] learn about a fabric from the fabric's containers.
type found struct {
	mesh  spec.Spec
	t     *topo.Topology
	token string
	ids   []string
}

// Adopt makes the run folder of a fabric whose containers the user started. Adopt finds the
// containers by their labels, and asks a chip in a container for the spec and topology. If there
// are containers but no chip answers, the error is an [Unheard]. If there are no containers, Adopt
// returns an error, and removes the folder that an earlier Adopt made.
func Adopt(d folder.Dir) (m spec.Spec, err error) {
	name := d.Name()
	if spec.CheckName(name) != nil {
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
		return m, fmt.Errorf("no fabric named %q runs as processes; start one with 'ttfabric up'; cannot find out whether containers of that name run: %w", name, err)
	case len(cs) == 0:
		if _, err := d.Spec(); err != nil {
			return m, none
		}
		if _, err := os.Stat(d.Path(ComposeName)); err == nil {
			return m, fmt.Errorf("no container of fabric %q is left; 'ttfabric up --runtime docker' starts the fabric again, and 'ttfabric down' removes its run folder", name)
		}
		_ = os.RemoveAll(string(d)) // Adopt made this folder for containers that do not exist any more
		return m, none
	}
	f, err := inquire(ctx, name, cs)
	if err != nil {
		return m, Unheard{err, starting(cs)}
	}
	if err := folder.MakeRoot(); err != nil {
		return m, err
	}
	// Another command may make the same folder at the same time. The first complete folder stays.
	tmp, err := os.MkdirTemp(folder.Root(), ".new-*")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(tmp)
	old, known := d.Spec()
	f.mesh.RecordOnce = old.RecordOnce // the volume may still have recordings for the folders in RecordOnce
	made := folder.Dir(filepath.Join(tmp, name))
	err = made.Create(f.t, &f.mesh, f.token, func(d folder.Dir) error { return note(d, f.ids) })
	if err != nil {
		return m, err
	}
	if known == nil && old.Runtime == spec.Docker {
		_ = os.RemoveAll(string(d))
	}
	if err := os.Rename(string(made), string(d)); err != nil && !errors.Is(err, os.ErrExist) {
		return m, err
	}
	return f.mesh, nil
}

// inquire asks the chips in containers of one fabric to describe the fabric.
func inquire(ctx context.Context, name string, cs []container) (f found, err error) {
	for _, c := range cs {
		if c.project != cs[0].project { // one fabric has one compose project
			return f, fmt.Errorf("compose projects %q and %q both have a fabric named %q; bring up one of the two projects with another TTFABRIC_NAME", cs[0].project, c.project, name)
		}
		f.ids = append(f.ids, c.id)
	}
	if f.token, err = readContainerToken(ctx, cs); err != nil {
		return f, fmt.Errorf("fabric %q: %w", name, err)
	}
	view, t, err := askContainers(ctx, name, f.token, cs)
	f.mesh, f.t = view.Mesh, t
	f.mesh.Name, f.mesh.Runtime, f.mesh.Project, f.mesh.Archive, f.mesh.ArchiveMiB = name, spec.Docker, cs[0].project, "", 0
	if err == nil {
		err = composed(ctx, &f.mesh, cs[0].id)
	}
	return f, err
}

// Stray is a fabric of containers that has no run folder on this machine.
type Stray struct {
	Name, Topology, Project string
	Running, Chips          int // Running: running containers; Chips: chips of the topology, or number of containers if no chip answers
	Created                 time.Time
}

// Strays returns the fabrics that have containers but no run folder. The function "known"
// must report whether the fabric with the given name has a run folder. If no engine
// answers, Strays returns no fabrics.
func Strays(ctx context.Context, known func(name string) bool) (out []Stray) {
	all, _ := findContainers(ctx, "")
	by := map[string][]container{}
	for _, c := range all {
		if !known(c.fabric) {
			by[c.fabric] = append(by[c.fabric], c)
		}
	}
	for name, cs := range by {
		s := Stray{Name: name, Topology: "-", Project: cs[0].project, Chips: len(cs)}
		for _, c := range cs {
			if c.runs() {
				s.Running++
			}
		}
		if f, err := inquire(ctx, name, cs); err == nil {
			s.Topology, s.Chips, s.Created = f.t.Name, len(f.t.Chips), f.mesh.Created
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Stray) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// askContainers asks one running chip after the other for the spec and topology of the
// fabric, and returns the first answer.
func askContainers(ctx context.Context, name, token string, cs []container) (v spec.View, t *topo.Topology, err error) {
	err = fmt.Errorf("none of the %s of fabric %q runs; 'docker compose up -d' or 'docker-compose up -d' starts the containers, and 'ttfabric down' removes the containers", topo.Count(len(cs), "container"), name)
	for _, c := range cs {
		if c.state != "running" || c.api == "" {
			continue
		}
		one, cancel := context.WithTimeout(ctx, askTime)
		e := api.NewClient(c.api, token, c.chip, nil).Fabric(one, &v)
		cancel()
		if e == nil {
			t, e = topo.Load("the topology of chip "+c.chip.String(), []byte(v.Topology))
		}
		if e == nil {
			return v, t, nil
		}
		err = fmt.Errorf("fabric %q has %s, but no chip in a container describes the fabric: %w", name, topo.Count(len(cs), "container"), e)
	}
	return v, nil, err
}

// Gone reports whether none of the containers that the run folder names exists any more. If
// one of these containers exists, Gone writes the ids of the fabric's present containers
// into the run folder. The user may have replaced single containers by new ones.
func (h Host) Gone() bool {
	var seen []string
	b, err := os.ReadFile(h.Dir.Path(engineName))
	if err != nil || json.Unmarshal(b, &seen) != nil || len(seen) == 0 {
		return false // another command is about to make the containers
	}
	all, err := findContainers(context.Background(), h.Dir.Name())
	if err != nil {
		return false // the engine does not answer, so that the containers may still exist
	}
	var ids []string
	for _, c := range all {
		if c.project == h.Spec.Project {
			ids = append(ids, c.id)
		}
	}
	slices.Sort(ids)
	if !slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(seen, id) }) {
		return true
	}
	if !slices.Equal(ids, seen) {
		_ = note(h.Dir, ids) // a failed write leaves the older ids in the file, which do no harm
	}
	return false
}

// Remove removes a fabric of containers that has no run folder, as [Host.Remove] does. The
// parameters "discard" and "strange" are the values of the fields Discard and Strange of [Host].
// Remove reports whether there was anything to remove.
func Remove(d folder.Dir, discard bool, strange string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTime)
	defer cancel()
	cs, err := findContainers(ctx, d.Name())
	if err == nil && len(cs) == 0 {
		if err := (Host{Dir: d, Discard: discard, Strange: strange}).rescue(ctx, nil); err != nil {
			return true, err
		}
	}
	if err != nil || len(cs) == 0 {
		n, err := removeLabelled(context.Background(), d.Name())
		if engineAbsent(err) {
			err = nil
		}
		return n > 0, err
	}
	h := Host{Dir: d, Spec: spec.Spec{Place: spec.Place{Runtime: spec.Docker, Project: cs[0].project}}, Discard: discard, Strange: strange}
	if err := composed(ctx, &h.Spec, cs[0].id); err != nil {
		return true, err
	}
	return true, h.Remove()
}

// Usable returns an error if this machine lacks the docker command, a running engine, or compose.
func Usable(ctx context.Context) error {
	if _, err := composeCommand(ctx); err != nil {
		return err
	}
	_, err := docker(ctx, "version", "--format", "{{.Server.Version}}")
	return err
}

// ProjectName returns the name of the compose project that 'up' uses for a fabric with the
// given name.
func ProjectName(name string) string { return "ttfabric-" + AsProject(name) }

// AsProject returns a fabric's name in small letters and with '-' for '.'. Names of compose
// projects contain only small letters, digits, '-' and '_'.
func AsProject(name string) string { return strings.ReplaceAll(strings.ToLower(name), ".", "-") }
