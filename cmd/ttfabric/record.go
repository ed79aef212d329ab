package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/wire"
)

func newRecord() *cobra.Command {
	c := &cobra.Command{Use: "record", Short: "End recordings of chips",
		Long: `A recording holds every call into a chip, from the chip's first moment, and what
it answered; 'ttfabric replay' repeats it. One cannot begin in the middle of a
chip's life: 'up --record DIR' records all chips, 'chip restart CHIP --record
DIR' one. It ends with the chip, at --record-limit, or by 'record stop'.

Containers record into their volume: 'record stop' copies what it has ended to
the folder, and 'down' copies all.`}
	c.AddCommand(&cobra.Command{Use: "stop [CHIP...]", Short: "End the recordings of some chips, or of all", Args: cobra.ArbitraryArgs,
		Example:           "  ttfabric record stop M0D3\n  ttfabric record stop",
		ValidArgsFunction: completeChipNames,
		RunE:              stopRecordings})
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
