package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/noc/image"
	"ttfabric/node/output"
	"ttfabric/node/session"
	"ttfabric/node/session/mesh"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// maxTransfer is the largest number of bytes that one mem command moves.
const maxTransfer = 1 << 30

func newMem() *cobra.Command {
	c := &cobra.Command{Use: "mem", Short: "Read and write the memory of any chip's tiles",
		Long: `The commands below mem move bytes between the shell and a tile's memory, through
the fabric. The packets enter the fabric at the chip of --via, and travel to CHIP.

TILE is <x>-<y>:<offset>: NoC coordinates, and an offset in bytes, decimal or
hexadecimal with 0x. An example is 1-2:0x1000. A write to 1-2..4-5:0x1000 reaches all
working Tensix tiles of a rectangle. The tile noc1:8-9:0x1000 has coordinates of NoC 1.`}
	c.AddCommand(newMemRead(), newMemWrite(), newMemTiles(), newMemImage("save", "Save the memory of a chip's tiles to a file", "written to", fabric.SaveMemory), newMemImage("restore", "Restore the memory of a chip's tiles from a file", "read from", fabric.RestoreMemory))
	return c
}

// memTarget is the chip and tile that the arguments of a mem command name, and a
// session that reaches this chip.
type memTarget struct {
	s     *session.Session
	dst   wire.FabricNodeID
	addr  wire.NocAddr
	plane wire.Plane
}

func parseTarget(c *cobra.Command, chip, tile string) (memTarget, error) {
	cl, dst, plane, err := entryArg(c, chip)
	if err != nil {
		return memTarget{}, err
	}
	addr, err := wire.ParseNocAddr(tile)
	if err != nil {
		return memTarget{}, spec.Usagef("%w", err)
	}
	return memTarget{session.New(cl), dst, addr, plane}, nil
}

