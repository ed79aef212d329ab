package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/wire"
)

func newRecord() *cobra.Command {
	c := &cobra.Command{Use: "record", Short: "End recordings of chips",
		Long: `A recording holds every call into a chip and every answer of the chip, from the
chip's start on. 'ttfabric replay' repeats a recording. A recording begins only when
a chip starts: 'up --record DIR' records all chips, and 'chip restart CHIP --record
DIR' records one chip. A recording ends when the chip ends, when the file reaches
the size of --record-limit, or by 'record stop'.

Containers write their recordings into a volume. 'record stop' ends recordings, and
copies these recordings from the volume to the folder that --record named. 'down'
copies all recordings to that folder.`}
	c.AddCommand(&cobra.Command{Use: "stop [CHIP...]", Short: "End the recordings of the given chips, or of all chips", Args: cobra.ArbitraryArgs,
		Example:           "  ttfabric record stop M0D3\n  ttfabric record stop",
		ValidArgsFunction: completeChipNames,
		RunE:              stopRecordings})
	return c
}

// stopped is a recording that the command has ended.
type stopped struct {
	Chip wire.FabricNodeID `json:"chip"` // chip whose recording ended
	File string            `json:"file"` // file with the recording
}

func stopRecordings(c *cobra.Command, args []string) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	fab, cs, _, err := clientsOf(c, args)
	if err != nil {
		return err
	}
	list, failed := []stopped{}, error(nil)
	for _, cl := range cs {
		v, err := cl.EndRecording(c.Context())
		if err == nil {
			v.File, err = fab.Recording(c.Context(), v.File)
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
