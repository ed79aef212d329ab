// Package doctor checks whether this machine can run a fabric, and says what to do
// if the machine cannot. The package changes nothing.
//
// A new check is a function in the file of its subject, and a row of the table checks.
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
	Warning         // the fabric runs, but slower or without some feature
	Failure         // the fabric of the [Request] will not work
)

var verdicts = [...]string{"ok", "warn", "fail"}

// String returns the word for the verdict in tables and JSON.
func (v Verdict) String() string { return verdicts[v] }

// MarshalText writes the verdict for JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i, word := range verdicts {
		if word == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("verdict %q: want one of %s", text, strings.Join(verdicts[:], ", "))
}

// Finding is the finding of one check.
type Finding struct {
	Check   string  `json:"check"` // name of the check
	Verdict Verdict `json:"verdict"`
	Found   string  `json:"found"`
	WayOut  string  `json:"way_out,omitempty"` // what the user can do
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

// patient is a request while the checks run.
type patient struct {
	*Request
	engine func() (container.Versions, error) // asks the engine once
}

// chips returns the number of the fabric's chips.
func (p *patient) chips() int { return len(p.Topology.Chips) }

// without returns the verdict for a missing need that only containers have.
func (p *patient) without() Verdict {
	if p.Runtime == spec.Docker {
		return Failure
	}
	return Warning
}

// check is one check by its name. The function look changes nothing.
type check struct {
	name string
	look func(ctx context.Context, p *patient) Finding
}

// checks are all checks, in the order of their findings.
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

// Examine makes all checks at the same time, since some wait for other programs.
// It returns their findings, always in the same order.
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

// Measured resources that one chip takes; see scripts/bench.
const (
	chipIdle    = 10 << 20 // bytes of memory of a chip that has done little
	chipBusy    = 32 << 20 // bytes of memory of a chip with much under way
	chipFiles   = 160      // open files at most: a socket per channel, gossip, 64 calls of its API, logs
	chipThreads = 12       // threads of the operating system
	chipDisk    = 3 << 20  // bytes of archive and log in the run folder
	chipCrowd   = 32       // chips per core beyond which traffic becomes very slow
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
		return ok("%s: 'up' then chooses the profile 'crowded', which waits longer for silent links", has)
	}
	return bad(Warning, "choose a smaller topology, or run the chips on several machines, see 'ttfabric node --help'", "%s: the chips come up, but under traffic the links will go down", has)
}

// join joins a list with commas, and shortens a long list.
func join(list []string) string {
	const most = 6
	if n := len(list); n > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(list, ", ")
}
