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

// Containers record, and log the secrets of their connections, into their
// volume. Where that goes on this machine is said by what a container cannot
// change, its labels and the run folder: none of them chooses what is written here.

// recordTime is how long copying recordings may take, where all else has less.
const recordTime = time.Hour

// maxFileName is the longest name of a file, in bytes (NAME_MAX of limits.h).
const maxFileName = 255

// recordingName and keylogName are what chips call the files that are copied from their volume (node.RecordFile, newLinks).
var (
	recordingName = regexp.MustCompile(`^chip-M\d+D\d+-[0-9a-f]{16}\.ttrec$`)
	keylogName    = regexp.MustCompile(`^keylog-M\d+D\d+\.txt$`)
)

// onceFolder is the name of a folder of this machine as one of a folder in the
// volume: that of recordings of single lives.
func onceFolder(dir string) string { return url.PathEscape(dir) }

// places are the folders of this machine that recordings go to, by the last
// name of the volume's folders that they are in.
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

// copyRecordings copies recordings from the volume of a container: of a file, or
// of a folder and those in it. Those of a folder that is none of places go to
// strange, or, where that is "", are named by the error.
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
			return fmt.Errorf("the recordings cannot be copied to %s: %w", to, err)
		}
		return nil
	})
	switch {
	case errors.Is(err, errNotThere):
		return nil // no chip got so far
	case err == nil && len(unknown) > 0:
		return fmt.Errorf("the containers have recordings for %s, and the run folder that said so is gone; 'ttfabric down --recordings DIR' copies them to DIR", strings.Join(slices.Sorted(maps.Keys(unknown)), ", "))
	}
	return err
}

// rescue copies what a fabric's containers have recorded and logged before
// their volume is removed. The error says that it has to stay.
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
	return fmt.Errorf("%w; it is all still in the containers' volume, and nothing is removed; 'ttfabric down --discard-recordings' goes on without", err)
}

// copyBack copies from the volume of a container whatever belongs on this machine.
func (h Host) copyBack(ctx context.Context, id string) error {
	return errors.Join(copyRecordings(ctx, id, stateRecord, places(&h.Spec), h.Strange), h.copyKeylog(ctx, id))
}

// orphans copies back from volumes that no container is left to be read by:
// they say what they hold, and which image another one can be made of.
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
			continue // nobody asked for anything to be kept
		}
		if err != nil {
			return fmt.Errorf("what was recorded in volume %s cannot be copied: %w", volume, err)
		}
		id := strings.TrimSpace(string(out))
		if err = h.copyBack(ctx, id); err == nil && h.Spec.Archive != "" {
			err = h.copyArchive(ctx, id)
		}
		if errors.Is(err, errNotThere) {
			err = nil // no chip got so far
		}
		if _, left := docker(ctx, "rm", id); err != nil || left != nil {
			return errors.Join(err, left)
		}
	}
	return nil
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
func (h Host) Recording(ctx context.Context, file string) (string, error) {
	folder, name := path.Base(path.Dir(file)), path.Base(file)
	from := path.Join(stateRecord, name)
	if folder != path.Base(stateRecord) {
		from = path.Join(stateRecord, folder, name)
	}
	err := errors.New("there is no container left")
	for _, c := range h.list() {
		if err = copyRecordings(ctx, c.id, from, places(&h.Spec), ""); err == nil {
			break
		}
	}
	return filepath.Join(places(&h.Spec)[folder], name), err
}

// keylog copies the secrets of connections that containers have logged so far to the folder of --keylog.
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

// copyKeylog adds what containers have logged to what is in the folder of --keylog.
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
	return fmt.Errorf("the secrets of connections cannot be copied to %s: %w", h.Spec.KeyLog, err)
}

// addLines appends to a file, which only its owner can read, the lines of r
// that it does not have yet. One that r ends in without a line feed is not whole, and left out.
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

// labelled takes from the labels of the fabric of that name where on this machine recordings,
// secrets and the archive go, and certificates are from.
func labelled(m *spec.Spec, name string, labels map[string]string) {
	m.Record, m.KeyLog, m.PKI, m.Archive = labels[labelRecord], labels[labelKeylog], labels[labelPKI], ""
	if dir := labels[labelArchive]; dir != "" {
		m.Archive = filepath.Join(dir, name)
	}
}

// composed notes what a container says of the compose file that made it, and no chip knows:
// the files of this machine from which it has its keys, and to which recordings and secrets go.
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
