package fabric

import (
	"context"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// host runs the chips of one fabric: as processes of this machine, as containers
// of an engine, or on other machines. Everything outside this interface goes
// through the chips' APIs, wherever the chips run.
type host interface {
	// Chips returns the running chips, including paused chips, sorted.
	Chips() []folder.Chip
	// Launch starts chips that do not run. The parameter "rec" says where the chips are
	// recorded from this start on. The zero value of rec keeps the fabric's recording
	// options. The channel "exits" gets the chips that end later.
	Launch(ctx context.Context, ns []wire.FabricNodeID, rec spec.Records, exits chan<- folder.Exit) error
	// Do kills, pauses, resumes or removes a chip, and returns when that is done.
	Do(ctx context.Context, c folder.Chip, k fault.Kind) error
	// LastWords returns the last line of a chip's log.
	LastWords(n wire.FabricNodeID) string
	// Archive brings the archive of events in the run folder up to date.
	Archive(ctx context.Context) error
	// Recording copies the file of an ended recording to the folder of --record, if
	// the file is elsewhere, and returns the file's path.
	Recording(ctx context.Context, file string) (string, error)
	// KeyLog brings the logged secrets in the folder of --keylog up to date.
	KeyLog(ctx context.Context) error
	// Remove stops all chips, and removes the run folder and everything else of the fabric.
	Remove() error
}

func hostOf(dir folder.Dir, s *spec.Spec) host {
	switch s.Runtime {
	case spec.Docker:
		return container.Host{Dir: dir, Spec: *s}
	case spec.Elsewhere:
		return attached{dir, *s}
	}
	return processes{dir, s.Program}
}

func (f *Fabric) host() host { return hostOf(f.Dir, &f.Spec) }

// Archive brings the archive of events in the run folder up to date.
func (f *Fabric) Archive(ctx context.Context) error { return f.host().Archive(ctx) }

// Recording copies the file of an ended recording to the folder of --record, if
// the file is elsewhere, and returns the file's path.
func (f *Fabric) Recording(ctx context.Context, file string) (string, error) {
	return f.host().Recording(ctx, file)
}

// KeyLog brings the logged secrets of QUIC connections in the folder of --keylog up to date.
func (f *Fabric) KeyLog(ctx context.Context) error { return f.host().KeyLog(ctx) }

// LastWords returns the last line of a chip's log.
func (f *Fabric) LastWords(n wire.FabricNodeID) string { return f.host().LastWords(n) }

// Attached reports whether the chips run on other machines. Such chips can be
// started and stopped only on their own machines.
func (f *Fabric) Attached() bool { return f.Spec.Runtime == spec.Elsewhere }

// Remove stops all chips, and removes the run folder and everything else of the fabric.
// For an attached fabric, Remove only removes the run folder.
func (f *Fabric) Remove() error { return f.host().Remove() }

// Removed says what [Remove] found and did.
type Removed uint8

// Values of [Removed].
const (
	Nothing   Removed = iota // there was no fabric of that name
	Stopped                  // the fabric's chips have been stopped
	Forgotten                // the fabric's chips continue to run on other machines
)

// Remove stops the chips of the fabric in a run folder and removes everything of the
// fabric, also after a crash. For containers with discard, Remove does not copy
// recordings and logged secrets first. The parameter "strange" names a folder for
// recordings of containers whose own folder is not known any more.
func Remove(dir folder.Dir, discard bool, strange string) (Removed, error) {
	s, err := dir.Spec()
	if err != nil && !dir.Exists() { // there may be containers whose run folder no command has made yet
		there, err := container.Remove(dir, discard, strange)
		if !there {
			return Nothing, err
		}
		return Stopped, err
	}
	if err != nil {
		return Stopped, processes{dir: dir}.Remove()
	}
	switch h := hostOf(dir, &s).(type) {
	case container.Host:
		h.Discard, h.Strange = discard, strange
		return Stopped, h.Remove()
	case attached:
		return Forgotten, h.Remove()
	default:
		return Stopped, h.Remove()
	}
}
