package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"ttfabric/ttlink/transport/pki"
)

// recordTime is how long copying recordings may take, where all else has less.
const recordTime = time.Hour

// recordings copies recordings from the containers' volume to the folder that
// was named for them: one file, or all with "".
func (h containers) recordings(ctx context.Context, name string) error {
	if h.m.Record == "" {
		return nil
	}
	err := errors.New("there is no container left")
	for _, c := range h.list() {
		if err = copyRecordings(ctx, c.id, name, h.m.Record); err == nil {
			break
		}
	}
	return err
}

// copyRecordings copies recordings from the volume of a container.
func copyRecordings(ctx context.Context, id, name, to string) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	err := os.MkdirAll(to, 0o700)
	if err == nil {
		err = copyOut(ctx, id, path.Join(stateRecord, name), maxRecordLimit<<21, func(name string, r io.Reader) error {
			return saveAs(filepath.Join(to, name), r)
		})
	}
	if err == nil || errors.Is(err, errNotThere) && name == "" { // no chip got so far
		return nil
	}
	return fmt.Errorf("the recordings cannot be copied to %s: %w", to, err)
}

// rescue copies all recordings of a fabric of so many containers before their
// volume is removed. The error says that it has to stay.
func (h containers) rescue(ctx context.Context, containers int) error {
	switch {
	case h.m.Record == "":
		return nil
	case containers == 0:
		return kept(orphans(ctx, h.dir.name()))
	}
	return kept(h.recordings(context.WithoutCancel(ctx), ""))
}

// kept says of recordings that cannot be copied that they are kept, and the way out.
func kept(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; they are still in the containers' volume, and nothing is removed; 'ttfabric down --discard-recordings' goes on without them", err)
}

// orphans copies recordings of a fabric from volumes that no container is left
// to be read by: they say where to, and which image another one can be made of.
func orphans(ctx context.Context, fabric string) error {
	out, err := docker(ctx, "volume", "ls", "-q", "--filter", "label="+labelFabric+"="+fabric, "--filter", "label="+labelRecord)
	for _, volume := range strings.Fields(string(out)) {
		out, err = docker(ctx, "volume", "inspect", "--format", `{{index .Labels "`+labelRecord+`"}}{{"\n"}}{{index .Labels "`+labelImage+`"}}`, volume)
		if err != nil {
			return err
		}
		to, image, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if out, err = docker(ctx, "create", "--label", labelFabric+"="+fabric, "--volume", volume+":"+stateDir, image); err != nil {
			return fmt.Errorf("the recordings in volume %s cannot be copied: %w", volume, err)
		}
		id := strings.TrimSpace(string(out))
		patient := context.WithoutCancel(ctx)
		err = copyRecordings(patient, id, "", to)
		if _, left := docker(patient, "rm", id); err != nil || left != nil {
			return errors.Join(err, left)
		}
	}
	return err
}

// saveAs writes what is read to a file, which only its owner can read, at once or not at all.
func saveAs(to string, r io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(to), ".copy-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), to)
}

// recording brings the file of a recording that has ended to where people look for it, and says where that is.
func (h containers) recording(ctx context.Context, file string) (string, error) {
	if h.m.Record == "" {
		return file, nil
	}
	name := path.Base(file)
	return filepath.Join(h.m.Record, name), h.recordings(ctx, name)
}

// composed notes what a container says of the compose file that made it, and no chip knows:
// the files of this machine from which it has its keys, and to which recordings go.
func (m *meshFile) composed(ctx context.Context, id string) error {
	out, err := docker(ctx, "inspect", "--type", "container", "--format", `{"Labels": {{json .Config.Labels}}, "Mounts": {{json .Mounts}}}`, id)
	if err != nil {
		return err
	}
	var c struct {
		Labels map[string]string
		Mounts []struct{ Source, Destination string }
	}
	if err := json.Unmarshal(out, &c); err != nil {
		return fmt.Errorf("docker inspect: %w", err)
	}
	m.Record, m.GossipKeys = c.Labels[labelRecord], ""
	for _, x := range c.Mounts {
		if x.Destination == pki.Mounted+"/"+keysFile {
			m.GossipKeys = x.Source
		}
	}
	return nil
}
