// Package folder reads and writes the run folder of one fabric on this machine. A run
// folder has these files:
//
//	topology.yaml     the topology, as a topology file
//	topology.packed   the same topology in a form that chips read quickly; a chip ignores this file if the two topologies differ
//	mesh.json         the fabric's [spec.Spec]; written last, so that a folder with this file is complete
//	gossip-keys.json  keys of encrypted gossip, mode 0600
//	psk.key           pre-shared key of the links, with --auth psk; mode 0600
//	pki/              certificates of the chips for QUIC, if 'up' made them
//	secrets/          copies of the keys and certificates, for containers; see package container
//	sockets/          the chips' Unix sockets, in a fabric of containers; see package container
//	compose.yml       compose file of a fabric of containers; see package container
//	engine.json       ids of the containers; see package container
//	token             bearer token of the chips' APIs, mode 0600
//	launching         exists while a command starts chips
//	model.sock        Unix socket of a model, see package control
//	model.log         log of a model
//	from.json         snapshot from which a model goes on
//	chip-M0D0.json    process and addresses of a running chip ([Chip]); each chip writes its own file
//	chip-M0D0.log     log of the chip
//	chip-M0D0.sock    Unix socket for local programs, mode 0600; see package attach
//	archive/          files of each chip with its events; see package archive; 'up --archive' names another folder
//
// The functions that read a run folder change nothing in the folder.
package folder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ttfabric/node/archive"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Dir is the path of a run folder. The last part of the path is the fabric's name.
type Dir string

// Names of files in the run folder.
const (
	topologyFile = "topology.yaml"
	packedFile   = "topology.packed"
	launchFile   = "launching"
	specFile     = "mesh.json"
	tokenFile    = "token"
)

// Chip holds the process or container of a running chip, and the chip's addresses.
type Chip struct {
	Chip    wire.FabricNodeID `json:"chip"`            // the chip
	PID     int               `json:"pid"`             // id of the chip's process
	Started uint64            `json:"started_ticks"`   // start of the process in clock ticks since boot; a later process with the same id has another start
	API     string            `json:"api"`             // address of the chip's API, as host:port
	Gossip  string            `json:"gossip"`          // address in the gossip pool of the chip's mesh
	Exits   string            `json:"exits,omitempty"` // address in the gossip pool of exit nodes; "": the chip is not in this pool
	Ports   Ports             `json:"ports,omitzero"`  // UDP ports at the address of Gossip

	Socket string `json:"socket,omitempty"` // path of the Unix socket for local programs, see package attach; "": the chip has no such socket

	Container string `json:"container,omitempty"` // id of the chip's container; "": the chip runs in a process without a container
	Name      string `json:"name,omitempty"`      // name of the chip's container
}

// Ports holds the UDP port of each ethernet channel of a chip, by number of the channel. The port of a
// channel without a cable is 0.
type Ports [wire.MaxChannels]uint16

// Exit says that the process or container of a chip ended, and with which error.
type Exit struct {
	Chip wire.FabricNodeID
	Err  error // error of [exec.Cmd.Wait]; nil: the exit code was 0
}

// How returns the exit code of the process, and in words how the process ended. If a signal ended the
// process, the code is 128 plus the number of the signal.
func (e *Exit) How() (code int, words string) { return Ended(e.Err) }

// Ended returns what [Exit.How] returns, for any process. The parameter err is the error of
// [exec.Cmd.Wait].
func Ended(err error) (code int, words string) {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // a child of the process held the process's output open
		return 0, "with exit code 0"
	case !errors.As(err, &exit):
		return 1, "with an error: " + err.Error()
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal()), "by the signal " + s.Signal().String()
	}
	return exit.ExitCode(), fmt.Sprintf("with exit code %d", exit.ExitCode())
}

