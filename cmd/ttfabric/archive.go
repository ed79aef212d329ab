package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ttfabric/node/archive"
	"ttfabric/wire"
)

// archiveFlags say where 'up' has the chips archive their events.
type archiveFlags struct {
	dir string
	mib int
}

// maxArchive is the most that --archive-limit takes, in MiB.
const maxArchive = 1 << 20

// segmentsKept is how many segments, before compression, a chip's part of the archive holds at its limit.
const segmentsKept = 8

func (f *archiveFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.dir, "archive", "", "folder to archive the events in, below the fabric's name; 'down' leaves it (default: in the run folder, which 'down' removes)")
	c.Flags().IntVar(&f.mib, "archive-limit", 0, "MiB on disk that the events of one chip may take; the oldest go first (default 2)")
}

// configure notes the archive in m, and makes its folder where it is not in the run folder.
func (f *archiveFlags) configure(m *meshFile) error {
	if f.mib < 0 || f.mib > maxArchive {
		return coded(exitUsage, "--archive-limit %d: want 1 to %d MiB, or 0 for the default", f.mib, maxArchive)
	}
	m.ArchiveMiB = f.mib
	if f.dir == "" {
		return nil
	}
	path, err := filepath.Abs(filepath.Join(f.dir, m.Name))
	if err == nil {
		err = os.MkdirAll(path, 0o700)
	}
	if err != nil {
		return coded(exitUsage, "--archive %q: %w", f.dir, err)
	}
	m.Archive = path
	return nil
}

// archiveDir is the folder of the fabric's archive.
func (m *meshFile) archiveDir(d runDir) string {
	if m.Archive != "" {
		return m.Archive
	}
	return d.path("archive")
}

// archive is where a chip archives its events.
func (m *meshFile) archive(d runDir, n wire.FabricNodeID) archive.Config {
	c := archive.Config{Dir: m.archiveDir(d), Name: n.String()}
	if m.ArchiveMiB > 0 {
		c.Limits.TotalBytes = int64(m.ArchiveMiB) << 20
		c.Limits.SegmentBytes = c.Limits.TotalBytes / segmentsKept
	}
	return c
}
