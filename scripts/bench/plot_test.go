//go:build !noplot

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestPlots saves a report. save must write a plot of every kind beside the results.
func TestPlots(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.json")
	if err := ofEveryKind().save(name); err != nil {
		t.Fatal(err)
	}
	svgs, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "*.svg"))
	for i := range svgs {
		svgs[i] = strings.TrimPrefix(filepath.Base(svgs[i]), "x-")
	}
	if got := strings.Join(svgs, " "); got != "fabric.svg goodput.svg latency.svg loss.svg wire-latency.svg wire.svg" {
		t.Errorf("plots %s", got)
	}
}
