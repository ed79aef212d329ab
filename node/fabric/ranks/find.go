package ranks

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"ttfabric/node/fabric/spec"
)

// Find returns the path of the executable that the command line names as PROGRAM.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = fmt.Errorf("the program is only in the present folder: write ./%s", filepath.Base(name))
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", spec.Usagef("PROGRAM %s: want an executable file: %w", name, err)
	}
	return path, nil
}

// Check refuses settings that exclude each other, and makes the path of the checkpoints' folder absolute. The
// error is for the user of 'ttfabric run'.
func (j *Job) Check() (err error) {
	switch {
	case j.Restarts < 0 || j.Restarts > MaxRestarts:
		return spec.Usagef("--restart %d: want 0 to %d", j.Restarts, MaxRestarts)
	case j.Keep && j.Restarts > 0:
		return spec.Usagef("--keep-ranks with --restart %d: after the loss of a chip, the ranks either go on or start again; leave out one of the two flags", j.Restarts)
	case j.Checkpoints == "":
		return nil
	case j.AsChip:
		return spec.Usagef("--checkpoints with --as-chip: a rank that is its chip starts together with the chip, so nobody can restore its memory before; leave out one of the two flags")
	}
	j.Checkpoints, err = filepath.Abs(j.Checkpoints)
	return err
}
