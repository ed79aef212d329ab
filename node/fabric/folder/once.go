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

// Once holds settings for the next start of a chip in a container. The settings are in a
// file, because the command of a container cannot be changed. The file CHIP.json is in the
// folder of 'node --once', in the containers' volume. The chip reads and removes the file.
type Once struct {
	Record    string `json:"record,omitempty"`                 // folder for recordings: the value of 'node --record'
	RecordMiB int    `json:"record_limit_mebibytes,omitempty"` // limit of one recording in MiB: the value of 'node --record-limit'
}

// OnceName returns the name of the file with the [Once] settings of a chip, without the folder.
func OnceName(n wire.FabricNodeID) string { return n.String() + ".json" }

// TakeOnce reads and removes the file with the [Once] settings of a chip in the folder dir.
// If there is no file, or if dir is "", TakeOnce returns the zero value.
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
		err = os.Remove(file) // a damaged file is also removed, so that the next start of the chip succeeds
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("--once: cannot use the settings in %s: %w", file, err)
	}
	return s, nil
}
