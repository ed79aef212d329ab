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

// recordTime is how long copying recordings may take.
const recordTime = time.Hour

// recordings copies recordings from the containers' volume to the folder that
// was named for them: one file, or all with "".
func (h containers) recordings(ctx context.Context, name string) error {
	if h.m.Record == "" {
		return nil
	}
	if err := os.MkdirAll(h.m.Record, 0o700); err != nil {
		return fmt.Errorf("the recordings cannot be copied: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	err := errors.New("there is no container left")
	for _, c := range h.list() {
		err = copyOut(ctx, c.id, path.Join(stateRecord, name), maxRecordLimit<<21, func(name string, r io.Reader) error {
			return saveAs(filepath.Join(h.m.Record, name), r)
		})
		if errors.Is(err, errNotThere) && name == "" {
			return nil // no chip got so far
		}
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("the recordings cannot be copied to %s: %w", h.m.Record, err)
}

// The way out where recordings keep a fabric from being removed.
const goOnWithout = "'ttfabric down --discard-recordings' goes on without them"

// rescue copies all recordings before their volume is removed. The error says that it has to stay.
func (h containers) rescue(ctx context.Context) error {
	if h.m.Record == "" {
		return nil
	}
	if len(h.list()) == 0 {
		return orphans(ctx, h.dir.name())
	}
	if err := h.recordings(context.Background(), ""); err != nil {
		return fmt.Errorf("%w; they are still in the containers' volume, and nothing is removed; %s", err, goOnWithout)
	}
	return nil
}

// orphans reports recordings in a volume that no container is left to be copied by.
func orphans(ctx context.Context, fabric string) error {
	out, err := docker(ctx, "volume", "ls", "-q", "--filter", "label="+labelFabric+"="+fabric, "--filter", "label="+labelRecord)
	if volumes := strings.Fields(string(out)); err == nil && len(volumes) > 0 {
		err = fmt.Errorf("the recordings in volume %s cannot be copied, as no container is left; 'docker create -v %s:%s ttfabric' makes one for 'docker cp'; %s", volumes[0], volumes[0], stateDir, goOnWithout)
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
