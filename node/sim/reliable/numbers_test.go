package reliable

import (
	"fmt"
	"testing"
)

// TestPaper prints the figures of the paper beside the figures of the model:
//
//	go test ./node/sim/reliable -run TestPaper -v
func TestPaper(t *testing.T) {
	numbers, err := Numbers(Mesh{W: 8, H: 8}, 1)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%-66s %-12s %-7s %s\n", "mesh:8x8", "section", "paper", "model")
	for _, n := range numbers {
		text += fmt.Sprintf("%-66s %-12s %-7s %s\n", n.What, n.Section, n.Paper, n.Ours)
		if !n.OK {
			t.Errorf("%s: %s, the paper says %s", n.What, n.Ours, n.Paper)
		}
	}
	t.Log("\n" + text)
}
