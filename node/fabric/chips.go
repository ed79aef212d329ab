package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// StartChip starts a chip that does not run, and returns when the chip's API answers. Other
// chips reach the chip only after the chip's links are up: see session.Session.Ready and
// [Fabric.WaitUp]. If rec.Record is not "", the chip makes a recording of this start.
// Otherwise the recording options of the fabric apply.
func (f *Fabric) StartChip(ctx context.Context, n wire.FabricNodeID, rec spec.Records) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	unlock, err := folder.Lock(ctx, string(f.Dir))
	if err != nil {
		return err
	}
	defer unlock()
	if c, ok := f.Where(n); ok {
		return fmt.Errorf("chip %s is running already, as %s; 'ttfabric chip restart %s' kills the chip and starts the chip again", n, c.Where(), n)
	}
	return f.startChip(ctx, n, rec)
}

// RestartChip kills a chip's process (kill -9) and starts the chip again; see
// [Fabric.StartChip]. Before the kill, another chip reports the restart as an event. If
// the chip does not run, RestartChip returns an error.
func (f *Fabric) RestartChip(ctx context.Context, n wire.FabricNodeID, rec spec.Records) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	unlock, err := folder.Lock(ctx, string(f.Dir))
	if err != nil {
		return err
	}
	defer unlock()
	if h, ok := f.host().(container.Host); ok {
		if err := h.Recordable(ctx, n, rec); err != nil {
			return err
		}
	}
	c, err := f.running(n)
	if err != nil {
		return err
	}
	f.tellFault(ctx, fault.KindRestarted, n)
	if err := f.host().Do(ctx, c, fault.KindKilled); err != nil {
		return err
	}
	return f.startChip(ctx, n, rec)
}

func (f *Fabric) startChip(ctx context.Context, n wire.FabricNodeID, rec spec.Records) error {
	exits := make(Exits, 1)
	if err := f.launch(ctx, []wire.FabricNodeID{n}, rec, exits); err != nil {
		return err
	}
	for !f.answers(ctx, n) {
		select {
		case e := <-exits:
			return f.diedAtStart(e)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return spec.NotReadyf("chip %s has not started in %v; the last line of its log is: %s", n, startTime, f.LastWords(n))
		case <-time.After(pollInterval):
		}
	}
	return nil
}

