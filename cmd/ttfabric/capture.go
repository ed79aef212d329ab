package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// captureFlags are those of 'capture'; extcap fills them in, too.
type captureFlags struct {
	write     string
	filter    string
	count     int
	duration  time.Duration
	snapLen   int
	ringFiles int
	ringSize  int
	limit     int
	buffer    int
	keys      bool
}

func newCapture() *cobra.Command {
	var f captureFlags
	c := &cobra.Command{Use: "capture [LINK|CHIP|CHIP:CHANNEL...]", Short: "Capture frames, for Wireshark or as lines", ValidArgsFunction: completeLinks,
		Long: `capture shows every TT-link frame that passes the ports of running chips: as a
line each, or with -w as one pcapng file that Wireshark, tshark and tcpdump
read. It needs no privilege: the chips do it themselves, before an impairment
does anything to what they send, and note on each frame what was done to it. A
frame between two chips that are both captured is there twice: as it leaves,
and as it arrives.

A name alone is a chip's own ports, CHIP:CHANNEL one of them; any other LINK
stands for both ends of its cables. Without one, it is all ports. Each port is
an interface of the file, M0D3/eth8. What happens without a frame of its own
(packets that a router drops, links that go down, faults that are set) is a
comment on the port's next frame.

Times are those of each chip's machine; frames stand in their order.

No packet waits for a capture. What a chip has no room for is left out, counted,
and told at the end and in the file. But it takes processor time: on a busy
machine, filter. It goes on when chips die and come back,
and ends with Ctrl-C, --count, --duration, --limit or the fabric's end.

` + linkHelp + "\n\n" + capture.FilterHelp,
		Example: `  ttfabric capture                                   a line per frame, all ports
  ttfabric capture M0D3 -w m0d3.pcapng --duration 10s
  ttfabric capture M0D0-M0D1 --filter 'data and dst M0D7'
  ttfabric capture -w - | wireshark -k -i -
  ttfabric capture all -w night.pcapng --ring-files 10 --ring-size 100 --snaplen 200
  ttfabric capture --filter 'retransmission or nack or fault'
  ttfabric capture M0D3:8 --count 5 -o json`,
		RunE: func(c *cobra.Command, args []string) error { return runCapture(c, args, &f) }}
	fl := c.Flags()
	fl.StringVarP(&f.write, "write", "w", "", "write pcapng to this file, or with - to stdout")
	fl.StringVar(&f.filter, "filter", "", "only frames that fit this expression, see above")
	fl.IntVarP(&f.count, "count", "c", 0, "end after so many frames; 0: never")
	fl.DurationVar(&f.duration, "duration", 0, "end after this time; 0: never")
	fl.IntVar(&f.snapLen, "snaplen", 0, "keep so many bytes of each Ethernet frame; 0: all")
	fl.IntVar(&f.ringFiles, "ring-files", 0, "keep the last so many files, NAME_00001_TIME.pcapng and so on; needs --ring-size")
	fl.IntVar(&f.ringSize, "ring-size", 0, "begin another file after so many MiB")
	fl.IntVar(&f.limit, "limit", 0, "end after so many MiB; 0: never")
	fl.IntVar(&f.buffer, "buffer", 0, fmt.Sprintf("MiB that may wait in each chip; 0: %d", node.DefaultCaptureBuffer>>20))
	fl.BoolVar(&f.keys, "keys", false, "put the TLS keys of QUIC ports into the file, of chips that were started with --keylog: whoever has it can decrypt them")
	return c
}

// check reports flags that do not go together, or are out of range.
func (f *captureFlags) check() error {
	for _, n := range []struct {
		name string
		v    int
		high int
	}{{"count", f.count, 1 << 40}, {"snaplen", f.snapLen, api.MaxSnapLen}, {"ring-files", f.ringFiles, 99999}, {"ring-size", f.ringSize, 1 << 20},
		{"limit", f.limit, 1 << 30}, {"buffer", f.buffer, node.MaxCaptureBuffer >> 20}} {
		if n.v < 0 || n.v > n.high {
			return spec.Usagef("--%s %d: want 0 to %d", n.name, n.v, n.high)
		}
	}
	switch {
	case f.duration < 0:
		return spec.Usagef("--duration %v: want a time such as 10s, or 0 for no end", f.duration)
	case f.ringFiles > 0 && f.ringSize == 0:
		return spec.Usagef("--ring-files %d: say with --ring-size after how many MiB another file begins", f.ringFiles)
	case f.ringSize > 0 && (f.write == "" || f.write == "-"):
		return spec.Usagef("--ring-size %d: name the files with -w FILE", f.ringSize)
	case f.limit > 0 && f.write == "":
		return spec.Usagef("--limit %d: it is the size of a file, name one with -w", f.limit)
	case f.keys && f.write == "":
		return spec.Usagef("--keys: they go into a file, name one with -w")
	}
	if _, err := capture.ParseFilter(f.filter); err != nil {
		return spec.Usagef("--%w", err)
	}
	return nil
}

