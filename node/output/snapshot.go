package output

import "ttfabric/node/snapshot"

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
