package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"ttfabric/wire"
)

// onceSettings are those of one start of a chip, for a container, whose command
// cannot be changed: a file of the volume, CHIP.json in the folder of 'node
// --once', that the chip removes as it reads it.
type onceSettings struct {
	Record      string `json:"record,omitempty"`                 // as 'node --record'
	RecordLimit int    `json:"record_limit_mebibytes,omitempty"` // and --record-limit
}

// onceName is the file's name.
func onceName(n wire.FabricNodeID) string { return n.String() + ".json" }

// takeOnce reads and removes what a folder says of a chip's start; a folder without it says nothing.
func takeOnce(dir string, n wire.FabricNodeID) (s onceSettings, err error) {
	if dir == "" {
		return s, nil
	}
	file := filepath.Join(dir, onceName(n))
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = os.Remove(file) // before it is looked at: a damaged one stops one start alone
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("--once: %s: %w", file, err)
	}
	return s, nil
}

// onceArchive is a tar archive, for the volume, of the settings of some chips: for the image's user alone.
func onceArchive(ns []wire.FabricNodeID, s onceSettings) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	folder := path.Base(stateOnce)
	errs := []error{w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o700, Uid: secretsUser, Gid: secretsUser})}
	for _, n := range ns {
		errs = append(errs, w.WriteHeader(&tar.Header{Name: path.Join(folder, onceName(n)), Mode: 0o600, Uid: secretsUser, Gid: secretsUser, Size: int64(len(text))}))
		_, err := w.Write(text)
		errs = append(errs, err)
	}
	return b.Bytes(), errors.Join(append(errs, w.Close())...)
}

// recordOnce has the next life of some chips recorded, and notes which folder of this machine that is for.
func (h containers) recordOnce(ctx context.Context, ns []wire.FabricNodeID, there map[wire.FabricNodeID]container, rec recordFlags) error {
	id, err := h.reader(ctx, ns, there, rec)
	if err != nil {
		return err
	}
	folder := onceFolder(rec.dir)
	if !slices.Contains(h.m.RecordOnce, rec.dir) {
		h.m.RecordOnce = append(h.m.RecordOnce, rec.dir)
		b, err := json.MarshalIndent(h.m, "", "  ")
		if err == nil {
			err = writeFile(h.dir.path("mesh.json"), b)
		}
		if err != nil {
			return err
		}
	}
	b, err := onceArchive(ns, onceSettings{path.Join(stateRecord, folder), rec.limit})
	if err == nil {
		err = copyIn(ctx, id, stateDir, b)
	}
	if err != nil {
		return fmt.Errorf("--record: the containers' volume cannot be written: %w", err)
	}
	return nil
}

// forgetOnce takes it back, where the chips did not start.
func (h containers) forgetOnce(ns []wire.FabricNodeID, there map[wire.FabricNodeID]container) {
	ctx := context.Background()
	if id, err := h.reader(ctx, ns, there, recordFlags{}); err == nil {
		if b, err := onceArchive(ns, onceSettings{}); err == nil {
			_ = copyIn(ctx, id, stateDir, b) // the start's own error is what is told
		}
	}
}

// recordable says why a chip cannot be recorded as rec says, before it is killed for that.
func (h containers) recordable(ctx context.Context, n wire.FabricNodeID, rec recordFlags) error {
	if rec.dir == "" {
		return nil
	}
	_, err := h.reader(ctx, []wire.FabricNodeID{n}, h.byChip(), rec)
	return err
}

// reader is a container through which the volume is reached, whose chips read
// such settings: that of the first chip, or where it has none, another.
func (h containers) reader(ctx context.Context, ns []wire.FabricNodeID, there map[wire.FabricNodeID]container, rec recordFlags) (string, error) {
	if len(onceFolder(rec.dir)) > maxFileName {
		return "", spec.Usagef("--record %s: containers take a folder whose name has at most %d characters, and three for each '/'", rec.dir, maxFileName)
	}
	c, ok := there[ns[0]]
	for _, other := range there {
		if !ok {
			c, ok = other, true
		}
	}
	if !ok {
		return "", fmt.Errorf("no container of fabric %q is left; 'ttfabric up --record DIR' records every life of every chip", h.dir.name())
	}
	out, err := docker(ctx, "inspect", "--type", "container", "--format", "{{json .Config.Cmd}}", c.id)
	if err == nil && !strings.Contains(string(out), `"--once"`) {
		err = spec.Usagef("--record: container %s was made from a compose file of an older 'ttfabric compose', and a container's command cannot be changed; make the file anew, and the fabric", c.name)
	}
	return c.id, err
}