// answers reports whether the API of chip n answers.
func (f *Fabric) answers(ctx context.Context, n wire.FabricNodeID) bool {
	cl, err := f.Client(n)
	if err != nil {
		return false
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	_, err = cl.Chip(ctx)
	return err == nil
}

// KillChip kills a chip's process (kill -9), and returns when the process has ended. Before
// the kill, another chip reports the kill as an event. If the chip does not run, KillChip
// returns an error, and no chip reports an event.
func (f *Fabric) KillChip(ctx context.Context, n wire.FabricNodeID) error {
	c, err := f.running(n)
	if err != nil {
		return err
	}
	f.tellFault(ctx, fault.KindKilled, n)
	return f.host().Do(ctx, c, fault.KindKilled)
}

// PauseChip stops a chip's process (SIGSTOP), and returns when all threads of the process
// have stopped. If the chip runs in a container, PauseChip pauses the container instead.
func (f *Fabric) PauseChip(ctx context.Context, n wire.FabricNodeID) error {
	return f.signal(ctx, fault.KindPaused, n)
}

// ResumeChip lets a paused chip run again (SIGCONT).
func (f *Fabric) ResumeChip(ctx context.Context, n wire.FabricNodeID) error {
	return f.signal(ctx, fault.KindResumed, n)
}

func (f *Fabric) signal(ctx context.Context, k fault.Kind, n wire.FabricNodeID) error {
	c, ok := f.Where(n)
	if !ok {
		return &NotRunningError{n}
	}
	f.tellFault(ctx, k, n)
	return f.host().Do(ctx, c, k)
}

// running returns where chip n runs. If the chip does not run, the error says how to start the
// chip.
func (f *Fabric) running(n wire.FabricNodeID) (folder.Chip, error) {
	c, ok := f.Where(n)
	if !ok {
		return c, fmt.Errorf("%w; 'ttfabric chip start %s' starts the chip", &NotRunningError{n}, n)
	}
	return c, nil
}

// tellTime is the longest time that a chip may take to accept a message. The message reports a
// fault in another chip's process, or tells the chip that its removal has ended.
const tellTime = time.Second

// tellFault asks another chip to report a fault of chip n's process as an event, because
// chip n itself cannot report the fault. tellFault asks the neighbours of chip n first,
// then the other chips, until a chip accepts the report.
func (f *Fabric) tellFault(ctx context.Context, k fault.Kind, n wire.FabricNodeID) {
	if f.Attached() {
		return // the host of an attached fabric refuses to kill, pause or stop a chip
	}
	cs, _, err := f.Clients()
	if err != nil {
		return
	}
	near := map[wire.FabricNodeID]bool{}
	for _, p := range f.Topology.Ports(n) {
		near[p.Peer.Node] = true
	}
	for _, neighbours := range []bool{true, false} {
		for _, c := range cs {
			if c.Self() == n || near[c.Self()] != neighbours {
				continue
			}
			one, cancel := context.WithTimeout(ctx, tellTime)
			err := c.TellFault(one, k, n)
			cancel()
			if err == nil {
				return
			}
		}
	}
}

// quietPolls is a number of consecutive answers of a chip. If these answers report no open requests
// and no packets, the chip counts as drained.
const quietPolls = 3

// RemoveChip ends a chip after its work. First, the chip refuses new requests, and RemoveChip waits
// until the chip has no open requests and no packets. The parameter "most" is the longest time of
// this wait. If "most" is 0, the chip refuses no requests, and RemoveChip does not wait. Then the
// chip closes its links, leaves the gossip and ends. The result "drained" is true if the chip had
// no open requests and no packets at the end of the wait.
func (f *Fabric) RemoveChip(ctx context.Context, n wire.FabricNodeID, most time.Duration) (drained bool, err error) {
	if a, ok := f.host().(attached); ok {
		return false, a.notHere(n, "removed") // returns before the chip refuses new requests
	}
	unlock, err := folder.Lock(ctx, string(f.Dir))
	if err != nil {
		return false, err
	}
	defer unlock()
	c, err := f.running(n)
	if err != nil {
		return false, err
	}
	cl, err := f.Client(n)
	if err != nil {
		return false, err
	}
	defer cl.Close()
	if drained, err = drain(ctx, cl, most); err != nil {
		return false, err
	}
	f.tellFault(ctx, fault.KindRemoved, n)
	return drained, f.host().Do(ctx, c, fault.KindRemoved)
}

// drain makes a chip refuse new requests, and waits until the chip has no open requests and no
// packets. The parameter "most" is the longest time of this wait. drain returns true if the chip
// then has no open requests and no packets. If "most" is 0, or if the chip does not answer the
// request to drain, drain returns false at once. If ctx ends, the chip is not removed, and drain
// makes the chip accept new requests again.
func drain(ctx context.Context, cl *api.Client, most time.Duration) (drained bool, err error) {
	if most == 0 {
		return false, nil
	}
	defer func() {
		if ctx.Err() != nil {
			back, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
			defer cancel()
			err = errors.Join(err, cl.Drain(back, false))
		}
	}()
	end := time.Now().Add(most)
	one, cancel := context.WithDeadline(ctx, end)
	err = cl.Drain(one, true)
	cancel()
	if ctx.Err() != nil {
		return false, ctx.Err()
	} else if err != nil {
		return false, nil // the chip does not answer, perhaps because the chip is paused
	}
	for quiet := 0; time.Now().Before(end); {
		one, cancel := context.WithDeadline(ctx, end)
		v, err := cl.Chip(one)
		cancel()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err == nil && v.OpenOps == 0 && v.InFlight == 0:
			quiet++
		default:
			quiet = 0
		}
		if quiet == quietPolls {
			return true, nil
		}
		time.Sleep(pollInterval)
	}
	return false, nil
}
