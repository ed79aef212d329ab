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
