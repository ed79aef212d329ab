package fabric

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/model/control"
	"ttfabric/node/snapshot"
	"ttfabric/router/topo"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// modelled is the [host] of a fabric that one process simulates in virtual time. The process has the addresses of all
// chips, and a socket at which it takes the orders that signals give to processes of chips.
type modelled struct{ processes }

// Launch implements [host]. If the model does not run, Launch starts its process. Otherwise Launch orders the model to
// start the chips ns.
func (m modelled) Launch(ctx context.Context, ns []wire.FabricNodeID, _ spec.Records, exits chan<- folder.Exit) error {
	if len(m.Chips()) > 0 {
		words := []string{"started"}
		for _, n := range ns {
			words = append(words, n.String())
		}
		_, err := control.Ask(ctx, m.dir.Path(control.Socket), words...)
		return err
	}
	exe, err := executable("")
	if err != nil {
		return err
	}
	log, err := m.dir.OpenLog(modelLog)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(exe, "node", "--dir", string(m.dir))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the model's process: %w", err)
	}
	go func() {
		err := cmd.Wait()
		for _, n := range ns {
			exits <- folder.Exit{Chip: n, Err: err}
		}
	}()
	return nil
}

// modelLog is the file in the run folder with the messages of a model.
const modelLog = "model.log"

// Do implements [host].
func (m modelled) Do(ctx context.Context, c folder.Chip, k fault.Kind) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := control.Ask(ctx, m.dir.Path(control.Socket), k.String(), c.Chip.String())
	return err
}

// LastWords implements [host].
func (m modelled) LastWords(wire.FabricNodeID) string { return m.dir.LastLine(modelLog) }

// Model sends a command to the model of the fabric; see package control. If the fabric is no model, the error has kind
// [spec.Usage].
func (f *Fabric) Model(ctx context.Context, words ...string) (control.Answer, error) {
	if f.Spec.Runtime != spec.Model {
		return control.Answer{}, spec.Usagef("fabric %q is no model; 'ttfabric model TOPOLOGY' starts a model", f.Name())
	}
	if len(f.Running()) == 0 {
		return control.Answer{}, fmt.Errorf("the model %q does not run; 'ttfabric down --name %s' removes it", f.Name(), f.Name())
	}
	r, err := control.Ask(ctx, f.Dir.Path(control.Socket), words...)
	if u, ok := err.(*control.UsageError); ok {
		err = spec.AsUsage(u)
	}
	return r, err
}

// modelSnapshot takes a snapshot of a model: the state of all chips at one instant of virtual time. The model may stand
// still.
func (f *Fabric) modelSnapshot(ctx context.Context, payload, memory bool) (*snapshot.File, error) {
	words := []string{"snapshot"}
	if payload {
		words = append(words, "payload")
	}
	if memory {
		words = append(words, "memory")
	}
	r, err := f.Model(ctx, words...)
	if err != nil {
		return nil, err
	}
	return snapshot.Read(bytes.NewReader(r.Snapshot))
}

// CreateModel makes the run folder of a model. The model has the topology of the argument "arg", as 'up' takes it. If
// from is not "", it names a file with a snapshot: the model then has the topology and options of the snapshot, and goes
// on from its state. CreateModel starts nothing; [Fabric.Up] starts the model.
func CreateModel(ctx context.Context, name, arg, from string, want spec.Spec) (*Fabric, error) {
	want.Runtime = spec.Model
	w := Wanted{Name: name, Named: cmp.Or(arg, folder.DefaultTopology), Spec: want}
	var text []byte
	var err error
	if from == "" {
		w.Topology, err = folder.LoadTopology(ctx, arg)
	} else if arg != "" {
		return nil, spec.Usagef("%s: the snapshot %s has a topology of its own; leave out the topology", arg, from)
	} else {
		w.Topology, text, err = w.load(from)
	}
	if err != nil {
		return nil, err
	}
	f, err := Create(ctx, w)
	if err == nil && text != nil {
		if err = folder.WriteFile(f.Dir.Path(control.SnapshotFile), text); err != nil {
			_ = f.Dir.Remove()
		}
	}
	return f, err
}

// StartModel makes a model with [CreateModel], and starts it. The function "up" must call [Fabric.Up], which waits until
// all links are up. StartModel does not call "up" for the model of a snapshot, because links of a snapshot may be down.
// The function "hold" waits until ctx ends, and then removes the model; see [Fabric.Hold].
func StartModel(ctx context.Context, name, arg, from string, want spec.Spec, up func(*Fabric, Exits) ([]api.ChipView, error)) (hold func(out io.Writer) error, err error) {
	f, err := CreateModel(ctx, name, arg, from, want)
	if err != nil {
		return nil, err
	}
	exits := make(Exits, len(f.Topology.Chips))
	if from != "" {
		up = func(f *Fabric, exits Exits) ([]api.ChipView, error) { return nil, f.startLoaded(ctx, exits) }
	}
	if _, err := up(f, exits); err != nil {
		_ = f.Remove()
		return nil, err
	}
	return func(out io.Writer) error { return f.Hold(ctx, out, exits) }, nil
}

// startLoaded starts the model of a snapshot, and waits until the model answers.
func (f *Fabric) startLoaded(ctx context.Context, exits Exits) error {
	unlock, err := folder.Lock(ctx, string(f.Dir))
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.launch(ctx, f.Topology.Nodes(), spec.Records{}, exits); err != nil {
		return err
	}
	for {
		if _, err := f.Model(ctx, "status"); err == nil {
			return nil
		}
		select {
		case e := <-exits:
			return f.diedAtStart(e)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// load reads a snapshot, and sets the options of the snapshot.
func (w *Wanted) load(from string) (*topo.Topology, []byte, error) {
	s, err := ReadSnapshot(from)
	if err != nil {
		return nil, nil, err
	}
	t, err := topo.Load("topology.text", []byte(s.Topology.Text))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", from, err)
	}
	o, x := &s.Options, &w.Spec
	x.Order, x.Ring, x.Exits, x.Profile, x.Stuck = o.Order, o.Ring, o.Exits, o.Profile, o.Stuck
	x.Engine, x.Slots = cmp.Or(o.Engine, x.Engine), cmp.Or(o.Slots, x.Slots)
	x.StuckAfter, x.TTL, x.StrictTTL, x.LocalFirst = spec.Milliseconds(o.StuckAfter), o.TTL, o.StrictTTL, o.LocalFirst
	x.AllowDeadlock = true // the snapshot's fabric has run with these routes
	if o.Lines {
		x.Fabric = "1d"
	}
	w.Named = from
	text, err := s.Encode()
	return t, text, err
}
