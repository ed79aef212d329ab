package container

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/transport/pki"
)

// Containers write recordings and the logged secrets of QUIC connections into their volume.
// The functions in this file copy recordings and secrets to folders of this machine. The
// paths of these folders come from labels and from the run folder, which no container can
// change. Therefore no container can choose a path on this machine.

// recordTime is the longest time that a copy of recordings may take. A recording may be
// large, so that recordTime is longer than the limits of other calls of the engine.
const recordTime = time.Hour

// maxFileName is the length of the longest file name, in bytes (NAME_MAX of limits.h).
const maxFileName = 255

// recordingName and keylogName return patterns of the names of the files that this program copies
// from the volume. Chips choose these names in package node and package process.
var (
	recordingName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^chip-M\d+D\d+-[0-9a-f]{16}\.ttrec$`) })
	keylogName    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^keylog-M\d+D\d+\.txt$`) })
)

// onceFolder returns the name of a folder in the volume. This folder gets the recordings of single
// starts that the user wants in the folder dir of this machine.
func onceFolder(dir string) string { return url.PathEscape(dir) }

// places returns the folders of this machine that get copies of recordings. The key of each is the
// name, without the path, of the folder in the volume that has these recordings.
func places(m *spec.Spec) map[string]string {
	out := map[string]string{}
	for _, dir := range m.RecordOnce {
		out[onceFolder(dir)] = dir
	}
	if m.Record != "" {
		out[path.Base(stateRecord)] = m.Record
	}
	return out
}

// copyRecordings copies recordings from the volume of a container to the folders in places. The
// parameter "from" is the path of a recording, or of a folder with recordings. If places has no key
// for the folder of a recording, copyRecordings copies the recording to the folder "strange". If
// strange is also "", copyRecordings returns an error that names the folder.
func copyRecordings(ctx context.Context, id, from string, places map[string]string, strange string) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	unknown := map[string]bool{}
	err := copyOut(ctx, id, from, spec.MaxRecordMiB<<21, func(folder, name string, r io.Reader) error {
		if !recordingName().MatchString(name) {
			return nil
		}
		if folder == "." { // 'docker cp' gives the name of a single file without a folder
			folder = path.Base(path.Dir(from))
		}
		to, ok := places[folder]
		if !ok {
			to = strange
		}
		if to == "" {
			if dir, err := url.PathUnescape(folder); err == nil {
				folder = dir
			}
			unknown[folder] = true
			return nil
		}
		err := os.MkdirAll(to, 0o700)
		if err == nil {
			err = saveAs(filepath.Join(to, name), r)
		}
		if err != nil {
			return fmt.Errorf("cannot copy the recordings to %s: %w", to, err)
		}
		return nil
	})
	switch {
	case errors.Is(err, errNotThere):
		return nil // no chip has recorded anything yet
	case err == nil && len(unknown) > 0:
		return fmt.Errorf("the containers have recordings for %s, but the run folder that allows copies to these folders does not exist any more; 'ttfabric down --recordings DIR' copies the recordings to DIR", strings.Join(slices.Sorted(maps.Keys(unknown)), ", "))
	}
	return err
}

