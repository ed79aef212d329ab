package output

import (
	"ttfabric/node/snapshot"
	"ttfabric/wire"
)

// Snapshot says what a snapshot holds.
type Snapshot struct {
	File     string              `json:"file,omitempty"` // file with the snapshot; absent if the command wrote no file
	Cut      snapshot.Hex32      `json:"cut"`            // number of the cut
	NoAnswer []wire.FabricNodeID `json:"no_answer"`      // chips whose state is unknown, because the chips did not answer in time or do not run
	Requests snapshot.Account    `json:"requests"`       // open requests and their packets
	Chips    []snapshot.Summary  `json:"chips"`          // what the snapshot holds of each chip
}

// SnapshotOf says what the snapshot f holds. The argument "file" is the name of the file with the
// snapshot, or "".
func SnapshotOf(f *snapshot.File, file string) Snapshot {
	return Snapshot{file, f.Cut, f.NoAnswer, f.Account(), f.Summarize()}
}

// SnapshotTable returns the head and the rows of a table that shows what a snapshot holds of each chip.
func SnapshotTable(chips []snapshot.Summary) (head []any, rows [][]any) {
	for _, s := range chips {
		rows = append(rows, []any{s.Chip, s.Up, s.Ports, s.Receiver, s.Sender, s.InFlight, s.Waiting, s.Open, s.Kernels})
	}
	return []any{"Chip", "Up", "Ports", "Receiver", "Sender", "In flight", "Waiting", "Open", "Kernels"}, rows
}

// DifferenceTable returns the head and the rows of a table of differences between two snapshots.
func DifferenceTable(ds []snapshot.Difference) (head []any, rows [][]any) {
	for _, d := range ds {
		rows = append(rows, []any{d.Kind, d.Where, d.What, d.Before, d.After})
	}
	return []any{"Kind", "Where", "What", "Before", "After"}, rows
}
