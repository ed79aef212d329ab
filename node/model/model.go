// Package model runs a snapshot of a fabric in the simulator (Spec §7.5: "The Fabric Model will include a
// new piece of software to emulate the physical data plane, but otherwise shares the software components
// of the TT-Control Plane and Fabric Router").
package model

import (
	"fmt"
	"time"

	"ttfabric/node/flow"
	"ttfabric/node/sim"
	"ttfabric/node/snapshot"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// DrainTime is the longest virtual time that [Run] waits until a fabric is at rest. After
// [flow.FlowTimeout], each request has ended.
const DrainTime = 2 * flow.FlowTimeout

// Options say how long a loaded fabric runs. If all fields are zero, the fabric does not run.
type Options struct {
	For    time.Duration // virtual time
	Events int           // number of events of the simulator, after For
	Drain  bool          // afterwards, until no request is open and no packet is under way
}

// Result says what happened in a loaded fabric.
type Result struct {
	Before    snapshot.Account    `json:"before"`    // open requests and packets of the snapshot
	After     snapshot.Account    `json:"after"`     // open requests and packets at the end
	Nanos     int64               `json:"ran_ns"`    // virtual time that the fabric has run, in nanoseconds
	Events    int                 `json:"events"`    // events of the simulator
	Performed int                 `json:"performed"` // commands that chips performed for other chips
	Ended     map[string]int      `json:"ended"`     // requests of the snapshot that ended, by fate
	Anew      []wire.FabricNodeID `json:"anew"`      // chips without a state in the snapshot, which started anew
	Kernels   int                 `json:"kernels"`   // kernels of the snapshot, which do not run
	Lost      int                 `json:"lost"`      // the chips' own requests to host memory, which the model does not have
	Rest      bool                `json:"rest"`      // whether no request is open and no packet is under way at the end
	Chips     []snapshot.Summary  `json:"chips"`     // the chips at the end
}

// Run loads a snapshot into the simulator, and lets the fabric run. Run also returns a snapshot of the
// fabric at the end, with what the snapshot f has: payloads and memory.
func Run(f *snapshot.File, o Options) (Result, *snapshot.File, error) {
	d, l, err := sim.Load(f, nil)
	if err != nil {
		return Result{}, nil, err
	}
	r := Result{Before: f.Account(), Ended: map[string]int{}, Anew: append([]wire.FabricNodeID{}, l.Anew...), Kernels: l.Kernels, Lost: l.Host}
	d.OnPerformed(func(int, wire.FabricNodeID, *wire.Command) { r.Performed++ })
	d.OnResult(func(_ int, x flow.Result) { r.Ended[x.Fate.String()]++ })
	begin, first := d.Now(), d.Events()
	if o.For > 0 {
		if err := d.Run(begin.Add(o.For)); err != nil {
			return r, nil, err
		}
	}
	for n := d.Events(); d.Events()-n < o.Events && d.Next() != mono.Never; {
		if err := d.Run(d.Next()); err != nil {
			return r, nil, err
		}
	}
	if o.Drain {
		if rest, err := d.Drain(DrainTime); err != nil {
			return r, nil, err
		} else if !rest {
			return r, nil, fmt.Errorf("the fabric is not at rest after %v of virtual time", DrainTime)
		}
	}
	end := d.Snapshot(f.Payloads, f.Memory)
	r.After, r.Nanos, r.Events, r.Rest, r.Chips = end.Account(), int64(d.Now().Sub(begin)), d.Events()-first, d.Quiet(), end.Summarize()
	return r, end, nil
}

// String says what happened, in sentences.
func (r *Result) String() string {
	text := fmt.Sprintf("%v of virtual time, %d events: of %s of the snapshot, %d ended as done; chips performed %s; %s and %s are open.",
		time.Duration(r.Nanos), r.Events, topo.Count(r.Before.Open-r.Before.Probes, "open request"), r.Ended[flow.FateDone.String()],
		topo.Count(r.Performed, "command"), topo.Count(r.After.Open-r.After.Probes, "request"), topo.Count(r.After.Probes, "probe"))
	if len(r.Anew) > 0 {
		text += fmt.Sprintf(" The snapshot has no state of the chips %v, which started anew.", r.Anew)
	}
	if r.Kernels > 0 {
		text += fmt.Sprintf(" %s of the snapshot do not run.", topo.Count(r.Kernels, "kernel"))
	}
	if r.Lost > 0 {
		text += fmt.Sprintf(" The model lacks %s to host memory.", topo.Count(r.Lost, "request"))
	}
	return text
}