// Where returns the name of the process or container of a running chip, for messages. An
// example is "process 7".
func (c *Chip) Where() string {
	switch {
	case c.Container != "":
		return "container " + c.Name
	case c.PID == 0:
		return "the process with its API at " + c.API
	}
	return fmt.Sprintf("process %d", c.PID)
}

// Alive reports whether the chip's process runs. A later process with the same process id
// does not count.
func (c *Chip) Alive() bool { return c.PID > 0 && StartTicks(c.PID) == c.Started && c.Started != 0 }

// SortChips orders chips by mesh and number.
func SortChips(cs []Chip) {
	slices.SortFunc(cs, func(a, b Chip) int {
		return cmp.Or(cmp.Compare(a.Chip.Mesh, b.Chip.Mesh), cmp.Compare(a.Chip.Chip, b.Chip.Chip))
	})
}

// Root returns the folder of all fabrics of this user: $XDG_RUNTIME_DIR/ttfabric,
// or ttfabric-UID in the folder for temporary files.
func Root() string {
	// A relative path is invalid, and programs ignore relative paths (XDG Base Directory
	// Specification, "Basics").
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "ttfabric")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("ttfabric-%d", os.Getuid()))
}

// For returns the path of the run folder of the fabric with the given name. The folder
// need not exist. For returns an error if [spec.CheckName] refuses the name, or if another
// user could have written files in [Root] or in the run folder.
func For(name string) (Dir, error) {
	if err := spec.CheckName(name); err != nil {
		return "", err
	}
	d := Dir(filepath.Join(Root(), name))
	return d, errors.Join(private(Root()), d.Check())
}

// All returns the paths of all run folders of this user. A folder in the list may be
// incomplete. All returns an error if another user could have written files in [Root]. All
// leaves out each folder that [Dir.Check] refuses, and each name that begins with a dot.
func All() (out []Dir, err error) {
	if err := private(Root()); err != nil {
		return nil, err
	}
	ents, _ := os.ReadDir(Root())
	for _, e := range ents {
		d := Dir(filepath.Join(Root(), e.Name()))
		if !strings.HasPrefix(e.Name(), ".") && d.Check() == nil {
			out = append(out, d)
		}
	}
	return out, nil
}

// Check returns an error if another user could have written the folder's files. The files name
// processes, and commands stop these processes. The folder need not exist.
func (d Dir) Check() error { return private(string(d)) }

// private returns an error if a path is no folder, belongs to another user, or can be written by
// other users. If the path does not exist, private returns nil.
func private(path string) error {
	const wayOut = "set XDG_RUNTIME_DIR to a folder that belongs to you alone"
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%w; %s", err, wayOut)
	case !fi.IsDir():
		return fmt.Errorf("%s is no folder; %s", path, wayOut)
	}
	if owner := fi.Sys().(*syscall.Stat_t).Uid; owner != uint32(os.Getuid()) {
		return fmt.Errorf("%s belongs to another user, with uid %d; %s", path, owner, wayOut)
	}
	if mode := fi.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s has mode %04o, so other users can write there; run 'chmod 700 %s', or %s", path, mode, path, wayOut)
	}
	return nil
}

// Name returns the fabric's name.
func (d Dir) Name() string { return filepath.Base(string(d)) }

// Path returns the path of a file in the folder.
func (d Dir) Path(name string) string { return filepath.Join(string(d), name) }

// ChipPath returns the path of the chip's file that ends in ext, such as ".log".
func (d Dir) ChipPath(n wire.FabricNodeID, ext string) string {
	return d.Path("chip-" + n.String() + ext)
}

// Has reports whether the folder exists and is complete.
func (d Dir) Has() bool {
	_, err := os.Stat(d.Path(specFile))
	return err == nil
}

// Gone reports whether the folder was removed or is incomplete. If the folder cannot be
// read, Gone returns false.
func (d Dir) Gone() bool {
	_, err := os.Stat(d.Path(specFile))
	return errors.Is(err, fs.ErrNotExist)
}

