package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/pipe"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
	"ttfabric/node/session/socket"
)

func newSocket() *cobra.Command {
	c := &cobra.Command{Use: "socket", Short: "Send a file or a stream from one chip to another, with flow control",
		Long: `The commands below socket are the two ends of a socket over the fabric. 'socket send'
sends a file or stdin from the chip SRC. 'socket recv' receives these bytes at the chip
DST. The receiver has a FIFO in the memory of a tile of DST. The sender writes through the
fabric into the FIFO, and stops while the FIFO is full.

Start both ends, in any order, because each end waits for the other. At the end, the receiver
compares the SHA-256 of the bytes with the sender's. A socket survives lost packets,
cut cables and new routes. If a chip restarts, both ends fail.`}
	c.AddCommand(
		newSocketEnd("send", "Send a file or stdin from the chip SRC to the chip DST", "file to send; -: stdin", "  ttfabric socket send M0D0 M0D7 --file weights.bin\n  tar c folder | ttfabric socket send M0D0 M0D7",
			func(c *cobra.Command, j *pipe.Job) (pipe.Result, error) { return j.Send(c.Context(), c.InOrStdin()) }),
		newSocketEnd("recv", "Receive at the chip DST what 'socket send' sends from the chip SRC", "file to write; the file appears when all bytes have come; -: stdout", "  ttfabric socket recv M0D0 M0D7 --file copy.bin\n  ttfabric socket recv M0D0 M0D7 | tar x",
			func(c *cobra.Command, j *pipe.Job) (pipe.Result, error) {
				return j.Recv(c.Context(), c.OutOrStdout())
			}))
	return c
}

// newSocketEnd returns the command of one end. The function "run" runs the end.
func newSocketEnd(name, short, file, example string, run func(c *cobra.Command, j *pipe.Job) (pipe.Result, error)) *cobra.Command {
	var j pipe.Job
	var plane int
	c := &cobra.Command{Use: name + " SRC DST", Short: short, Args: cobra.ExactArgs(2), Example: example,
		Long: "The command waits for the other end, and then prints on stderr how many bytes went,\nhow long they took, and their SHA-256. Ctrl-C ends both ends.\n\nBoth ends need the same --number, --size and --plane. Several pairs of ends need\nseveral numbers.",
		RunE: func(c *cobra.Command, args []string) error {
			as, err := format(c)
			if err != nil {
				return err
			}
			if as == "json" && name == "recv" && j.File == "-" {
				return spec.Usagef("--file -: the bytes go to stdout, and JSON cannot go there too; leave out --output")
			}
			if j.Fabric, j.Src, err = chipArg(c, args[0]); err == nil {
				j.Dst, err = chipOf(j.Fabric.Topology, args[1])
			}
			if err == nil {
				j.Socket.Plane, err = spec.Plane(j.Fabric.Topology, plane)
			}
			if err != nil {
				return err
			}
			var bar *screen.Progress
			j.Progress = func(done, length uint64) {
				if bar == nil {
					bar = screen.NewProgress(c.ErrOrStderr(), "MiB", int((length+1)>>20)) // 0 for socket.Unknown
				}
				bar.Set(int(done >> 20))
			}
			r, err := run(c, &j)
			if bar != nil {
				bar.Stop()
			}
			if err != nil {
				return fmt.Errorf("socket %d from %s to %s: %w", j.Socket.Number, j.Src, j.Dst, err)
			}
			fmt.Fprintln(c.ErrOrStderr(), r.String())
			if as == "json" {
				return printJSON(c, r)
			}
			return nil
		}}
	f := c.Flags()
	f.StringVarP(&j.File, "file", "f", "-", file)
	f.IntVar(&j.Socket.Number, "number", 0, "number of the socket: each number has a tile of its own on each chip")
	f.Uint32Var(&j.Socket.Size, "size", socket.DefaultSize, "size of the receiver's FIFO in bytes")
	f.IntVar(&plane, "plane", 0, "routing plane")
	f.DurationVar(&j.Wait, "wait", time.Minute, "wait at most this long for the other end; 0: no limit")
	f.BoolVar(&j.Socket.Force, "force", false, "take the place of a program that uses this end; for an end that a killed program has left behind")
	return c
}
