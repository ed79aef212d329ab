//go:build noplot

package main

import (
	"fmt"
	"os"
)

// plot says that there is none: the results are whole, and -plot draws them where the library can be had.
func (p *report) plot(base string) error {
	fmt.Fprintf(os.Stderr, "no plots: this benchmark was built without gonum.org/v1/plot, which could not be downloaded; scripts/bench/run -plot %s.json draws them once it can\n", base)
	return nil
}
