package fabric

import (
	"context"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// host starts and stops the chips of one fabric. There is a host for processes of this
// machine, for containers of an engine, and for chips on other machines. All other
// functions of this package reach the chips only by the chips' APIs.
type host interface {
	// Chips returns the running and the paused chips, sorted by mesh and number.
	Chips() []folder.Chip
	// Launch starts the chips ns, which do not run. If rec.Record is not "", the chips make
	// a recording of this start. Otherwise the fabric's recording options apply. Launch
	// sends a value to exits for each chip that ends later.
	Launch(ctx context.Context, ns []wire.FabricNodeID, rec spec.Records, exits chan<- folder.Exit) error
	// Do kills, pauses, resumes or stops a chip, and returns after the chip has ended,
	// paused or resumed.
	Do(ctx context.Context, c folder.Chip, k fault.Kind) error
	// LastWords returns the last line of a chip's log.
	LastWords(n wire.FabricNodeID) string
	// Archive copies the event archive of chips in containers to the archive's folder on
	// this machine. Other chips write to the archive themselves.
	Archive(ctx context.Context) error
	// Recording returns the path of the file of an ended recording. For a chip in a
	// container, Recording first copies the file to the folder of --record on this machine.
	Recording(ctx context.Context, file string) (string, error)
	// KeyLog copies the secrets that chips in containers have logged to the folder of
	// --keylog on this machine. Other chips write to this folder themselves.
	KeyLog(ctx context.Context) error
	// Remove stops all chips, and removes the run folder, and the containers, networks and
	// volumes of the fabric. Folders that the user named stay, such as that of --archive.
	Remove() error
}

func hostOf(dir folder.Dir, s *spec.Spec) host {
	switch s.Runtime {
	case spec.Docker:
		return container.Host{Dir: dir, Spec: *s}
	case spec.Elsewhere:
		return attached{dir, *s}
	}
	p := processes{dir: dir, program: s.Program}
	if s.Runtime == spec.Model {
		return modelled{p}
	}
	return p
}

func (f *Fabric) host() host {
	h := hostOf(f.Dir, &f.Spec)
	if p, ok := h.(processes); ok {
		p.start = f.Start
		return p
	}
	return h
}

// Archive copies the event archive of chips in containers to the archive's folder on this
// machine. Other chips write to the archive themselves.
func (f *Fabric) Archive(ctx context.Context) error { return f.host().Archive(ctx) }

// Recording returns the path of the file of an ended recording. For a chip in a container,
// Recording first copies the file to the folder of --record on this machine.
func (f *Fabric) Recording(ctx context.Context, file string) (string, error) {
	return f.host().Recording(ctx, file)
}

// KeyLog copies the secrets of QUIC connections that chips in containers have logged to the
// folder of --keylog. Other chips write to this folder themselves.
func (f *Fabric) KeyLog(ctx context.Context) error { return f.host().KeyLog(ctx) }

// LastWords returns the last line of a chip's log.
func (f *Fabric) LastWords(n wire.FabricNodeID) string { return f.host().LastWords(n) }

// Attached reports whether the chips run on other machines. Only a command on the chip's own
// machine can start or stop a chip of an attached fabric.
func (f *Fabric) Attached() bool { return f.Spec.Runtime == spec.Elsewhere }

// Remove stops all chips, and removes the run folder, and the containers, networks and
// volumes of the fabric. Folders that the user named stay, such as that of --archive. For
// an attached fabric, Remove only removes the run folder.
func (f *Fabric) Remove() error { return f.host().Remove() }

// Removed says what [Remove] found and did.
type Removed uint8

// Values of [Removed].
const (
	Nothing   Removed = iota // there was no fabric of that name
	Stopped                  // Remove has stopped the fabric's chips
	Forgotten                // Remove has removed only the run folder; the fabric's chips continue to run on other machines
)

// Remove removes the fabric of a run folder as [Fabric.Remove] does, also if a crash has
// damaged the folder. Remove first copies recordings and logged secrets from containers to
// this machine, if discard is false. The parameter "strange" names a folder for recordings of
// containers whose folder on this machine is not known any more.
func Remove(dir folder.Dir, discard bool, strange string) (Removed, error) {
	s, err := dir.Spec()
	if err != nil && !dir.Exists() { // the fabric may have containers, although no command has made a run folder yet
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
