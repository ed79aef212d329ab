package main

import (
	"context"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	fabriccapture "ttfabric/node/fabric/capture"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
	"ttfabric/wire/capture"
)

func newCapture() *cobra.Command {
	var o fabriccapture.Options
	full := false
	c := &cobra.Command{Use: "capture [LINK|CHIP|CHIP:CHANNEL...]", Short: "Capture frames, for Wireshark or as lines", ValidArgsFunction: completeLinks,
		Long: `The command shows every TT-link frame that passes the ports of running chips. The
command prints each frame as a line. With -w, the command writes each frame as a packet
of one pcapng file, which Wireshark, tshark and tcpdump read. A capture needs no
privilege, because the chips capture their own ports. A chip captures an outgoing frame
as the port would send the frame without impairments. A comment on the frame says what
an impairment did to the frame. A frame between two captured chips appears twice: when
the frame leaves, and when the frame arrives.

The name of a chip alone stands for the chip's own ports, and CHIP:CHANNEL for one
port. Any other LINK stands for both ends of its cables. Without an argument, the
command captures at all ports. Each port is an interface of the file, such as
M0D3/eth8. Some events have no frame of their own: packets that a router drops,
links that go down, faults that are set. Such an event is a comment on the port's
next frame.

With -w, the file keeps the headers of each frame, and leaves out most of the payload:
the first ` + fmt.Sprint(capture.DefaultSnapLen) + ` bytes. These bytes are enough for the analysis of retransmissions and losses.
Wireshark then cannot verify checksums, and cannot join the pieces of large packets. A
comment marks each frame that a port refused. With --full, the file keeps whole frames.

The clock of a chip's machine gives the times of the chip's frames. The frames are
in the order of their times.

No packet of the fabric waits for a capture. If a chip has no room for a captured
frame, the chip leaves out the frame and counts it. The file, and the summary at the
end, give the number of frames left out. A capture takes processor time. Use a filter
on a busy machine. A capture continues when chips end and start again. A capture ends
with Ctrl-C, --count, --duration, --limit or the fabric's end.

` + linkHelp + "\n\n" + capture.FilterHelp,
		Example: `  ttfabric capture                                   a line per frame, all ports
  ttfabric capture M0D3 -w m0d3.pcapng --duration 10s
  ttfabric capture M0D0-M0D1 --filter 'data and dst M0D7'
  ttfabric capture -w - | wireshark -k -i -
  ttfabric capture all -w night.pcapng --ring-files 10 --ring-size 100
  ttfabric capture --filter 'retransmission or nack or fault'
  ttfabric capture M0D3:8 --count 5 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if !full && o.Write != "" && !c.Flags().Changed("snaplen") {
				o.SnapLen = capture.DefaultSnapLen
			}
			return runCapture(c, args, &o)
		}}
	fl := c.Flags()
	fl.StringVarP(&o.Write, "write", "w", "", "write pcapng to this file; -: to stdout")
	fl.StringVar(&o.Filter, "filter", "", "capture only frames that match this expression; the help describes expressions")
	fl.IntVarP(&o.Count, "count", "c", 0, "end after this many frames; 0: no limit")
	fl.DurationVar(&o.Duration, "duration", 0, "end after this time; 0: no limit")
	fl.IntVar(&o.SnapLen, "snaplen", 0, fmt.Sprintf("keep only this many bytes of each Ethernet frame; 0: all bytes (default: %d with -w, otherwise all bytes)", capture.DefaultSnapLen))
	fl.BoolVar(&full, "full", false, "keep all bytes of each frame, as --snaplen 0 does")
	c.MarkFlagsMutuallyExclusive("full", "snaplen")
	fl.IntVar(&o.RingFiles, "ring-files", 0, "keep only this many files, the newest; the names of the files are NAME_00001_TIME.pcapng and so on; needs --ring-size")
	fl.IntVar(&o.RingMiB, "ring-size", 0, "begin the next file after this many MiB")
	fl.IntVar(&o.LimitMiB, "limit", 0, "end after this many MiB; 0: no limit")
	fl.IntVar(&o.BufferMiB, "buffer", 0, fmt.Sprintf("largest amount of captured frames that may wait in each chip, in MiB; 0: %d MiB", capture.DefaultBuffer>>20))
	fl.BoolVar(&o.Keys, "keys", false, "write the TLS keys of the QUIC ports into the file, if the chips run with --keylog; whoever has the file can decrypt the packets")
	return c
}

func runCapture(c *cobra.Command, args []string, o *fabriccapture.Options) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	if o.Write == "-" && screen.Terminal(c.OutOrStdout()) {
		return spec.Usagef("-w -: stdout is a terminal, and a terminal cannot show pcapng; name a file, or use a pipe: ttfabric capture -w - | wireshark -k -i -")
	}
	f, err := openFabric(c)
	if err != nil {
		return err
	}
	where, err := fabriccapture.Ports(f.Topology, args)
	if err != nil {
		return err
	}
	talk := c.ErrOrStderr()
	j, err := fabriccapture.New(f, where, *o)
	if err != nil {
		return err
	}
	j.Say = func(line string) { fmt.Fprintln(talk, line) }
	if missing := j.Missing(); len(missing) > 0 {
		fmt.Fprintf(talk, "these chips are not running; capture begins when they start: %s\n", strings.Trim(fmt.Sprint(missing), "[]"))
	}
	signal.Ignore(syscall.SIGPIPE) // this signal would end the process when the reader of the pipe ends; the capture then ends by the error EPIPE instead
	sink, err := captureSink(c, f, o, out)
	if err != nil {
		return err
	}
	sum, err := j.Run(c.Context(), sink)
	fmt.Fprintln(talk, sum)
	if err != nil {
		return err
	}
	f, err = fabric.Peek(f.Dir)
	if err != nil {
		return nil // the fabric is down
	}
	return f.KeyLog(context.WithoutCancel(c.Context())) // copies also the secrets of connections that began during the capture
}

// captureSink returns the sink that the options choose. A sink writes files, or
// writes pcapng, objects or lines to stdout.
func captureSink(c *cobra.Command, f *fabric.Fabric, o *fabriccapture.Options, out string) (fabriccapture.Sink, error) {
	switch w := c.OutOrStdout(); {
	case o.Write == "" && out == "json":
		as, _ := c.Flags().GetString("output")
		return fabriccapture.Objects(w, as == "yaml"), nil
	case o.Write == "":
		return fabriccapture.Lines(w), nil
	case o.Write == "-":
		return fabriccapture.Stream(w, fabriccapture.Section(f, version())), nil
	}
	return fabriccapture.Files(o, fabriccapture.Section(f, version()))
}
