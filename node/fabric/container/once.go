package container

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

// onceArchive returns a tar archive of files with the settings s, one file for each of the
// chips ns. The caller unpacks the archive in the containers' volume. Each chip reads its
// file at its next start. Only the user of the containers' programs can read the files.
func onceArchive(ns []wire.FabricNodeID, s folder.Once) ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	base := path.Base(stateOnce)
	errs := []error{w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: base + "/", Mode: 0o700, Uid: secretsUser, Gid: secretsUser})}
	for _, n := range ns {
		errs = append(errs, w.WriteHeader(&tar.Header{Name: path.Join(base, folder.OnceName(n)), Mode: 0o600, Uid: secretsUser, Gid: secretsUser, Size: int64(len(text))}))
		_, err := w.Write(text)
		errs = append(errs, err)
	}
	return b.Bytes(), errors.Join(append(errs, w.Close())...)
}

// recordOnce writes settings into the containers' volume, so that each of the chips ns
// makes a recording at its next start. recordOnce also writes into the run folder which
// folder of this machine will get these recordings.
func (h Host) recordOnce(ctx context.Context, ns []wire.FabricNodeID, there map[wire.FabricNodeID]container, rec spec.Records) error {
	id, err := h.reader(ctx, ns, there, rec)
	if err != nil {
		return err
	}
	name := onceFolder(rec.Record)
	if !slices.Contains(h.Spec.RecordOnce, rec.Record) {
		h.Spec.RecordOnce = append(h.Spec.RecordOnce, rec.Record)
		if err := h.Dir.WriteSpec(&h.Spec); err != nil {
			return err
		}
	}
	b, err := onceArchive(ns, folder.Once{Record: path.Join(stateRecord, name), RecordMiB: rec.RecordMiB})
	if err == nil {
		err = copyIn(ctx, id, stateDir, b)
	}
	if err != nil {
		return fmt.Errorf("--record %s: cannot write to the containers' volume: %w", rec.Record, err)
	}
	return nil
}

// forgetOnce replaces the settings of recordOnce by empty settings. The caller calls forgetOnce if
// the start of the chips ns fails.
func (h Host) forgetOnce(ns []wire.FabricNodeID, there map[wire.FabricNodeID]container) {
	ctx := context.Background()
	if id, err := h.reader(ctx, ns, there, spec.Records{}); err == nil {
		if b, err := onceArchive(ns, folder.Once{}); err == nil {
			_ = copyIn(ctx, id, stateDir, b) // the caller reports the error of the start
		}
	}
}

// Recordable returns an error if chip n cannot make the recording rec.Record at its next start. A
// command that restarts the chip calls Recordable before the command kills the chip.
func (h Host) Recordable(ctx context.Context, n wire.FabricNodeID, rec spec.Records) error {
	if rec.Record == "" {
		return nil
	}
	_, err := h.reader(ctx, []wire.FabricNodeID{n}, h.byChip(), rec)
	return err
}

// reader returns the id of a container whose volume can get the settings for one start.
// The container is that of the first chip of ns, if the chip has a container. Otherwise
// reader returns another container of the fabric. reader returns an error if the
// containers do not read settings for one start, or if the name rec.Record is too long.
func (h Host) reader(ctx context.Context, ns []wire.FabricNodeID, there map[wire.FabricNodeID]container, rec spec.Records) (string, error) {
	if len(onceFolder(rec.Record)) > maxFileName {
		return "", spec.Usagef("--record %s: the name is too long; containers accept a name of at most %d characters, and each '/' counts as three characters", rec.Record, maxFileName)
	}
	c, ok := there[ns[0]]
	for _, other := range there {
		if !ok {
			c, ok = other, true
		}
	}
	if !ok {
		return "", fmt.Errorf("no container of fabric %q is left; 'ttfabric up --record DIR' starts all chips and records every start", h.Dir.Name())
	}
	out, err := docker(ctx, "inspect", "--type", "container", "--format", "{{json .Config.Cmd}}", c.id)
	if err == nil && !strings.Contains(string(out), `"--once"`) {
		err = spec.Usagef("--record: an older 'ttfabric compose' wrote the compose file of container %s, and a chip of such a file cannot record a single start; write the compose file again, and bring the fabric up again", c.name)
	}
	return c.id, err
}
