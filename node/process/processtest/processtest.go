// Package processtest helps tests whose chips are processes of the test binary itself.
package processtest

import (
	"os"
	"testing"

	"ttfabric/node/kernel"
	"ttfabric/node/process"
)

// Main runs the tests of m, and ends the process. If the first argument of the test binary is
// "node", Main runs a chip instead, which can run the kernels of the tables. The tests get an empty
// folder for the run folders of their fabrics, and find no container engine.
//
// A TestMain that starts fabrics calls fabric.ServesChips before it calls Main.
func Main(m *testing.M, kernels ...kernel.Table) {
	if len(os.Args) > 1 && os.Args[1] == "node" {
		process.Main(nil, kernels...)
	}
	os.Exit(run(m))
}

// run runs the tests of m in a folder that run makes and removes. run returns the exit code.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tt") // a short name, because the path of a Unix socket has at most 107 bytes
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("XDG_RUNTIME_DIR", dir)
	os.Setenv("DOCKER_HOST", "unix://"+dir+"/no-engine.sock")
	return m.Run()
}
