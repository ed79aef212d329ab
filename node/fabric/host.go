package fabric

import (
	"context"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// host is what the chips of one fabric run on: processes of this machine,
// containers of an engine, or other machines. All else goes through the chips'
// APIs, wherever the chips run.
type host interface {
	// Chips are the chips that run, paused ones too, sorted.
	Chips() []folder.Chip
	// Launch starts chips that do not run. rec says where this start is recorded,
	// if anywhere other than the fabric's recordings. Chips that end later come by exits.
	Launch(ctx context.Context, ns []wire.FabricNodeID, rec spec.Records, exits chan<- folder.Exit) error
	// Do kills, pauses, resumes or removes a chip, and returns when that has happened.
	Do(ctx context.Context, c folder.Chip, k fault.Kind) error
	// LastWords is the last line of a chip's log.
	LastWords(n wire.FabricNodeID) string
	// Archive brings the archive of events in the run folder up to date.
	Archive(ctx context.Context) error
	// Recording brings the file of a chip's recording that has ended to where people look for it, and says where that is.
	Recording(ctx context.Context, file string) (string, error)
	// KeyLog brings the secrets of connections in the folder of --keylog up to date.
	KeyLog(ctx context.Context) error
	// Remove stops all chips and removes whatever there is of the fabric.
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

// Recording brings the file of a chip's recording that has ended to where people
// look for the file, and says where that is.
func (f *Fabric) Recording(ctx context.Context, file string) (string, error) {
	return f.host().Recording(ctx, file)
}

// KeyLog brings the secrets of connections in the folder of --keylog up to date.
func (f *Fabric) KeyLog(ctx context.Context) error { return f.host().KeyLog(ctx) }

// LastWords is the last line of a chip's log.
func (f *Fabric) LastWords(n wire.FabricNodeID) string { return f.host().LastWords(n) }

// Attached reports whether the chips run on other machines, so that they can be neither started nor stopped from here.
func (f *Fabric) Attached() bool { return f.Spec.Runtime == spec.Elsewhere }

// Remove stops all chips and removes whatever there is of the fabric.
func (f *Fabric) Remove() error { return f.host().Remove() }

// Removed says what [Remove] found.
type Removed uint8

// What [Remove] found.
const (
	Nothing   Removed = iota // there was no fabric of that name
	Stopped                  // its chips have been stopped
	Forgotten                // its chips run on, on other machines
)

// Remove stops the chips of the fabric in a folder and removes all of it, also
// after a crash. Of containers, discard drops what they recorded and logged, and
// strange is a folder for recordings of which nothing says where they belong.
func Remove(dir folder.Dir, discard bool, strange string) (Removed, error) {
	s, err := dir.Spec()
	if err != nil && !dir.Exists() { // no command has asked its containers yet, if there are any
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