func runCapture(c *cobra.Command, args []string, f *captureFlags) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	if f.write == "-" && terminal(c.OutOrStdout()) {
		return spec.Usagef("-w -: stdout is a terminal, and pcapng is no text; name a file, or pipe it: ttfabric capture -w - | wireshark -k -i -")
	}
	dir, err := dirOf(c)
	if err != nil {
		return err
	}
	_, t, _, err := dir.mesh()
	if err != nil {
		return err
	}
	where, err := capturedPorts(t, args)
	if err != nil {
		return err
	}
	if _, missing, _, err := dir.clients(); err != nil {
		return err
	} else if missing = slices.DeleteFunc(missing, func(n wire.FabricNodeID) bool { return where[n] == nil }); len(missing) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "not running, captured once they are: %s\n", strings.Trim(fmt.Sprint(missing), "[]"))
	}
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away ends the capture like any other end
	j := &captureJob{dir: dir, t: t, where: where, flags: f, say: c.ErrOrStderr()}
	switch {
	case f.write == "" && out == "json":
		o, _ := c.Flags().GetString("output")
		j.sink = newJSONSink(c.OutOrStdout(), o == "yaml")
	case f.write == "":
		j.sink = newLineSink(c.OutOrStdout())
	case f.write == "-":
		j.sink = newPcapSink(c.OutOrStdout(), nil, j.section())
	default:
		if j.sink, err = newFileSink(f, j.section()); err != nil {
			return err
		}
	}
	if err = j.run(c.Context()); err == nil {
		err = dir.host().keylog(context.WithoutCancel(c.Context())) // connections were made anew, perhaps
	}
	return err
}

// section describes a capture of the job.
func (j *captureJob) section() capture.Section {
	host, _ := os.Hostname()
	comments := []string{fmt.Sprintf("fabric %s", j.t.Name)}
	if m, _, _, err := j.dir.mesh(); err == nil {
		comments[0] = fmt.Sprintf("fabric %q, %s, started %s", m.Name, j.t.Name, m.Created.Format(time.RFC3339))
		for _, n := range slices.Concat(spec.DeclaredBy(j.t), m.Netem) {
			comments = append(comments, "impaired from the start: "+n)
		}
	}
	return capture.Section{Hardware: j.t.Arch.String() + ", emulated", OS: "Linux, " + host, Application: "ttfabric " + version(), Comments: comments}
}

// capturedPorts are the ports that words name, by chip: a chip's own ones, a port, or both ends of cables. No words: all.
func capturedPorts(t *topo.Topology, words []string) (map[wire.FabricNodeID][]wire.Channel, error) {
	if len(words) == 0 {
		words = []string{"all"}
	}
	where := map[wire.FabricNodeID][]wire.Channel{}
	add := func(p wire.PortID) {
		if !slices.Contains(where[p.Node], p.Channel) {
			where[p.Node] = append(where[p.Node], p.Channel)
		}
	}
	for _, word := range words {
		word = strings.Replace(word, "/eth", "/", 1) // as interfaces are named
		chips, notChips := t.SelectChips(word)
		links := []string{word}
		if notChips == nil {
			links = nil
			for n := range chips {
				links = append(links, n.String())
			}
		}
		ls, err := parseLinks(t, links)
		if err != nil {
			return nil, err
		}
		one := strings.ContainsAny(word, ":/") && !strings.ContainsAny(word, "-*") && !strings.Contains(word, "plane:") && !strings.Contains(word, "label:")
		for _, l := range ls {
			if notChips != nil || chips[l.A.Node] {
				add(l.A)
			}
			if notChips == nil && chips[l.B.Node] || notChips != nil && !one {
				add(l.B)
			}
		}
	}
	if len(where) == 0 {
		return nil, errors.New("there is no port to capture at")
	}
	return where, nil
}

// captureTimes of the client.
const (
	captureRetry = 500 * time.Millisecond // between attempts to reach a chip that is gone
	captureEnd   = 2 * time.Second        // for the chips to send what they have, at the end
	captureTick  = 50 * time.Millisecond  // packets that are kept back for others are looked at so often
)

// open begins a capture at one chip.
func (j *captureJob) open(ctx context.Context, n wire.FabricNodeID, id string) (*api.CaptureStream, error) {
	cl, err := j.dir.client(n)
	if err != nil {
		return nil, err
	}
	f := j.flags
	return cl.Capture(ctx, api.CaptureBody{Channels: j.where[n], SnapLen: f.snapLen, Filter: f.filter, BufferMiB: f.buffer, Keys: f.keys, ID: id})
}
