//go:build man

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"
)

// A program that is built with the tag "man" writes the manual pages of all commands into the folder
// of its only argument, and ends. SOURCE_DATE_EPOCH gives the pages' date, in seconds since 1970.
func init() {
	if len(os.Args) != 2 {
		fmt.Fprintf(os.Stderr, "usage: %s FOLDER\n", os.Args[0])
		os.Exit(exitUsage)
	}
	root := newRoot()
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "ttfabric", Manual: "ttfabric"}, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	os.Exit(0)
}
