package kernel

import (
	"fmt"
	"slices"

	"ttfabric/node/snapshot"
)

// Save lists the jobs and kernels that run, for a snapshot.
func (m *Machine) Save() []snapshot.Job {
	out := []snapshot.Job{}
	for _, j := range slices.SortedFunc(slices.Values(m.jobs), compareID) {
		x := snapshot.Job{Job: snapshot.Hex64(j.spec.ID), Name: j.spec.Name, Owner: j.spec.Owner, Kernels: []snapshot.Kernel{}}
		for _, p := range j.running {
			x.Kernels = append(x.Kernels, snapshot.Kernel{Name: p.start.Kernel, X: p.start.Tile.X, Y: p.start.Tile.Y,
				Args: slices.Clone(p.start.Args), Constants: slices.Clone(p.start.Constants), Waits: p.wait.String()})
		}
		out = append(out, x)
	}
	return out
}

// String returns in words what the kernel waits for.
func (w *wait) String() string {
	text := "nothing"
	switch w.kind {
	case forTurn:
		text = "its turn, or a store into the tile"
	case forWord:
		text = fmt.Sprintf("the word at %#x: %s %#x", w.addr, [...]string{"equal to", "other than", "at least"}[w.compare], w.value)
	case forTime:
		text = "the time"
	case forQueue:
		text = fmt.Sprintf("room in transaction command queue %d", w.queue)
	case forNoc:
		text = fmt.Sprintf("the end of its NoC commands, until at most %d are under way", w.value)
	case forEnd:
		text = "the end of a request"
	case forRoom:
		text = "room in the fabric for a request"
	}
	if w.routing {
		text += ", inside RunRouting"
	}
	return text
}