func newMemRead() *cobra.Command {
	var file string
	c := &cobra.Command{Use: "read CHIP TILE LENGTH", Short: "Read bytes from a tile", Args: cobra.ExactArgs(3),
		Example: "  ttfabric mem read M0D7 1-2:0x1000 64 --via M0D0\n  ttfabric mem read M0D7 1-2:0 1048576 --file dump.bin",
		RunE: func(c *cobra.Command, args []string) error {
			as, err := format(c)
			if err != nil {
				return err
			}
			if as == "json" && file == "-" {
				return spec.Usagef("--file -: the bytes go to stdout, and JSON cannot go there too; leave out --output")
			}
			t, err := parseTarget(c, args[0], args[1])
			if err != nil {
				return err
			}
			n, err := strconv.ParseUint(args[2], 0, 31)
			if err != nil || n > maxTransfer {
				return spec.Usagef("length %q: want a number of bytes, 0 to %d", args[2], maxTransfer)
			}
			b := make([]byte, n)
			if err := t.s.Read(c.Context(), t.dst, t.addr, b, session.OnPlane(t.plane)); err != nil {
				return err
			}
			v := output.Memory{Chip: t.dst, Address: t.addr.String(), Bytes: len(b), File: file}
			switch {
			case file == "-":
				_, err = c.OutOrStdout().Write(b)
			case file != "":
				err = folder.WriteOut(file, b)
			case as == "json":
				text := hex.EncodeToString(b)
				v.Hex = &text
			default:
				_, err = fmt.Fprint(c.OutOrStdout(), hex.Dump(b))
			}
			if err == nil && as == "json" {
				err = printJSON(c, v)
			}
			return err
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "write the bytes to this file, instead of printing a dump; -: to stdout")
	memFlags(c)
	return c
}

func newMemWrite() *cobra.Command {
	var from folder.Source
	var many string
	c := &cobra.Command{Use: "write CHIP TILE [TEXT]", Short: "Write bytes to a tile of one chip, or of many chips at once", Args: cobra.RangeArgs(2, 3),
		Long: `The command writes bytes to a tile of a chip.

With --multicast, CHIP sends the bytes by multicast to the same tile of many chips,
but not to its own tile. The ranges are numbers of hops by direction. E2,S1 names the
rectangle of three by two chips with CHIP at the north-west corner. E2-4 names the
chips two to four hops to the east. In tt-metal's linear API, E2-4 is start 2 and
range 3. M1:0-3,7 names chips 0 to 3 and 7 of mesh 1.`,
		Example: "  ttfabric mem write M0D7 1-2:0x1000 'hello' --via M0D0\n  ttfabric mem write M0D7 1-2:0 --file weights.bin\n  ttfabric mem write M0D7 1-2:0 --hex deadbeef\n  ttfabric mem write M0D0 1-2:0 'to all' --multicast E3,S1\n  ttfabric mem write M0D0 1-2:0 'to some' --multicast M0:1,3,6",
		RunE: func(c *cobra.Command, args []string) error {
			from.Text = args[2:]
			b, err := from.Bytes(c.Context(), c.InOrStdin(), maxTransfer)
			if err != nil {
				return err
			}
			var to mesh.Target
			if many != "" {
				if to, err = mesh.ParseTarget(many); err != nil {
					return spec.Usagef("--multicast: %w", err)
				}
				if c.Flags().Changed("via") {
					return spec.Usagef("--via: a multicast starts from CHIP; leave out --via")
				}
			}
			t, err := parseTarget(c, args[0], args[1])
			if err != nil {
				return err
			}
			if many != "" {
				return memMulticast(c, &t, to, b)
			}
			if err := t.s.Write(c.Context(), t.dst, t.addr, b, session.OnPlane(t.plane)); err != nil {
				return err
			}
			return toldMemory(c, &output.Memory{Chip: t.dst, Address: t.addr.String(), Bytes: len(b)}, fmt.Sprintf("%d bytes written to %s at %s", len(b), t.dst, t.addr))
		}}
	sourceFlags(c, &from)
	c.Flags().StringVar(&many, "multicast", "", "write to the chips within these ranges of hops from CHIP, such as E2,W1,N0,S1, or to these chips of a mesh, such as M1:0-3,7")
	memFlags(c)
	return c
}

// memMulticast writes the bytes b from the chip t.dst to all chips of a target.
func memMulticast(c *cobra.Command, t *memTarget, to mesh.Target, b []byte) error {
	ls, err := mesh.Connect(t.s.Sender(c.Context()), t.plane)
	if err == nil {
		err = mesh.MulticastWrite(ls, b, t.addr, to)
	}
	if err != nil {
		return err
	}
	v := &output.Memory{Chip: t.dst, Address: t.addr.String(), Multicast: to.String(), Chips: to.Len(), Bytes: len(b)}
	return toldMemory(c, v, fmt.Sprintf("%d bytes written to %s at %s, %s from %s", len(b), topo.Count(to.Len(), "chip"), t.addr, to, t.dst))
}

func newMemTiles() *cobra.Command {
	return &cobra.Command{Use: "tiles [CHIP]", Short: "List the tiles of a chip and their sizes", Args: cobra.MaximumNArgs(1), Example: "  ttfabric mem tiles\n  ttfabric mem tiles M0D7",
		Long: "The command lists the tiles of CHIP, or of the first chip. The list leaves out\nharvested Tensix tiles, which are switched off and have no memory. Each chip of a\nfabric can have its own harvested tiles.",
		RunE: func(c *cobra.Command, args []string) error {
			fab, err := openFabric(c)
			if err != nil {
				return err
			}
			n := fab.Topology.Chips[0].Node
			if len(args) > 0 {
				n, err = chipOf(fab.Topology, args[0])
			}
			tiles, failed := session.Tiles(fab.Topology, n)
			if err = errors.Join(err, failed); err != nil {
				return err
			}
			if f, _ := format(c); f == "json" {
				return printJSON(c, tiles)
			}
			tw := newTable(c, "Tile", "Kind", "Name", "Bytes")
			for _, x := range tiles {
				tw.AppendRow([]any{fmt.Sprintf("%d-%d", x.X, x.Y), x.Kind, x.Name, x.Memory()})
			}
			tw.Render()
			return nil
		}}
}

// newMemImage returns a command that saves the memory of a chip to a file, or restores it.
func newMemImage(name, short, done string, f func(context.Context, *api.Client, string) (image.Sum, error)) *cobra.Command {
	return &cobra.Command{Use: name + " CHIP FILE", Short: short, Args: cobra.ExactArgs(2), Example: "  ttfabric mem " + name + " M0D3 chip3.mem",
		Long: "'mem save' writes the pages of Tensix and DRAM tiles, and of the kernels' part of ethernet\ntiles, that are in use. Save while nobody writes to the chip. 'mem restore' checks the\nwhole file first. Memory that the file lacks reads as zero afterwards. Registers stay as\nthey are. The chip refuses a file while kernels run. 'go doc\nttfabric/node/noc/image' describes the format.",
		RunE: func(c *cobra.Command, args []string) error {
			cl, err := clientArg(c, args[0])
			if err != nil {
				return err
			}
			sum, err := f(c.Context(), cl, args[1])
			if err != nil {
				return err
			}
			n := cl.Self()
			return toldMemory(c, &output.Memory{Chip: n, Address: "all", Bytes: int(sum.Bytes), File: args[1]}, fmt.Sprintf("%d bytes of the memory of chip %s %s %s", sum.Bytes, n, done, args[1]))
		}}
}