// Spec reads the spec of the folder's fabric. The error matches [fs.ErrNotExist] if the
// folder does not exist or is incomplete.
func (d Dir) Spec() (s spec.Spec, err error) {
	b, err := ReadPlain(d.Path(specFile))
	if errors.Is(err, fs.ErrPermission) {
		return s, fmt.Errorf("%w; the fabric belongs to another user; run this command as that user, or choose another --name", err)
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%s is damaged: %w; 'ttfabric down' removes the fabric", d.Path(specFile), err)
	}
	return s, nil
}

// WriteSpec replaces the spec of the folder's fabric.
func (d Dir) WriteSpec(s *spec.Spec) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(d.Path(specFile), b)
}

// Topology reads the topology of the folder's fabric.
func (d Dir) Topology() (*topo.Topology, error) {
	b, err := ReadPlain(d.Path(topologyFile))
	if err != nil {
		return nil, err
	}
	if packed, err := ReadPlain(d.Path(packedFile)); err == nil {
		if t, ok := topo.Unpack(packed, b); ok {
			return t, nil
		}
	}
	return topo.Load(d.Path(topologyFile), b)
}

// writeTopology writes the topology's file and its packed form. The packed form holds the topology
// that Load reads from the file. So a chip may read either of the two.
func (d Dir) writeTopology(t *topo.Topology) error {
	text := t.Encode()
	loaded, err := topo.Load(d.Path(topologyFile), text)
	if err != nil {
		return err
	}
	return errors.Join(WriteFile(d.Path(topologyFile), text), WriteFile(d.Path(packedFile), loaded.Pack(text)))
}

// TokenPath returns the path of the file with the bearer token of the chips' APIs.
func (d Dir) TokenPath() string { return d.Path(tokenFile) }

// Token reads the bearer token of the chips' APIs.
func (d Dir) Token() (string, error) {
	b, err := ReadPlain(d.Path(tokenFile))
	if err != nil {
		return "", fmt.Errorf("%w; chips answer only commands with this token; 'ttfabric down' removes the fabric", err)
	}
	return string(b), nil
}

// WriteToken replaces the bearer token of the chips' APIs.
func (d Dir) WriteToken(token string) error { return WriteFile(d.Path(tokenFile), []byte(token)) }

// Create makes the folder of a new fabric. The parameter "also" has functions that write
// further files. Create calls these functions before the folder counts as complete. If
// Create fails, an incomplete folder may stay.
func (d Dir) Create(t *topo.Topology, s *spec.Spec, token string, also ...func(Dir) error) error {
	if err := os.Mkdir(string(d), 0o700); err != nil {
		return fmt.Errorf("cannot make the run folder: %w", err)
	}
	for _, f := range also {
		if err := f(d); err != nil {
			return err
		}
	}
	return errors.Join(d.writeTopology(t), d.WriteToken(token), d.WriteSpec(s))
}

// Remove deletes the folder with all its files.
func (d Dir) Remove() error { return os.RemoveAll(string(d)) }

// WriteChip writes a running chip's process and addresses into the folder.
func (d Dir) WriteChip(c Chip) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return WriteFile(d.ChipPath(c.Chip, ".json"), b)
}

// RemoveChip removes the file that [Dir.WriteChip] wrote.
func (d Dir) RemoveChip(n wire.FabricNodeID) { os.Remove(d.ChipPath(n, ".json")) }

// ChipFiles reads the files that [Dir.WriteChip] wrote, and returns the chips sorted by
// mesh and number. The process of a chip in the list may have ended since then.
func (d Dir) ChipFiles() (out []Chip) {
	names, _ := filepath.Glob(d.Path("chip-*.json"))
	for _, name := range names {
		if c, ok := readChip(name); ok {
			out = append(out, c)
		}
	}
	SortChips(out)
	return out
}

