//go:build noplot

package main

import (
	"fmt"
	"os"
)

// plot prints that this build draws no plots. The results are complete. A build with the plotting
// library draws them with the flag -plot.
func (p *report) plot(base string) error {
	fmt.Fprintf(os.Stderr, "no plots: this benchmark was built without gonum.org/v1/plot, which could not be downloaded; if it can be downloaded later, scripts/bench/run -plot %s.json draws the plots\n", base)
	return nil
}
