package main

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/firmware/host"
	"ttfabric/node/output"
	"ttfabric/wire"
)

func newHostQueues() *cobra.Command {
	return &cobra.Command{Use: "queues CHIP", Short: "Show the firmware's queues of a chip's ethernet tiles", Args: cobra.ExactArgs(1),
		Long: `A host uses the base firmware of an ethernet tile through two queues in the tile's
memory. The command reads and shows the queues of each ethernet tile of CHIP.

The columns Requests and Completions show the write index, the read index and the flags
of the entries that wait. The word "empty" stands for a completion that the firmware
has not filled yet. The columns Writes and Reads show how many requests the firmware
has accepted, and how many have ended. The column "Last error" shows why the last
request with an error failed. With -o json, the command shows all entries, also old
ones, and how many requests of each type the firmware has accepted, done and refused.`,
		Example: "  ttfabric host queues M0D0\n  ttfabric host queues M0D0 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			as, err := format(c)
			if err != nil {
				return err
			}
			f, n, err := chipArg(c, args[0])
			if err != nil {
				return err
			}
			states, err := f.HostStates(c.Context(), n)
			if err != nil {
				return err
			}
			if as == "json" {
				return printJSON(c, states)
			}
			tw := newTable(c, "Tile", "NoC", "Requests", "Completions", "Writes", "Reads", "Errors", "Last error")
			for _, x := range states {
				tw.AppendRow([]any{fmt.Sprintf("E%d", x.Channel), x.Tile, x.Requests, x.Completions, x.Writes, x.Reads, x.Errors, x.LastError})
			}
			tw.Render()
			return nil
		}}
}

// maxHost is the largest number of bytes that a host command moves.
const maxHost = 1 << 20

// hostMove is a command that moves bytes through the queues of the tile that --through names.
type hostMove struct {
	through string
	from    folder.Source
	write   bool
}

// hostLong is the end of the help of 'host read' and 'host write'.
const hostLong = `

The firmware of the tile of --through passes the requests over NoC and cables to the
firmware of CHIP. Addresses and lengths are multiples of 4 bytes. Only one host at a time
may use a tile's queues. TILE has the form that 'ttfabric mem --help' explains.`

func newHostRead() *cobra.Command {
	var m hostMove
	return m.flags(&cobra.Command{Use: "read CHIP TILE LENGTH", Short: "Read bytes through the firmware's queues, as a host does", Args: cobra.ExactArgs(3),
		Long:    "The command reads memory or registers of CHIP by requests in the queues of the base\nfirmware, and prints a dump." + hostLong,
		Example: "  ttfabric host read M0D1 1-1:0x20000 64\n  ttfabric host read M0D1 8-0:0xFFB20110 4 --through M0D0/10", RunE: m.run})
}

func newHostWrite() *cobra.Command {
	m := hostMove{write: true}
	c := m.flags(&cobra.Command{Use: "write CHIP TILE [TEXT]", Short: "Write bytes through the firmware's queues, as a host does", Args: cobra.RangeArgs(2, 3),
		Long:    "The command writes memory or registers of CHIP by requests in the queues of the base\nfirmware, and waits until the firmware has counted the end of each request." + hostLong,
		Example: "  ttfabric host write M0D1 1-1:0x20000 --hex 01020304\n  ttfabric host write M0D1 1-1:0x20000 --file block.bin --through M0D0/8", RunE: m.run})
	sourceFlags(c, &m.from)
	return c
}

func (m *hostMove) flags(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&m.through, "through", "", "ethernet tile whose queues the command uses, as CHIP/CHANNEL, such as M0D0/8 for the tile E8 (default: channel 0 of the first chip in the mesh of CHIP that a host reaches over PCIe)")
	return c
}

func (m *hostMove) run(c *cobra.Command, args []string) error {
	as, err := format(c)
	if err != nil {
		return err
	}
	addr, err := wire.ParseNocAddr(args[1])
	if err != nil {
		return spec.Usagef("%w", err)
	}
	var b []byte
	if m.write {
		m.from.Text = args[2:]
		if b, err = m.from.Bytes(c.Context(), c.InOrStdin(), maxHost); err != nil {
			return err
		}
	} else if n, err := strconv.ParseUint(args[2], 0, 31); err == nil && n <= maxHost {
		b = make([]byte, n)
	} else {
		return spec.Usagef("length %q: want a number of bytes, at most %d", args[2], maxHost)
	}
	if err := host.Check(addr, len(b)); err != nil {
		return spec.AsUsage(err)
	}
	f, dst, err := chipArg(c, args[0])
	if err != nil {
		return err
	}
	by, ch := host.Default(f.Topology, dst)
	if m.through != "" {
		chip, channel, err := host.ParseTile(m.through)
		if err != nil {
			return spec.Usagef("--through: %w", err)
		}
		if by, err = chipOf(f.Topology, chip); err != nil {
			return err
		}
		ch = channel
	}
	s, err := f.Session(by)
	if err != nil {
		return err
	}
	q, err := host.Open(s, ch)
	if err != nil {
		return spec.AsUsage(err)
	}
	v := output.Memory{Chip: dst, Address: addr.String(), Bytes: len(b)}
	if m.write {
		if err := q.Write(c.Context(), dst, addr, b); err != nil {
			return f.HostError(c.Context(), by, ch, err)
		}
		return toldMemory(c, &v, fmt.Sprintf("%d bytes written to %s at %s through %s", len(b), dst, addr, q))
	}
	if err := q.Read(c.Context(), dst, addr, b); err != nil {
		return f.HostError(c.Context(), by, ch, err)
	}
	if as == "json" {
		text := hex.EncodeToString(b)
		v.Hex = &text
		return printJSON(c, v)
	}
	_, err = fmt.Fprint(c.OutOrStdout(), hex.Dump(b))
	return err
}
