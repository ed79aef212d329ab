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

// onceArchive is a tar archive, for the volume, of the settings of some chips: for the image's user alone.
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

// recordOnce has the next life of some chips recorded, and notes which folder of this machine that is for.
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
		return fmt.Errorf("--record: the containers' volume cannot be written: %w", err)
	}
	return nil
}

// forgetOnce takes it back, where the chips did not start.
func (h Host) forgetOnce(ns []wire.FabricNodeID, there map[wire.FabricNodeID]container) {
	ctx := context.Background()
	if id, err := h.reader(ctx, ns, there, spec.Records{}); err == nil {
		if b, err := onceArchive(ns, folder.Once{}); err == nil {
			_ = copyIn(ctx, id, stateDir, b) // the start's own error is what is told
		}
	}
}

// recordable says why a chip cannot be recorded as rec says, before it is killed for that.
func (h Host) Recordable(ctx context.Context, n wire.FabricNodeID, rec spec.Records) error {
	if rec.Record == "" {
		return nil
	}
	_, err := h.reader(ctx, []wire.FabricNodeID{n}, h.byChip(), rec)
	return err
}

// reader is a container through which the volume is reached, whose chips read
// such settings: that of the first chip, or where it has none, another.
func (h Host) reader(ctx context.Context, ns []wire.FabricNodeID, there map[wire.FabricNodeID]container, rec spec.Records) (string, error) {
	if len(onceFolder(rec.Record)) > maxFileName {
		return "", spec.Usagef("--record %s: containers take a folder whose name has at most %d characters, and three for each '/'", rec.Record, maxFileName)
	}
	c, ok := there[ns[0]]
	for _, other := range there {
		if !ok {
			c, ok = other, true
		}
	}
	if !ok {
		return "", fmt.Errorf("no container of fabric %q is left; 'ttfabric up --record DIR' records every life of every chip", h.Dir.Name())
	}
	out, err := docker(ctx, "inspect", "--type", "container", "--format", "{{json .Config.Cmd}}", c.id)
	if err == nil && !strings.Contains(string(out), `"--once"`) {
		err = spec.Usagef("--record: container %s was made from a compose file of an older 'ttfabric compose', and a container's command cannot be changed; make the file anew, and the fabric", c.name)
	}
	return c.id, err
}
