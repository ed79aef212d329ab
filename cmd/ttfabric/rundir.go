package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// runDir is the folder of one running fabric:
//
//	topology.yaml   the rendered topology
//	mesh.json       how it was started (meshFile)
//	gossip-keys.json  keys of encrypted gossip, mode 0600
//	psk.key         key of sealed links, mode 0600
//	pki/            certificates of the chips, for QUIC, that 'up' made
//	secrets/        copies of these that containers see, see containerkeys.go
//	token           bearer token of the chips' APIs, mode 0600
//	chip-M0D0.json  one per running chip (chipFile), written by the chip itself
//	chip-M0D0.log   what it said
//	archive/        what happened at the chips, in files that each writes for itself (package archive); elsewhere with 'up --archive'
type runDir string

// meshFile says how a fabric was started, so that a chip can be started again alike.
type meshFile struct {
	Name     string    `json:"name"`
	Source   string    `json:"source"`
	Created  time.Time `json:"created"`
	Profile  string    `json:"profile"`
	Slots    string    `json:"slots"`
	Order    string    `json:"order"`
	Ring     string    `json:"ring"`
	Engine   string    `json:"engine"`
	Fabric   string    `json:"fabric"`  // 1d or 2d
	Checked  uint32    `json:"checked"` // hash of the routes that were found free of deadlock, or were to be taken anyway
	Stuck    string    `json:"stuck"`   // what happens to packets that cannot move: notify, drop or drain
	StuckMS  int64     `json:"stuck_after_milliseconds"`
	Local    bool      `json:"local_first"`
	TTL      int       `json:"ttl"`
	PortBase int       `json:"port_base"`
	Netem    []string  `json:"netem,omitempty"`   // impairments from the start, as LINK,KNOB=VALUE,…
	Offload  string    `json:"offload,omitempty"` // of super-packets: on, off, plain
	ID       string    `json:"id"`                // random, the gossip pool's label

	Archive    string `json:"archive,omitempty"`           // folder of the archive; "": in the run folder
	ArchiveMiB int    `json:"archive_limit_mib,omitempty"` // that one chip's part may take; 0: the default
	// Record is where each life of each chip is recorded, in files of at most RecordLimit MiB; empty for nowhere.
	Record      string `json:"record,omitempty"`
	RecordLimit int    `json:"record_limit_mebibytes,omitempty"`
	// RecordOnce are folders for recordings of single lives of containers, which have another one than Record.
	RecordOnce []string `json:"record_once,omitempty"`
	Keyed      bool     `json:"encrypted_gossip"`      // with the keys of the run folder, or of
	GossipKeys string   `json:"gossip_keys,omitempty"` // the file that compose was told to give to containers

	Runtime string `json:"runtime,omitempty"` // "": processes; docker: containers; elsewhere: whatever other machines run
	Project string `json:"project,omitempty"` // of compose, that the containers are in
	// Attached are the APIs through which the chips are found that run elsewhere.
	Attached  []string `json:"attached,omitempty"`
	Transport string   `json:"transport"`        // of the links: udp or quic
	Auth      string   `json:"auth"`             // none, psk or mtls
	PKI       string   `json:"pki,omitempty"`    // folder of the certificates; "": in the run folder
	KeyLog    string   `json:"keylog,omitempty"` // folder for secrets of connections; "": they are not logged
}

// chipFile says where a running chip is. Started is the process's start time
// in clock ticks since boot, so that a recycled process id is not taken for it.
type chipFile struct {
	Chip    wire.FabricNodeID `json:"chip"`
	PID     int               `json:"pid"`
	Started uint64            `json:"started_ticks"`
	API     string            `json:"api"`
	Gossip  string            `json:"gossip"`
	Exits   string            `json:"exits,omitempty"` // gossip address in the pool of exit nodes

	Container string `json:"container,omitempty"` // its id, where the chip runs in one
	Name      string `json:"name,omitempty"`      // and its name
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// runRoot is the folder of all fabrics of this user.
func runRoot() string {
	// A relative path is to be taken for invalid, and ignored (XDG Base Directory Specification, "Basics").
	if d := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
		return filepath.Join(d, "ttfabric")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("ttfabric-%d", os.Getuid()))
}

func dirFor(name string) (runDir, error) {
	if !validName.MatchString(name) {
		return "", coded(exitUsage, "fabric name %q: want letters, digits, '-', '_' and '.', at most 64", name)
	}
	return runDir(filepath.Join(runRoot(), name)), nil
}

func (d runDir) path(name string) string { return filepath.Join(string(d), name) }

func (d runDir) chipPath(n wire.FabricNodeID, ext string) string {
	return d.path("chip-" + n.String() + ext)
}

// create makes the folder of a new fabric.
func (d runDir) create(t *topo.Topology, m meshFile, keys [][]byte, secrets func(runDir) error) error {
	if err := os.Mkdir(string(d), 0o700); err != nil {
		return fmt.Errorf("cannot make the run folder: %w", err)
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if m.Keyed {
		if err := writeFile(d.path(keysFile), keyList(keys)); err != nil {
			return err
		}
	}
	if secrets != nil {
		if err := secrets(d); err != nil {
			return err
		}
	}
	if m.Runtime == runtimeDocker {
		if err := d.share(&m, t); err != nil {
			return err
		}
	}
	return errors.Join(writeFile(d.path("topology.yaml"), t.Encode()), writeFile(d.path("token"), []byte(newToken())), writeFile(d.path("mesh.json"), b))
}

// lockPoll is how often a lock that another process holds is tried again.
const lockPoll = 20 * time.Millisecond

// lockFolder keeps other processes of this program from starting chips in a
// folder at the same time. It waits for those that do, until ctx ends.
func lockFolder(ctx context.Context, path string) (unlock func(), err error) {
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
			return nil, coded(exitNotReady, "another ttfabric is starting chips in %s; try again when it has ended", path)
		case <-time.After(lockPoll):
		}
	}
}

