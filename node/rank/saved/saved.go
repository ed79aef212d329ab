// Package saved keeps the checkpoints of a job in a folder. Each rank of the job writes its part of a
// checkpoint, see Rank.Save of package rank. 'ttfabric run --checkpoints' restores the memory of all chips
// from the latest checkpoint.
//
// A checkpoint is a folder whose name is the number of the checkpoint in eight digits. While ranks write the
// checkpoint, its name ends in ".partial". The folder has three files for each chip:
//
//	M0D3.mem    memory of the chip's tiles, in the format of package image
//	M0D3.state  bytes that the rank of the chip has given, in a format of its own
//	M0D3.json   a Mark
//
// The functions trust no file. A checkpoint without all files, or of another topology, is an error.
package saved

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ttfabric/node/flow"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Limits of checkpoints.
const (
	Kept     = 2        // number of complete checkpoints that a folder keeps
	MaxState = 64 << 20 // largest state of a rank, in bytes
	maxMark  = 16 << 20 // largest file of a Mark, in bytes
	partial  = ".partial"
)

// Mark says what a rank's part of a checkpoint holds.
type Mark struct {
	Number   int               `json:"number"`   // number of the checkpoint, from 1
	Rank     int               `json:"rank"`     // number of the rank
	Ranks    int               `json:"ranks"`    // number of ranks of the job
	Chip     wire.FabricNodeID `json:"chip"`     // chip of the rank
	Topology string            `json:"topology"` // hash of the fabric's topology, see Hash
	Moment   flow.Moment       `json:"moment"`   // how the chip's requests had ended
	State    int64             `json:"state"`    // length of the rank's state, in bytes
}

// Hash returns the hash of a topology as text.
func Hash(t *topo.Topology) string { return fmt.Sprintf("%016x", t.Hash()) }

// Kind is the ending of the name of one file of a chip.
type Kind string

// The files of a chip.
const (
	Memory Kind = ".mem"
	State  Kind = ".state"
	mark   Kind = ".json"
)

func folder(dir string, number int, ending string) string {
	return filepath.Join(dir, fmt.Sprintf("%08d%s", number, ending))
}

// Path returns the path of a chip's file in a complete checkpoint.
func Path(dir string, number int, chip wire.FabricNodeID, k Kind) string {
	return filepath.Join(folder(dir, number, ""), chip.String()+string(k))
}

// Begin makes the folder of a new checkpoint, and removes what an earlier attempt left of the same
// checkpoint. Only one rank calls Begin, before all other ranks write.
func Begin(dir string, number int) error {
	at := folder(dir, number, partial)
	if err := os.RemoveAll(at); err != nil {
		return err
	}
	return os.MkdirAll(at, 0o700)
}

// Write makes a chip's file of a checkpoint that is not complete yet. The function f writes the content.
// Write returns when the disk has the content.
func Write(dir string, number int, chip wire.FabricNodeID, k Kind, f func(io.Writer) error) error {
	file, err := os.OpenFile(filepath.Join(folder(dir, number, partial), chip.String()+string(k)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = f(file)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Put writes the mark of a rank.
func (m *Mark) Put(dir string) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return Write(dir, m.Number, m.Chip, mark, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// Commit makes a checkpoint complete, and removes older checkpoints except the [Kept] latest. Only one rank
// calls Commit, after all ranks have written their parts.
func Commit(dir string, number int) error {
	if err := os.Rename(folder(dir, number, partial), folder(dir, number, "")); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = errors.Join(d.Sync(), d.Close())
	all, lerr := list(dir)
	for _, n := range all {
		if n <= number-Kept {
			lerr = errors.Join(lerr, os.RemoveAll(folder(dir, n, "")))
		}
	}
	return errors.Join(err, lerr)
}

// list returns the numbers of the complete checkpoints in a folder.
func list(dir string) (out []int, err error) {
	es, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range es {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > 0 && e.IsDir() && folder("", n, "") == e.Name() {
			out = append(out, n)
		}
	}
	return out, err
}

// Latest returns the number of the latest complete checkpoint in a folder. Latest returns 0 if the folder has
// none, or does not exist.
func Latest(dir string) (last int, err error) {
	all, err := list(dir)
	for _, n := range all {
		last = max(last, n)
	}
	return last, err
}

// Marks returns the marks of a complete checkpoint, in the order of the ranks. Marks returns an error if a
// file is missing or damaged, or if the checkpoint is not of a job on the topology t.
func Marks(dir string, number int, t *topo.Topology) ([]Mark, error) {
	out := make([]Mark, len(t.Chips))
	for rank, n := range t.Nodes() {
		path := Path(dir, number, n, mark)
		b, err := read(path, maxMark)
		if err != nil {
			return nil, err
		}
		m := &out[rank]
		if err := json.Unmarshal(b, m); err != nil {
			return nil, fmt.Errorf("%s: the file holds no mark of a checkpoint: %w", path, err)
		}
		switch want := (Mark{number, rank, len(t.Chips), n, Hash(t), m.Moment, m.State}); {
		case m.Topology != want.Topology:
			return nil, fmt.Errorf("%s: the checkpoint is of a fabric with another topology; name another folder", path)
		case m.Number != want.Number || m.Rank != want.Rank || m.Ranks != want.Ranks || m.Chip != want.Chip || m.Moment.Chip != n || m.State < 0 || m.State > MaxState:
			return nil, fmt.Errorf("%s: the mark is not that of rank %d of %d on chip %s in checkpoint %d", path, rank, want.Ranks, n, number)
		}
		if fi, err := os.Stat(Path(dir, number, n, State)); err != nil || fi.Size() != m.State {
			return nil, errors.Join(fmt.Errorf("%s: want a file of %d bytes", Path(dir, number, n, State), m.State), err)
		}
		if _, err := os.Stat(Path(dir, number, n, Memory)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ReadState returns the state that a rank gave to a complete checkpoint.
func ReadState(dir string, number int, chip wire.FabricNodeID) ([]byte, error) {
	return read(Path(dir, number, chip, State), MaxState)
}

// read reads a regular file of at most "limit" bytes.
func read(path string, limit int64) ([]byte, error) {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular() || fi.Size() > limit:
		return nil, fmt.Errorf("%s: want a file of at most %d bytes", path, limit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, io.LimitReader(f, limit)); err != nil {
		return nil, err
	}
	return []byte(b.String()), nil
}