// rescue copies recordings and logged secrets from the containers' volume to this machine, before
// the caller removes the volume. If Discard is set, rescue copies nothing. If rescue returns an
// error, the caller must not remove the volume.
func (h Host) rescue(ctx context.Context, ids []string) (err error) {
	ctx = context.WithoutCancel(ctx)
	switch {
	case h.Discard:
		return nil
	case len(ids) == 0:
		err = h.orphans(ctx)
	default:
		err = h.copyBack(ctx, ids[0])
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; nothing was removed, and all recordings are still in the containers' volume; 'ttfabric down --discard-recordings' removes everything without copying", err)
}

// copyBack copies recordings and logged secrets from the volume of a container to folders
// on this machine.
func (h Host) copyBack(ctx context.Context, id string) error {
	return errors.Join(copyRecordings(ctx, id, stateRecord, places(&h.Spec), h.Strange), h.copyKeylog(ctx, id))
}

// orphans copies recordings, logged secrets and the event archive from volumes whose containers do
// not exist any more. A volume's labels name the folders of this machine and an image. orphans
// makes a container of this image, because the engine copies files only from a container.
func (h Host) orphans(ctx context.Context) error {
	fabric := h.Dir.Name()
	out, err := docker(ctx, "volume", "ls", "-q", "--filter", "label="+labelFabric+"="+fabric, "--filter", "label="+labelImage)
	if err != nil {
		return err
	}
	for _, volume := range strings.Fields(string(out)) {
		if out, err = docker(ctx, "volume", "inspect", "--format", "{{json .Labels}}", volume); err != nil {
			return err
		}
		labels := map[string]string{}
		if err := json.Unmarshal(out, &labels); err != nil {
			return fmt.Errorf("docker volume inspect: %w", err)
		}
		labelled(&h.Spec, fabric, labels)
		out, err := docker(ctx, "create", "--label", labelFabric+"="+fabric, "--volume", volume+":"+stateDir, labels[labelImage])
		if err != nil && len(places(&h.Spec)) == 0 && h.Spec.KeyLog == "" && h.Spec.Archive == "" {
			continue // there is nothing to copy, because the fabric kept no recordings, secrets or archive on this machine
		}
		if err != nil {
			return fmt.Errorf("cannot copy the recordings from volume %s: %w", volume, err)
		}
		id := strings.TrimSpace(string(out))
		if err = h.copyBack(ctx, id); err == nil && h.Spec.Archive != "" {
			err = h.copyArchive(ctx, id)
		}
		if errors.Is(err, errNotThere) {
			err = nil // no chip has written an archive
		}
		if _, left := docker(ctx, "rm", id); err != nil || left != nil {
			return errors.Join(err, left)
		}
	}
	return nil
}

// saveAs writes the content of r to the file named "to", in one step. Only the owner can read
// the file. If saveAs fails, the old file stays unchanged.
func saveAs(to string, r io.Reader) error {
	f, err := os.CreateTemp(filepath.Dir(to), ".copy-*") // the new file has mode 0600
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

// Recording copies the file of an ended recording from the containers' volume to this machine. The
// parameter "file" is the path in the container. Recording returns the path on this machine.
func (h Host) Recording(ctx context.Context, file string) (string, error) {
	folder, name := path.Base(path.Dir(file)), path.Base(file)
	from := path.Join(stateRecord, name)
	if folder != path.Base(stateRecord) {
		from = path.Join(stateRecord, folder, name)
	}
	err := errors.New("no container is left from which the recording can be copied")
	for _, c := range h.list() {
		if err = copyRecordings(ctx, c.id, from, places(&h.Spec), ""); err == nil {
			break
		}
	}
	return filepath.Join(places(&h.Spec)[folder], name), err
}

// KeyLog copies the secrets of QUIC connections that containers have logged so far to the
// folder of --keylog.
func (h Host) KeyLog(ctx context.Context) (err error) {
	if h.Spec.KeyLog == "" {
		return nil
	}
	for _, c := range h.list() {
		if err = h.copyKeylog(ctx, c.id); err == nil {
			break
		}
	}
	return err
}

// copyKeylog appends the secrets of QUIC connections that containers have logged to the
// files in the folder of --keylog.
func (h Host) copyKeylog(ctx context.Context, id string) error {
	if h.Spec.KeyLog == "" {
		return nil
	}
	err := copyOut(ctx, id, stateKeylog, maxCopied, func(_, name string, r io.Reader) error {
		if !keylogName().MatchString(name) {
			return nil
		}
		return addLines(filepath.Join(h.Spec.KeyLog, name), r)
	})
	if err == nil || errors.Is(err, errNotThere) {
		return nil
	}
	return fmt.Errorf("cannot copy the secrets of connections to %s: %w", h.Spec.KeyLog, err)
}

// addLines appends the lines of r to the file named "to", except lines that the file has
// already. If the last line of r has no line feed, addLines leaves out the line as
// incomplete. Only the owner can read the file.
func addLines(to string, r io.Reader) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var add bytes.Buffer
	has := map[string]bool{}
	err = f.Chmod(0o600)
	for i, from := range []io.Reader{f, r} {
		for b := bufio.NewReader(from); err == nil; {
			var line string
			if line, err = b.ReadString('\n'); err == nil && !has[line] {
				has[line] = true
				if i == 1 {
					add.WriteString(line)
				}
			}
		}
		if err == io.EOF {
			err = nil
		}
	}
	if err == nil && add.Len() > 0 {
		_, err = f.Write(add.Bytes())
	}
	return err
}

// labelled sets the folders for recordings, logged secrets, certificates and the archive in m from
// the labels of a fabric's container or volume. The parameter "name" is the fabric's name.
func labelled(m *spec.Spec, name string, labels map[string]string) {
	m.Record, m.KeyLog, m.PKI, m.Archive = labels[labelRecord], labels[labelKeylog], labels[labelPKI], ""
	if dir := labels[labelArchive]; dir != "" {
		m.Archive = filepath.Join(dir, name)
	}
}

// composed sets in m the paths that no chip knows: the folders of this machine, and the file with the
// gossip keys. composed reads these paths from the labels and mounts of the container with the given id.
func composed(ctx context.Context, m *spec.Spec, id string) error {
	out, err := docker(ctx, "inspect", "--type", "container", "--format", `{"Labels": {{json .Config.Labels}}, "Mounts": {{json .Mounts}}}`, id)
	if err != nil {
		return err
	}
	var c struct {
		Labels map[string]string
		Mounts []mount
	}
	if err := json.Unmarshal(out, &c); err != nil {
		return fmt.Errorf("docker inspect: %w", err)
	}
	labelled(m, c.Labels[labelFabric], c.Labels)
	m.GossipKeys = ""
	for _, x := range c.Mounts {
		if x.Destination == pki.Mounted+"/"+folder.KeysFile {
			m.GossipKeys = x.Source
		}
	}
	return nil
}
