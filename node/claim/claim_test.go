package claim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ttfabric/wire"
)

var now = time.Date(2026, 11, 28, 16, 0, 0, 0, time.UTC)

func TestClaim(t *testing.T) {
	var table Table
	chip := wire.FabricNodeID{Chip: 3}
	first, err := table.Claim(chip, "the printer", "program a", now)
	if err != nil {
		t.Fatal(err)
	}
	_, err = table.Claim(chip, "the printer", "program b", now)
	var held *HeldError
	if !errors.As(err, &held) || err.Error() != "chip M0D3: the printer has been in use by program a since 2026-11-28T16:00:00Z" {
		t.Errorf("a second claim: %v", err)
	}
	if _, err := table.Claim(chip, "the scanner", "program b", now); err != nil {
		t.Errorf("a claim of another name: %v", err)
	}
	table.Release("the printer", first)
	if _, err := table.Claim(chip, "the printer", "program b", now); err != nil {
		t.Errorf("a claim after the release: %v", err)
	}
	table.Release("the printer", first) // program a releases its earlier claim a second time
	if _, err := table.Claim(chip, "the printer", "program c", now); !errors.As(err, &held) || !strings.Contains(held.Text, "program b") {
		t.Errorf("a second release ended the claim of another program: %v", err)
	}
}

func TestLimits(t *testing.T) {
	var table Table
	for _, c := range [][2]string{{"", "a"}, {"a", ""}, {strings.Repeat("a", MaxName+1), "a"}, {"a", strings.Repeat("a", MaxHolder+1)}} {
		if _, err := table.Claim(wire.FabricNodeID{}, c[0], c[1], now); err == nil {
			t.Errorf("a claim %q by %q: no error", c[0], c[1])
		}
	}
	for i := range MaxClaims + 1 {
		if _, err := table.Claim(wire.FabricNodeID{}, fmt.Sprint(i), "a", now); (err != nil) != (i == MaxClaims) {
			t.Errorf("claim %d: %v", i, err)
		}
	}
}
