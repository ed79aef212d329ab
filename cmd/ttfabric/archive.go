package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ttfabric/node/archive"
	"ttfabric/wire"
)

// segmentsKept is how many segments, before compression, a chip's part of the archive holds at its limit.
const segmentsKept = 8

// archiveDir is the folder of the fabric's archive.
func (m *spec.Spec) archiveDir(d runDir) string {
	if m.Archive != "" {
		return m.Archive
	}
	return d.path("archive")
}

// archive is where a chip archives its events.
func (m *spec.Spec) archive(d runDir, n wire.FabricNodeID) archive.Config {
	c := archive.Config{Dir: m.archiveDir(d), Name: n.String()}
	if m.ArchiveMiB > 0 {
		c.Limits.TotalBytes = int64(m.ArchiveMiB) << 20
		c.Limits.SegmentBytes = c.Limits.TotalBytes / segmentsKept
	}
	return c
}
