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
	"time"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/transport/pki"
)

// Containers write recordings and the logged secrets of their connections into their
// volume. This program copies these files to folders of this machine. The names of
// these folders come from labels and the run folder, which no container can change.
// Therefore no container can choose the place of written files on this machine.

// recordTime is the longest time for the copy of recordings. Other calls of the engine
// have less time.
const recordTime = time.Hour

// maxFileName is the longest name of a file, in bytes (NAME_MAX of limits.h).
const maxFileName = 255

// recordingName and keylogName match the names of the files that this program copies
// from the volume. Chips choose these names in package node and package process.
var (
	recordingName = regexp.MustCompile(`^chip-M\d+D\d+-[0-9a-f]{16}\.ttrec$`)
	keylogName    = regexp.MustCompile(`^keylog-M\d+D\d+\.txt$`)
)

// onceFolder returns the name of a folder in the volume. This folder holds recordings
// of single starts that belong to the folder dir of this machine.
func onceFolder(dir string) string { return url.PathEscape(dir) }

// places returns the folders of this machine to which recordings are copied. The keys
// are the last names of the volume's folders from which recordings are copied.
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

// copyRecordings copies recordings from the volume of a container. The parameter "from"
// names a file, or a folder with files and subfolders. If places lacks the folder of a
// recording, copyRecordings copies the recording to the folder strange. If strange is
// "", copyRecordings does not copy such recordings, and the error names their folders.
func copyRecordings(ctx context.Context, id, from string, places map[string]string, strange string) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	unknown := map[string]bool{}
	err := copyOut(ctx, id, from, spec.MaxRecordMiB<<21, func(folder, name string, r io.Reader) error {
		if !recordingName.MatchString(name) {
			return nil
		}
		if folder == "." { // a single file comes without its folder
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
		return fmt.Errorf("the containers have recordings for %s, but the run folder with these names is gone; 'ttfabric down --recordings DIR' copies the recordings to DIR", strings.Join(slices.Sorted(maps.Keys(unknown)), ", "))
	}
	return err
}

// rescue copies the recordings and logged secrets of a fabric's containers, before the
// removal of the containers' volume. If rescue returns an error, the volume must stay.
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

// copyBack copies recordings and logged secrets from the volume of a container to their folders on this machine.
func (h Host) copyBack(ctx context.Context, id string) error {
	return errors.Join(copyRecordings(ctx, id, stateRecord, places(&h.Spec), h.Strange), h.copyKeylog(ctx, id))
}

// orphans copies recordings, logged secrets and the archive from volumes without
// containers. A volume's labels name the folders of this machine and an image. From
// this image, orphans makes a container to read the volume.
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
			continue // the user asked for no recordings, secrets or archive
		}
		if err != nil {
			return fmt.Errorf("cannot copy the recordings from volume %s: %w", volume, err)
		}
		id := strings.TrimSpace(string(out))
		if err = h.copyBack(ctx, id); err == nil && h.Spec.Archive != "" {
			err = h.copyArchive(ctx, id)
		}
		if errors.Is(err, errNotThere) {
			err = nil // no chip has written such a file yet
		}
		if _, left := docker(ctx, "rm", id); err != nil || left != nil {
			return errors.Join(err, left)
		}
	}
	return nil
}

// saveAs writes the content of r in one step to the file that the parameter "to" names.
// Only the owner can read the file. If saveAs fails, the old file stays.
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

// Recording copies the file of an ended recording from the volume to its folder on this
// machine, and returns the file's path on this machine.
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

// KeyLog copies the secrets of connections that containers have logged so far to the folder of --keylog.
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

// copyKeylog adds the lines that containers have logged to the files in the folder of --keylog.
func (h Host) copyKeylog(ctx context.Context, id string) error {
	if h.Spec.KeyLog == "" {
		return nil
	}
	err := copyOut(ctx, id, stateKeylog, maxCopied, func(_, name string, r io.Reader) error {
		if !keylogName.MatchString(name) {
			return nil
		}
		return addLines(filepath.Join(h.Spec.KeyLog, name), r)
	})
	if err == nil || errors.Is(err, errNotThere) {
		return nil
	}
	return fmt.Errorf("cannot copy the secrets of connections to %s: %w", h.Spec.KeyLog, err)
}

// addLines appends lines of r to the file that the parameter "to" names. addLines
// leaves out lines that the file has already. Only the owner can read the file. If the
// last line of r has no line feed, the line is incomplete, and addLines leaves out this
// line.
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

// labelled sets the folders in m, for recordings, logged secrets, certificates and
// the archive, from the labels of the fabric with the given name.
func labelled(m *spec.Spec, name string, labels map[string]string) {
	m.Record, m.KeyLog, m.PKI, m.Archive = labels[labelRecord], labels[labelKeylog], labels[labelPKI], ""
	if dir := labels[labelArchive]; dir != "" {
		m.Archive = filepath.Join(dir, name)
	}
}

// composed adds values to m that no chip knows. The values come from the compose file
// that made a container: the folders of this machine in the container's labels, and the
// file with the gossip keys.
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