// Launching notes in the folder that a command starts chips, until the caller calls done.
func (d Dir) Launching() (done func(), err error) {
	path := d.Path(launchFile)
	return func() { os.Remove(path) }, WriteFile(path, nil)
}

// IsLaunching reports whether a command starts chips. A command that was killed may have left the
// note that [Dir.Launching] wrote.
func (d Dir) IsLaunching() bool {
	_, err := os.Lstat(d.Path(launchFile))
	return err == nil
}

// RunningChip reads the file of one chip that [Dir.WriteChip] wrote. If there is no such file, or if
// the process of the file has ended, RunningChip returns false.
func (d Dir) RunningChip(n wire.FabricNodeID) (Chip, bool) {
	c, ok := readChip(d.ChipPath(n, ".json"))
	return c, ok && c.Alive()
}

func readChip(path string) (c Chip, ok bool) {
	b, err := ReadPlain(path)
	return c, err == nil && json.Unmarshal(b, &c) == nil
}

// LastWords returns the last line of a chip's log, or "" if the chip has no log.
func (d Dir) LastWords(n wire.FabricNodeID) string {
	return d.LastLine(filepath.Base(d.ChipPath(n, ".log")))
}

// OpenLog opens a log of the folder for writing, and empties the log.
func (d Dir) OpenLog(name string) (*os.File, error) {
	f, err := os.OpenFile(d.Path(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log: %w", err)
	}
	return f, nil
}

// LastLine returns the last line of a log of the folder, or "" if there is no such log.
func (d Dir) LastLine(name string) string {
	b, _ := ReadPlain(d.Path(name))
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.TrimPrefix(lines[len(lines)-1], "ttfabric: ")
}

// archiveSegments is the limit of a chip's part of the archive, divided by the size of a
// full segment before compression.
const archiveSegments = 8

// ArchiveDir returns the folder of the fabric's event archive.
func (d Dir) ArchiveDir(s *spec.Spec) string { return cmp.Or(s.Archive, d.Path("archive")) }

// ArchiveConfig returns the configuration of one chip's part of the fabric's event archive.
func (d Dir) ArchiveConfig(s *spec.Spec, n wire.FabricNodeID) archive.Config {
	c := archive.Config{Dir: d.ArchiveDir(s), Name: n.String()}
	if s.ArchiveMiB > 0 {
		c.Limits.TotalBytes = int64(s.ArchiveMiB) << 20
		c.Limits.SegmentBytes = c.Limits.TotalBytes / archiveSegments
	}
	return c
}

// StopTime is how long a command waits for chips to end by themselves. After this time, the command
// kills the chips or returns an error.
const StopTime = 3 * time.Second

// lockPoll is the time between two attempts to take a lock that another process holds.
const lockPoll = 20 * time.Millisecond

// Lock takes the lock of a folder. A process starts or removes chips, or changes keys, only while the
// process holds the lock of the fabric's folder. If another process holds the lock, Lock waits for
// the lock until ctx ends. The caller must call unlock.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, spec.NotReadyf("another ttfabric command holds the lock of %s, for example to start chips; try again after that command", path)
		case <-time.After(lockPoll):
		}
	}
}

// MakeRoot makes the folder whose path [Root] returns. MakeRoot returns an error if the
// folder belongs to another user, or if other users can write there.
func MakeRoot() error {
	root := Root()
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of all fabrics: %w; set XDG_RUNTIME_DIR to a folder that belongs to you", err)
	}
	return private(root)
}

// StartTicks returns the start time of a process in clock ticks since boot (proc(5), /proc/pid/stat
// field 22). StartTicks returns 0 if no process has this id, or if the process is a zombie.
func StartTicks(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return 0
	}
	var v uint64
	fmt.Sscan(f[19], &v)
	return v
}

// Exists reports whether the folder exists, complete or not.
func (d Dir) Exists() bool {
	_, err := os.Stat(string(d))
	return err == nil
}
