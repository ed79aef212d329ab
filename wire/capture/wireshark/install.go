package wireshark

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// State is the state of a file on disk, compared with the file that Install would write.
type State string

// The states of a file.
const (
	Missing State = "missing"
	Current State = "installed"
	Old     State = "old"     // ttfabric installed the file with other content, for example in another version, and nobody has changed it since
	Changed State = "changed" // ttfabric installed the file, and somebody has changed it since
	Foreign State = "foreign" // ttfabric did not install the file, and the file has other content
)

// Step is what Install or Uninstall does with one file.
type Step struct {
	File  `json:"-"`
	What  string `json:"what"`           // dissector, profile or extcap
	Path  string `json:"path"`           // path of the file
	State State  `json:"state"`          // state of the file before the step
	Done  string `json:"done,omitempty"` // "written", "replaced", "kept" or "removed"; "": nothing
}

// ErrForeign is the error for a file that Install would overwrite, but that ttfabric did not
// install, or that somebody has changed since the installation.
var ErrForeign = errors.New("was not installed by ttfabric, or was changed since")

// manifest is the list of installed files: the SHA-256 of each file, by path.
type manifest map[string]string

func (p *Place) manifestPath() string { return filepath.Join(p.data(), "wireshark.json") }

func (p *Place) manifest() (manifest, error) {
	m := manifest{}
	b, err := os.ReadFile(p.manifestPath())
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	} else if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%s: %w; this file lists the files that 'ttfabric wireshark install' wrote; remove it, and install with --force", p.manifestPath(), err)
	}
	return m, nil
}

func (p *Place) save(m manifest) error {
	if len(m) == 0 {
		err := os.Remove(p.manifestPath())
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		p.prune(p.manifestPath())
		return err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return write(p.manifestPath(), append(b, '\n'), 0o644)
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// Look returns the state of each file that Install would write. Look changes nothing.
func (p *Place) Look(program string) ([]Step, error) {
	m, err := p.manifest()
	if err != nil {
		return nil, err
	}
	var out []Step
	for _, f := range p.Files(program) {
		s := Step{File: f, What: f.What, Path: f.Path}
		b, err := os.ReadFile(f.Path)
		was, known := m[f.Path]
		switch {
		case errors.Is(err, fs.ErrNotExist):
			s.State = Missing
		case err != nil:
			return nil, err
		case bytes.Equal(b, f.Data):
			s.State = Current
		case known && was == sum(b):
			s.State = Old
		case known:
			s.State = Changed
		default:
			s.State = Foreign
		}
		out = append(out, s)
	}
	return out, nil
}

// Install writes the files that are missing or old, and keeps changed files of the profile. If a
// foreign file or a changed file of another kind exists, Install writes nothing and returns
// [ErrForeign]. If "force" is set, Install replaces all foreign and changed files. If "dry" is set,
// Install only returns what it would do.
func (p *Place) Install(program string, force, dry bool) ([]Step, error) {
	steps, err := p.Look(program)
	if err != nil {
		return nil, err
	}
	for i := range steps {
		s := &steps[i]
		switch {
		case s.State == Current:
		case s.State == Missing:
			s.Done = "written"
		case s.State == Old || force:
			s.Done = "replaced"
		case s.State == Changed && s.Theirs:
			s.Done = "kept"
		default:
			return steps, fmt.Errorf("%s %w; move it away, or replace it with --force", s.Path, ErrForeign)
		}
	}
	if dry {
		return steps, nil
	}
	m, err := p.manifest()
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		switch s.Done {
		case "written", "replaced":
			if err := write(s.Path, s.Data, s.Mode); err != nil {
				return steps, errors.Join(err, p.save(m))
			}
			m[s.Path] = sum(s.Data)
		case "":
			m[s.Path] = sum(s.Data)
		}
	}
	return steps, p.save(m)
}

// Uninstall removes the installed files, and the folders that are then empty. Uninstall keeps files
// that ttfabric did not install. If the user has changed the dissector or a plugin, Uninstall
// removes that file only if "force" is set. Uninstall removes the profile even after changes,
// because Wireshark itself rewrites the profile. If "dry" is set, Uninstall only returns what it
// would do.
func (p *Place) Uninstall(program string, force, dry bool) ([]Step, error) {
	steps, err := p.Look(program)
	if err != nil {
		return nil, err
	}
	m, err := p.manifest()
	if err != nil {
		return nil, err
	}
	for i := range steps {
		s := &steps[i]
		_, known := m[s.Path]
		switch {
		case s.State == Missing:
			delete(m, s.Path)
			continue
		case s.State == Foreign, s.State == Current && !known, s.State == Changed && !force && !s.Theirs:
			s.Done = "kept"
			continue
		}
		s.Done = "removed"
		if dry {
			continue
		}
		if err := os.Remove(s.Path); err != nil {
			return steps, errors.Join(err, p.save(m))
		}
		delete(m, s.Path)
		p.prune(s.Path)
	}
	if dry {
		return steps, nil
	}
	return steps, p.save(m)
}

// prune removes the empty folders above a path, up to the first folder that is not empty, or up to
// the home folder.
func (p *Place) prune(path string) {
	for dir := filepath.Dir(path); dir != p.Home && os.Remove(dir) == nil; {
		dir = filepath.Dir(dir)
	}
}

// write writes a file with content b. If write fails, the file at the path stays unchanged.
func write(path string, b []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".ttfabric-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
