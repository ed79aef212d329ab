package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/wire"
)

// maxRecordLimit is the largest size of one recording that can be asked for, in MiB.
const maxRecordLimit = 1 << 20

// recordFlags say where chips are recorded.
type recordFlags struct {
	dir   string
	limit int // MiB
}

func (f *recordFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.dir, "record", "", "folder: record every call into each chip, one file per life of a chip, for 'ttfabric replay'")
	c.Flags().IntVar(&f.limit, "record-limit", node.DefaultRecordLimit>>20, "MiB of one file at which recording stops")
}

// on adds the flags to a command, and checks them before it runs.
func (f *recordFlags) on(c *cobra.Command) *cobra.Command {
	f.add(c)
	c.PreRunE = func(*cobra.Command, []string) error { return f.check() }
	return c
}

// check refuses what cannot be, and makes the folder's name absolute: the chips' processes may run elsewhere.
func (f *recordFlags) check() (err error) {
	if f.limit < 1 || f.limit > maxRecordLimit {
		return coded(exitUsage, "--record-limit %d: want 1 to %d MiB", f.limit, maxRecordLimit)
	}
	if f.dir != "" {
		f.dir, err = filepath.Abs(f.dir)
	}
	return err
}

// or is f, or what the fabric was started with.
func (f recordFlags) or(m meshFile) recordFlags {
	if f.dir == "" {
		return recordFlags{m.Record, m.RecordLimit}
	}
	return f
}

// refuse says that a fabric that runs cannot be recorded from now on.
func (f recordFlags) refuse(name string) error {
	if f.dir == "" {
		return nil
	}
	return coded(exitUsage, "--record: fabric %q runs already, and a recording begins with the chip; 'ttfabric chip restart CHIP --record DIR' restarts one", name)
}

// config is what a node is told; nil for no recording.
func (f recordFlags) config() *node.Recording {
	if f.dir == "" {
		return nil
	}
	return &node.Recording{Dir: f.dir, Limit: int64(f.limit) << 20, Program: version()}
}

// arguments are the flags of a chip's process.
func (f recordFlags) arguments() []string {
	if f.dir == "" {
		return nil
	}
	return []string{"--record", f.dir, "--record-limit", fmt.Sprint(f.limit)}
}

func newRecord() *cobra.Command {
	c := &cobra.Command{Use: "record", Short: "End recordings of chips",
		Long: `A recording holds every call into a chip, from the chip's first moment, and what
it answered; 'ttfabric replay' repeats it. One cannot begin in the middle of a
chip's life: 'up --record DIR' records all chips, 'chip restart CHIP --record
DIR' one. It ends with the chip, at --record-limit, or by 'record stop'.

Containers record into their volume: 'record stop' copies what it has ended to
the folder, and 'down' copies all.`}
	c.AddCommand(&cobra.Command{Use: "stop [CHIP...]", Short: "End the recordings of some chips, or of all", Args: cobra.ArbitraryArgs,
		Example: "  ttfabric record stop M0D3\n  ttfabric record stop",
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return chipNames(c), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: stopRecordings})
	return c
}

// stopped is a recording that was ended.
type stopped struct {
	Chip wire.FabricNodeID `json:"chip"`
	File string            `json:"file"`
}

func stopRecordings(c *cobra.Command, args []string) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	cs, _, err := clientsOf(c, args)
	if err != nil {
		return err
	}
	dir, err := dirOf(c)
	if err != nil {
		return err
	}
	h := dir.host()
	list, failed := []stopped{}, error(nil)
	for _, cl := range cs {
		v, err := cl.EndRecording(c.Context())
		if err == nil {
			v.File, err = h.recording(c.Context(), v.File)
		}
		if err != nil {
			failed = err
			continue
		}
		list = append(list, stopped{cl.Self(), v.File})
	}
	if f == "json" {
		if err := printJSON(c, list); err != nil {
			return err
		}
		return failed
	}
	for _, s := range list {
		fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", s.Chip, s.File)
	}
	return failed
}
