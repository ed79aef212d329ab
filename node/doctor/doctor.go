// Package doctor checks whether this machine can run a fabric. For each problem, the
// package says what the user can do. The package changes nothing on the machine.
//
// A programmer who adds a check writes a function, and adds a row to the table named checks.
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
	Fine    Verdict = iota // the check found no problem
	Warning                // the fabric of the [Request] will run, but slower or without some feature
	Failure                // the fabric of the [Request] will not run
)

var verdicts = [...]string{"ok", "warn", "fail"}

// String returns "ok", "warn" or "fail".
func (v Verdict) String() string { return verdicts[v] }

// Names returns the texts that a verdict may have in JSON.
func (Verdict) Names() []string { return verdicts[:] }

// MarshalText returns the text of [Verdict.String].
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a text that [Verdict.MarshalText] returned.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i, word := range verdicts {
		if word == string(text) {
			*v = Verdict(i)
			return nil
		}
	}
	return fmt.Errorf("verdict %q: want one of %s", text, strings.Join(verdicts[:], ", "))
}

// Finding is the result of one check.
type Finding struct {
	Check   string  `json:"check"`             // name of the check
	Verdict Verdict `json:"verdict"`           // verdict of the check
	Found   string  `json:"found"`             // what the check found
	WayOut  string  `json:"way_out,omitempty"` // what the user can do; "": there is no problem, or no advice
}

// Request describes the fabric that a user wants to run on this machine.
type Request struct {
	Topology *topo.Topology // topology of the fabric
	PortBase int            // UDP port of the first chip's channel 0; 0: any free ports
	Runtime  string         // whether chips run as processes or in containers: [spec.Process] or [spec.Docker]
	Image    string         // container image of the chips
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

// patient holds the request, and the versions of the container engine, which several checks share.
type patient struct {
	*Request
	engine func() (container.Versions, error) // returns the versions of the container engine; asks the engine only at the first call
}

// chips returns the number of the fabric's chips.
func (p *patient) chips() int { return len(p.Topology.Chips) }

// The method "without" returns the verdict about a missing part that only containers need: a failure
// if the chips run in containers, else a warning.
func (p *patient) without() Verdict {
	if p.Runtime == spec.Docker {
		return Failure
	}
	return Warning
}

// check is one check of the machine. The function "look" makes the check, and changes nothing
// on the machine.
type check struct {
	name string
	look func(ctx context.Context, p *patient) Finding
}

// checks lists all checks. [Examine] returns the findings in this order.
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
	{"other users", lookUsers},
	{"disk", lookDisk},
	{"clock", lookClock},
	{"docker engine", lookEngine},
	{"image builder", lookBuilder},
	{"compose", lookCompose},
	{"image", lookImage},
	{"container networks", lookNetworks},
	{"wireshark", lookWireshark},
}

// Checks returns the names of all checks, in the order in which [Examine] returns the findings.
func Checks() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Examine makes all checks at the same time, because some checks wait for other programs.
// Examine returns one finding for each check, in the order of [Checks].
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

// bad returns the finding of a check that found a problem. The parameter wayOut says what
// the user can do.
func bad(v Verdict, wayOut, format string, a ...any) Finding {
	return Finding{Verdict: v, Found: fmt.Sprintf(format, a...), WayOut: wayOut}
}

// Resources that one chip takes, as scripts/bench has measured.
const (
	chipIdle    = 10 << 20 // memory of a chip with little traffic so far, in bytes
	chipBusy    = 32 << 20 // memory of a chip under much traffic, in bytes
	chipFiles   = 160      // number of open files that a chip needs: sockets of channels and gossip, 64 connections to the API, and logs
	chipThreads = 12       // number of operating system threads of a chip
	chipDisk    = 3 << 20  // disk space of one chip in bytes: the chip's log, and the chip's share of the archive
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
		return ok("%s: 'up' then chooses the profile 'crowded', whose links wait longer before they go down", has)
	}
	return bad(Warning, "choose a smaller topology, or run the chips on several machines, see 'ttfabric node --help'", "%s: the chips come up, but links will go down under traffic", has)
}

// join returns the texts of a list with commas between the texts. In place of the texts after the
// sixth, join gives their number.
func join(list []string) string {
	const most = 6
	if n := len(list); n > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(list, ", ")
}
