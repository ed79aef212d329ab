package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// host is what the chips of one fabric run on: processes of this machine,
// containers of an engine, or other machines. All else that a command does, it does through the
// chips' APIs, wherever they run.
type host interface {
	// chips are those that run, paused ones too, sorted.
	chips() []chipFile
	// launch starts chips that don't run, recorded in this life as rec says, where it says anything. Those that end later come by exits.
	launch(ctx context.Context, ns []wire.FabricNodeID, rec recordFlags, exits chan<- exit) error
	// do kills, pauses, resumes or removes a chip, and returns when that has happened.
	do(ctx context.Context, f chipFile, k fault.Kind) error
	// lastWords is the last line of a chip's log.
	lastWords(n wire.FabricNodeID) string
	// archive brings the archive of events in the run folder up to date.
	archive(ctx context.Context) error
	// recording brings the file of a chip's recording that has ended to where people look for it, and says where that is.
	recording(ctx context.Context, file string) (string, error)
	// keylog brings the secrets of connections in the folder of --keylog up to date.
	keylog(ctx context.Context) error
	// remove stops all chips and removes whatever there is of the fabric.
	remove() error
}

// What 'up --runtime' takes, and mesh.json holds for containers.
const (
	runtimeProcess = "process"
	runtimeDocker  = "docker" // an engine that the docker command reaches
)

// runtimeElsewhere is what mesh.json holds for chips that 'attach' has found.
const runtimeElsewhere = "elsewhere"

// host is what the folder's chips run on.
func (d runDir) host() host {
	m, err := d.read()
	switch {
	case err == nil && m.Runtime == runtimeDocker:
		return containers{dir: d, m: m}
	case err == nil && m.Runtime == runtimeElsewhere:
		return elsewhere{d, m}
	}
	return processes{d}
}

// where says what a running chip is to the machine's own tools.
func (c *chipFile) where() string {
	switch {
	case c.Container != "":
		return "container " + c.Name
	case c.PID == 0:
		return "the process with its API at " + c.API
	}
	return fmt.Sprintf("process %d", c.PID)
}

func sortChips(cs []chipFile) {
	slices.SortFunc(cs, func(a, b chipFile) int {
		return cmp.Or(cmp.Compare(a.Chip.Mesh, b.Chip.Mesh), cmp.Compare(a.Chip.Chip, b.Chip.Chip))
	})
}
