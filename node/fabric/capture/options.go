// Package capture captures at the ports of many chips at once. The package writes all frames in the
// order of time, as a pcapng stream, as pcapng files, or as lines of text or JSON.
//
//	where, err := capture.Ports(f.Topology, []string{"M0D0"})
//	o := capture.Options{Write: "m0d0.pcapng", Count: 100}
//	sink, err := capture.Files(&o, capture.Section(f, version))
//	j, err := capture.New(f, where, o)
//	sum, err := j.Run(ctx, sink)
//
// A [Job] continues when chips end and start again, and when another fabric of the same
// name replaces the fabric. The chips do the capturing; see package node. Package
// wire/capture describes the format of the chips' streams.
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
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// Options say which frames a capture takes, when the capture ends, and which
// files the capture writes.
type Options struct {
	Write     string        // name of the pcapng file; "-": a pcapng stream to standard output; "": no pcapng
	Filter    string        // expression that selects frames, see [capture.FilterHelp]; "": all frames
	Count     int           // number of frames after which the capture ends; 0: no limit
	Duration  time.Duration // time after which the capture ends; 0: no limit
	SnapLen   int           // number of bytes to keep of each Ethernet frame, at most [api.MaxSnapLen]; 0: all bytes
	RingFiles int           // number of files to keep, the newest ones; needs RingMiB; 0: all files
	RingMiB   int           // size of a file in MiB at which the next file begins; 0: one file
	LimitMiB  int           // size of all files together, or of the stream, in MiB at which the capture ends; 0: no limit
	BufferMiB int           // size of each chip's buffer for captured frames in MiB, at most [capture.MaxBuffer]; 0: [capture.DefaultBuffer]
	Keys      bool          // whether the file gets the TLS keys of QUIC connections
}

// Check returns an error of kind [spec.Usage] if an option is out of range, or if two
// options contradict each other. The error names the flags of 'ttfabric capture'.
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
		return spec.Usagef("--ring-files %d: want --ring-size too, the size of a file in MiB at which the next file begins", o.RingFiles)
	case o.RingMiB > 0 && (o.Write == "" || o.Write == "-"):
		return spec.Usagef("--ring-size %d: want a file name with -w FILE, from which the files get their names", o.RingMiB)
	case o.LimitMiB > 0 && o.Write == "":
		return spec.Usagef("--limit %d: this limit is a size of files; name a file with -w", o.LimitMiB)
	case o.Keys && o.Write == "":
		return spec.Usagef("--keys: the capture writes keys only into a file; name a file with -w")
	}
	if _, err := capture.ParseFilter(o.Filter); err != nil {
		return spec.Usagef("--%w", err)
	}
	return nil
}

// Ports returns the ports of a topology that the words name. The name of a chip, or a
// pattern of chips, names all ports of the chips. "M0D0:8", "M0D0/8" and "M0D0/eth8" name
// one port. Any other word names cables, see [pick.Links], and stands for
// both ends of each cable. If there are no words, Ports returns all ports.
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
		word = strings.Replace(word, "/eth", "/", 1) // accepts the name of a pcapng interface, such as M0D0/eth8
		chips, notChips := pick.Chips(t, word)
		args := []string{word}
		if notChips == nil {
			args = nil
			for n := range chips {
				args = append(args, n.String())
			}
		}
		links, err := pick.Links(t, args)
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

// Section returns the header of a pcapng file or stream. The header names the fabric, the
// impairments from the fabric's start, and the program's version.
func Section(f *fabric.Fabric, version string) capture.Section {
	host, _ := os.Hostname()
	comments := []string{fmt.Sprintf("fabric %q, %s, started %s", f.Spec.Name, f.Topology.Name, f.Spec.Created.Format(time.RFC3339))}
	for _, n := range slices.Concat(spec.DeclaredBy(f.Topology), f.Spec.Netem) {
		comments = append(comments, "impaired from the start: "+n)
	}
	return capture.Section{Hardware: f.Topology.Arch.String() + ", emulated", OS: "Linux, " + host, Application: "ttfabric " + version, Comments: comments}
}