// makeRoot makes the folder of all fabrics.
func makeRoot(root string) error {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return fmt.Errorf("cannot make the run folder: %w; set XDG_RUNTIME_DIR to a folder of yours", err)
	}
	if fi, err := os.Lstat(root); err != nil || !fi.IsDir() || fi.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return fmt.Errorf("run folder %s is not a folder of yours; set XDG_RUNTIME_DIR to one", root)
	}
	return nil
}

// writeFile replaces a file, which only its owner can read, at once or not at all.
func writeFile(path string, b []byte) error { return writeFileAs(path, b, 0o600) }

// writeFileAs is writeFile with a mode, whatever the umask is.
func writeFileAs(path string, b []byte, mode os.FileMode) error {
	return replaceFile(path, b, 0o600, mode)
}

// replaceFile writes a file beside path, with a mode that the umask takes from,
// gives it another mode where that is not 0, and lets it take path's place. Where it fails, path is as it was.
func replaceFile(path string, b []byte, mode, exact os.FileMode) error {
	tmp := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	err := os.WriteFile(tmp, b, mode)
	if err == nil && exact != 0 && exact != mode {
		err = os.Chmod(tmp, exact)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}

// read is how the folder's fabric was started; the error is os.ErrNotExist where there is none.
func (d runDir) read() (m meshFile, err error) {
	b, err := os.ReadFile(d.path("mesh.json"))
	if errors.Is(err, os.ErrPermission) {
		return m, fmt.Errorf("%w; the fabric is another user's: run it as that user, or choose another --name", err)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("%s is damaged: %w; 'ttfabric down' removes it", d.path("mesh.json"), err)
	}
	return m, nil
}

// mesh is the folder's fabric. Containers that carry its name are found without a folder, which is made then.
func (d runDir) mesh() (m meshFile, t *topo.Topology, token string, err error) {
	if m, err = d.read(); errors.Is(err, os.ErrNotExist) || err == nil && m.Runtime == runtimeDocker && (containers{dir: d, m: m}).gone() {
		m, err = d.adopt()
	}
	if err != nil {
		return m, nil, "", err
	}
	b, err := os.ReadFile(d.path("topology.yaml"))
	if err != nil {
		return m, nil, "", err
	}
	if t, err = topo.Load(d.path("topology.yaml"), b); err != nil {
		return m, nil, "", err
	}
	tok, err := os.ReadFile(d.path("token"))
	if err != nil {
		return m, t, "", fmt.Errorf("%w; without it no chip answers: 'ttfabric down' removes the fabric", err)
	}
	return m, t, string(tok), nil
}

// chips are the chips that run, sorted.
func (d runDir) chips() []chipFile { return d.host().chips() }

func (d runDir) chip(n wire.FabricNodeID) (chipFile, bool) {
	for _, c := range d.chips() {
		if c.Chip == n {
			return c, true
		}
	}
	return chipFile{}, false
}

// writeChipFile says in a run folder where a chip is.
func writeChipFile(d runDir, c chipFile) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return writeFile(d.chipPath(c.Chip, ".json"), b)
}

// client opens the API of a chip.
func (d runDir) client(n wire.FabricNodeID) (*api.Client, error) {
	_, t, token, err := d.mesh()
	if err != nil {
		return nil, err
	}
	if _, ok := t.Chip(n); !ok {
		return nil, coded(exitUsage, "chip %s is not in %s", n, t)
	}
	c, ok := d.chip(n)
	if !ok {
		return nil, fmt.Errorf("chip %s is not running; 'ttfabric up' starts what is missing", n)
	}
	return api.NewClient(c.API, token, n, t), nil
}

// clients opens the APIs of all running chips; missing names the others.
func (d runDir) clients() (cs []*api.Client, missing []wire.FabricNodeID, t *topo.Topology, err error) {
	_, t, token, err := d.mesh()
	if err != nil {
		return nil, nil, nil, err
	}
	running := map[wire.FabricNodeID]chipFile{}
	for _, c := range d.chips() {
		running[c.Chip] = c
	}
	for _, c := range t.Chips {
		if f, ok := running[c.Node]; ok {
			cs = append(cs, api.NewClient(f.API, token, c.Node, t))
		} else {
			missing = append(missing, c.Node)
		}
	}
	if len(cs) == 0 {
		return nil, nil, nil, fmt.Errorf("no chip of fabric %q is running; 'ttfabric up' starts them, 'ttfabric down' removes what is left", filepath.Base(string(d)))
	}
	return cs, missing, t, nil
}

// fabricView is what a chip says of its fabric to one who finds it without a run folder.
type fabricView struct {
	Mesh     meshFile `json:"mesh"`
	Topology string   `json:"topology"` // rendered
}
