// Package doctor checks whether this machine can run a fabric. If the machine cannot
// run the fabric, the package says what the user can do. The package changes nothing.
//
// To add a check, write a function in the file of the check's subject, and add a row
// to the table named checks.
package doctor

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// Verdict is the result of a check.
type Verdict uint8

// The verdicts, from good to bad.
const (
	Fine    Verdict = iota
	Warning         // verdict if the fabric runs, but slower or without some feature
	Failure         // verdict if the fabric of the [Request] will not work
)

var verdicts = [...]string{"ok", "warn", "fail"}

// String returns the word for the verdict in tables and JSON.
func (v Verdict) String() string { return verdicts[v] }

// MarshalText returns the verdict's word, for JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's word, as MarshalText returns.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i, word := range verdicts {
		if word == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("verdict %q: want one of %s", text, strings.Join(verdicts[:], ", "))
}

// Finding is the result of one check: what the check found, and what the user can do.
type Finding struct {
	Check   string  `json:"check"` // name of the check
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
	WayOut  string  `json:"way_out,omitempty"` // advice what the user can do
}

// Request describes the fabric that a user wants to run on this machine.
type Request struct {
	Topology *topo.Topology
	PortBase int    // UDP port of the first chip's channel 0; 0: any free ports
	Runtime  string // [spec.Process] or [spec.Docker]
	Image    string // container image of the chips
}

// Check returns an error of kind [spec.Usage] if a value of the request is out of range.
func (r *Request) Check() error {
	switch {
	case r.Runtime != spec.Process && r.Runtime != spec.Docker:
		return spec.Usagef("--runtime %q: want %s or %s", r.Runtime, spec.Process, spec.Docker)
	case r.PortBase < 0 || r.PortBase > 1<<16-1:
		return spec.Usagef("--port-base %d: want 1 to 65535, or 0 for any free ports", r.PortBase)
	}
	return nil
}

// patient is a request, with what the checks need while they run.
type patient struct {
	*Request
	engine func() (container.Versions, error) // returns the engine's versions; asks the engine only at the first call
}

// chips returns the number of the fabric's chips.
func (p *patient) chips() int { return len(p.Topology.Chips) }

// without returns the verdict for a machine that lacks something that only containers need.
func (p *patient) without() Verdict {
	if p.Runtime == spec.Docker {
		return Failure
	}
	return Warning
}

// check is the name of a check, and the function look, which makes the check. look
// changes nothing.
type check struct {
	name string
	look func(ctx context.Context, p *patient) Finding
}

// checks holds all checks, in the order of their findings.
var checks = []check{
	{"loopback", lookLoopback},
	{"UDP offload", lookOffload},
	{"socket buffers", lookBuffers},
	{"ports", lookPorts},
	{"interfaces", lookInterfaces},
	{"kernel netem", lookNetem},
	{"connection tracking", lookConntrack},
	{"open files", lookFiles},
	{"processes", lookProcesses},
	{"memory", lookMemory},
	{"cores", lookCores},
	{"run folder", lookFolder},
	{"disk", lookDisk},
	{"clock", lookClock},
	{"docker engine", lookEngine},
	{"image builder", lookBuilder},
	{"compose", lookCompose},
	{"image", lookImage},
	{"container networks", lookNetworks},
	{"wireshark", lookWireshark},
}

// Checks returns the names of all checks, in the order of their findings.
func Checks() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Examine makes all checks at the same time, since some checks wait for other programs.
// Examine returns the findings of the checks, always in the order of [Checks].
func Examine(ctx context.Context, r *Request) []Finding {
	p := &patient{r, sync.OnceValues(func() (container.Versions, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return container.EngineVersions(ctx)
	})}
	out := make([]Finding, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		wg.Go(func() {
			out[i] = c.look(ctx, p)
			out[i].Check = c.name
		})
	}
	wg.Wait()
	return out
}

// ok returns the finding of a check that found no problem.
func ok(format string, a ...any) Finding { return Finding{Found: fmt.Sprintf(format, a...)} }

// bad returns the finding of a check that found a problem.
func bad(v Verdict, wayOut, format string, a ...any) Finding {
	return Finding{Verdict: v, Found: fmt.Sprintf(format, a...), WayOut: wayOut}
}

// Measured resources that one chip takes. scripts/bench measures these resources.
const (
	chipIdle    = 10 << 20 // memory of a chip that has done little, in bytes
	chipBusy    = 32 << 20 // memory of a chip with much traffic under way, in bytes
	chipFiles   = 160      // largest number of a chip's open files: a socket per channel, gossip, 64 calls of its API, logs
	chipThreads = 12       // number of a chip's threads of the operating system
	chipDisk    = 3 << 20  // size of a chip's archive and log in the run folder, in bytes
	chipCrowd   = 32       // number of chips per core above which traffic becomes very slow
)

func lookCores(_ context.Context, p *patient) Finding {
	return judgeCores(p.chips(), runtime.NumCPU())
}

func judgeCores(chips, cores int) Finding {
	has := fmt.Sprintf("%s for %s", topo.Count(cores, "core"), topo.Count(chips, "chip"))
	switch {
	case chips <= cores:
		return ok("%s", has)
	case chips <= chipCrowd*cores:
		return ok("%s: 'up' then chooses the profile 'crowded', with a longer wait before a silent link goes down", has)
	}
	return bad(Warning, "choose a smaller topology, or run the chips on several machines, see 'ttfabric node --help'", "%s: the chips come up, but under traffic the links will go down", has)
}

// join returns a list's words with commas between them. It shortens a long list.
func join(list []string) string {
	const most = 6
	if n := len(list); n > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(list, ", ")
}
