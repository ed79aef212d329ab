package main

import (
	"fmt"

	"ttfabric/node/chart"
)

// writeChart writes the chart to a file, if one is named.
func writeChart(path string, c *chart.Chart) error {
	if path == "" {
		return nil
	}
	return writeOut(path, []byte(c.SVG()))
}

