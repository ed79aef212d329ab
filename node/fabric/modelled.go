package fabric

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/model/control"
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
	cmd := exec.Command(exe, "node", "--dir", string(m.dir), "--model")
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
func (f *Fabric) Model(ctx context.Context, words ...string) (control.Reply, error) {
	if f.Spec.Runtime != spec.Model {
		return control.Reply{}, spec.Usagef("fabric %q is no model; 'ttfabric model TOPOLOGY' starts a model", f.Name())
	}
	if len(f.Running()) == 0 {
		return control.Reply{}, fmt.Errorf("the model %q does not run; 'ttfabric down --name %s' removes it", f.Name(), f.Name())
	}
	r, err := control.Ask(ctx, f.Dir.Path(control.Socket), words...)
	if u, ok := err.(*control.UsageError); ok {
		err = spec.AsUsage(u)
	}
	return r, err
}
