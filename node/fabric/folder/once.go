package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ttfabric/wire"
)

// Once are settings of one start of a chip, for a container, whose command
// cannot be changed: a file CHIP.json of the volume, in the folder of 'node
// --once'. The chip removes the file when it reads the file.
type Once struct {
	Record    string `json:"record,omitempty"`                 // as 'node --record'
	RecordMiB int    `json:"record_limit_mebibytes,omitempty"` // as 'node --record-limit'
}

// OnceName is the name of a chip's file.
func OnceName(n wire.FabricNodeID) string { return n.String() + ".json" }

// TakeOnce reads and removes what a folder says of a chip's start; a folder without such a file says nothing.
func TakeOnce(dir string, n wire.FabricNodeID) (s Once, err error) {
	if dir == "" {
		return s, nil
	}
	file := filepath.Join(dir, OnceName(n))
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = os.Remove(file) // before it is looked at: a damaged file stops one start alone
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("--once: %s: %w", file, err)
	}
	return s, nil
}
