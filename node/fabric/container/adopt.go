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

// Unheard says that containers of a fabric are there, and that no chip in them says what the fabric is.
type Unheard struct {
	error
	Yet bool // the containers have been started, and may say so soon
}

// Error names the way out to those who do not wait.
func (u Unheard) Error() string {
	if u.Yet {
		return u.error.Error() + "; if its containers have just been started, 'ttfabric up -d' waits for them"
	}
	return u.error.Error()
}

// Unwrap is the error without the way out.
func (u Unheard) Unwrap() error { return u.error }

// starting reports whether containers may yet say what their fabric is: some
// run, or are about to, and no two fabrics have one name.
func starting(cs []container) (some bool) {
	for _, c := range cs {
		if c.project != cs[0].project {
			return false
		}
		some = some || c.state == "running" || c.state == "created"
	}
	return some
}

// found is a fabric that was found by its containers.
type found struct {
	mesh  spec.Spec
	t     *topo.Topology
	token string
	ids   []string
}

// Adopt finds a fabric by its containers, asks one of them what the fabric is,
// and makes the run folder. The error is an [Unheard] where containers are there and none answers.
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
		return m, fmt.Errorf("no fabric named %q runs as processes; start one with 'ttfabric up'. Whether as containers is not known: %w", name, err)
	case len(cs) == 0:
		if _, err := d.Spec(); err != nil {
			return m, none
		}
		if _, err := os.Stat(d.Path(ComposeName)); err == nil {
			return m, fmt.Errorf("no container of fabric %q is left; 'ttfabric up --runtime docker' starts it anew, 'ttfabric down' removes what is left", name)
		}
		_ = os.RemoveAll(string(d)) // it was found by its containers, and has nothing of its own
		return m, none
	}
	f, err := inquire(ctx, name, cs)
	if err != nil {
		return m, Unheard{err, starting(cs)}
	}
	if err := folder.MakeRoot(); err != nil {
		return m, err
	}
	// Another command may do the same; what is there whole first is taken.
	tmp, err := os.MkdirTemp(folder.Root(), ".new-*")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(tmp)
	old, known := d.Spec()
	f.mesh.RecordOnce = old.RecordOnce // of the volume, which may be that of containers that are no more
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
	f.mesh.Name, f.mesh.Runtime, f.mesh.Project, f.mesh.Archive, f.mesh.ArchiveMiB = name, spec.Docker, cs[0].project, "", 0
	if err == nil {
		err = composed(ctx, &f.mesh, cs[0].id)
	}
	return f, err
}

// Stray is a fabric of containers that has no run folder.
type Stray struct {
	Name, Topology, Project string
	Running, Chips          int // Chips are those of the topology; of the containers where no chip answers
	Created                 time.Time
}

// Strays are the fabrics that are found by their containers alone; none where there is no engine.
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

// askContainers asks the chips that run, one after the other, what their fabric is.
func askContainers(ctx context.Context, name, token string, cs []container) (v spec.View, t *topo.Topology, err error) {
	err = fmt.Errorf("none of the %s of fabric %q runs; 'docker compose up -d', or docker-compose, starts them, 'ttfabric down' removes them", topo.Count(len(cs), "container"), name)
	for _, c := range cs {
		if c.state != "running" || c.api == "" {
			continue
		}
		one, cancel := context.WithTimeout(ctx, askTime)
		e := api.NewClient(c.api, token, c.chip, nil).Fabric(one, &v)
		cancel()
		if e == nil {
			t, e = topo.Load("what chip "+c.chip.String()+" says", []byte(v.Topology))
		}
		if e == nil {
			return v, t, nil
		}
		err = fmt.Errorf("fabric %q has %s, and none says what it is: %w", name, topo.Count(len(cs), "container"), e)
	}
	return v, nil, err
}

// Gone reports whether none of the containers is left that the folder is
// about. Gone notes the containers that are there, as single ones are made anew.
func (h Host) Gone() bool {
	var seen []string
	b, err := os.ReadFile(h.Dir.Path(engineName))
	if err != nil || json.Unmarshal(b, &seen) != nil || len(seen) == 0 {
		return false // they are about to be made
	}
	all, err := findContainers(context.Background(), h.Dir.Name())
	if err != nil {
		return false // nobody knows
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
		_ = note(h.Dir, ids) // an older note does no harm
	}
	return false
}

// Remove stops the chips of a fabric of containers that has no run folder, and
// removes what there is of it. With discard, what the containers recorded goes, too; see
// [Host] for strange. Remove reports whether there was anything.
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

// Usable says why containers cannot be started here: no docker command, no engine, or no compose.
func Usable(ctx context.Context) error {
	if _, err := composeCommand(ctx); err != nil {
		return err
	}
	_, err := docker(ctx, "version", "--format", "{{.Server.Version}}")
	return err // as the engine says it, not as compose does
}

// ProjectName is the compose project of a fabric that 'up' brings up.
func ProjectName(name string) string { return "ttfabric-" + AsProject(name) }

// AsProject makes a fabric's name a name for a compose project, which has small letters, digits, '-' and '_' only.
func AsProject(name string) string { return strings.ReplaceAll(strings.ToLower(name), ".", "-") }
