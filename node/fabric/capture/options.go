// Package capture captures the ports of many chips at once, and puts all frames
// in the order of time: into one pcapng stream, into one or more pcapng files,
// or as lines of text or JSON.
//
//	where, err := capture.Ports(f.Topology, []string{"M0D0"})
//	o := capture.Options{Write: "m0d0.pcapng", Count: 100}
//	sink, err := capture.Files(&o, capture.Section(f, version))
//	j, err := capture.New(f, where, o)
//	sum, err := j.Run(ctx, sink)
//
// A [Job] continues when chips die and come back, and when another fabric of the same
// name replaces the fabric. The chips do the capturing; see package node. Package
// wire/capture has the format of the chips' streams.
package capture

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// Options say which frames a capture takes, when the capture ends, and which
// files the capture writes.
type Options struct {
	Write     string        // name of the pcapng file; "-": a stream; "": no pcapng
	Filter    string        // filter of the frames, see [capture.FilterHelp]; "": all frames
	Count     int           // number of frames after which the capture ends; 0: no limit
	Duration  time.Duration // time after which the capture ends; 0: no limit
	SnapLen   int           // number of bytes to keep of each Ethernet frame, at most [api.MaxSnapLen]; 0: all
	RingFiles int           // number of newest files to keep, which needs RingMiB; 0: all files
	RingMiB   int           // size in MiB after which the next file begins; 0: one file
	LimitMiB  int           // size of all files in MiB after which the capture ends; 0: no limit
	BufferMiB int           // amount of frames that may wait in each chip, in MiB, at most [capture.MaxBuffer]; 0: [capture.DefaultBuffer]
	Keys      bool          // whether the TLS keys of QUIC ports go into the file
}

// Check returns an error for options that are out of range or contradict each other.
// The error is of kind [spec.Usage], and names the flags of 'ttfabric capture'.
func (o *Options) Check() error {
	for _, n := range []struct {
		name string
		v    int
		high int
	}{{"count", o.Count, 1 << 40}, {"snaplen", o.SnapLen, api.MaxSnapLen}, {"ring-files", o.RingFiles, 99999}, {"ring-size", o.RingMiB, 1 << 20},
		{"limit", o.LimitMiB, 1 << 30}, {"buffer", o.BufferMiB, capture.MaxBuffer >> 20}} {
		if n.v < 0 || n.v > n.high {
			return spec.Usagef("--%s %d: want 0 to %d", n.name, n.v, n.high)
		}
	}
	switch {
	case o.Duration < 0:
		return spec.Usagef("--duration %v: want a time such as 10s, or 0 for no end", o.Duration)
	case o.RingFiles > 0 && o.RingMiB == 0:
		return spec.Usagef("--ring-files %d: want --ring-size too, the size in MiB at which the next file begins", o.RingFiles)
	case o.RingMiB > 0 && (o.Write == "" || o.Write == "-"):
		return spec.Usagef("--ring-size %d: want a file name with -w FILE, from which the files get their names", o.RingMiB)
	case o.LimitMiB > 0 && o.Write == "":
		return spec.Usagef("--limit %d: the limit is the size of a file; name a file with -w", o.LimitMiB)
	case o.Keys && o.Write == "":
		return spec.Usagef("--keys: the keys go into a file; name a file with -w")
	}
	if _, err := capture.ParseFilter(o.Filter); err != nil {
		return spec.Usagef("--%w", err)
	}
	return nil
}

// Ports returns the ports that at least one of the words names. The name of a chip, or
// a pattern of chips, stands for the chips' own ports. "M0D0:8", "M0D0/8" and
// "M0D0/eth8" stand for one port. Any other LINK stands for both ends of its cables
// (see [topo.Topology.SelectLinks]). Without words, Ports returns all ports.
func Ports(t *topo.Topology, words []string) (fabric.Where, error) {
	if len(words) == 0 {
		words = []string{"all"}
	}
	where := fabric.Where{}
	add := func(p wire.PortID) {
		if !slices.Contains(where[p.Node], p.Channel) {
			where[p.Node] = append(where[p.Node], p.Channel)
		}
	}
	for _, word := range words {
		word = strings.Replace(word, "/eth", "/", 1) // a pcapng interface is named M0D0/eth8
		chips, notChips := t.SelectChips(word)
		args := []string{word}
		if notChips == nil {
			args = nil
			for n := range chips {
				args = append(args, n.String())
			}
		}
		links, err := t.SelectLinks(args)
		if err != nil {
			return nil, spec.AsUsage(err)
		}
		onePort := strings.ContainsAny(word, ":/") && !strings.ContainsAny(word, "-*") && !strings.Contains(word, "plane:") && !strings.Contains(word, "label:")
		for _, l := range links {
			if notChips != nil || chips[l.A.Node] {
				add(l.A)
			}
			if notChips == nil && chips[l.B.Node] || notChips != nil && !onePort {
				add(l.B)
			}
		}
	}
	if len(where) == 0 {
		return nil, errors.New("none of the named cables and chips has a port to capture at; 'ttfabric inspect --links' lists the ports")
	}
	return where, nil
}

// Section returns the description of a capture for the head of a pcapng file: the
// fabric, the impairments from the start, and the program's version.
func Section(f *fabric.Fabric, version string) capture.Section {
	host, _ := os.Hostname()
	comments := []string{fmt.Sprintf("fabric %q, %s, started %s", f.Spec.Name, f.Topology.Name, f.Spec.Created.Format(time.RFC3339))}
	for _, n := range slices.Concat(spec.DeclaredBy(f.Topology), f.Spec.Netem) {
		comments = append(comments, "impaired from the start: "+n)
	}
	return capture.Section{Hardware: f.Topology.Arch.String() + ", emulated", OS: "Linux, " + host, Application: "ttfabric " + version, Comments: comments}
}
