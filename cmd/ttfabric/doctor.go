package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// verdict is what a check has come to.
type verdict uint8

const (
	fine  verdict = iota
	warns         // something works worse, or not at all, that a fabric can do without
	fails         // the fabric that was asked for will not work
)

var verdicts = [...]string{"ok", "warn", "fail"}

// String is the verdict as tables and JSON have it.
func (v verdict) String() string { return verdicts[v] }

// MarshalText writes the verdict for JSON.
func (v verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// finding is what one check has found.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Found   string  `json:"found"`
	Way     string  `json:"way_out,omitempty"` // what to do about it
}

// request is what the doctor looks at: the fabric that somebody wants here.
type request struct {
	t        *topo.Topology
	portBase int    // of 'up'; 0: any free ports
	runtime  string // of 'up'
	image    string // of 'up'

	engine func() (engineVersions, error) // asked once
}

// without is the verdict on something that only containers need.
func (p *request) without() verdict {
	if p.runtime == spec.Docker {
		return fails
	}
	return warns
}

// check looks at one thing, and changes nothing.
type check struct {
	name string
	look func(ctx context.Context, p *request) finding
}

// checks are all that the doctor looks at, in the order of the table.
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

func newDoctor() *cobra.Command {
	var p request
	c := &cobra.Command{
		Use: "doctor [TOPOLOGY]", Short: "Look whether this machine can run a fabric, and say what to do where not", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		Long: `doctor looks at what a fabric of the given size needs of this machine: loopback,
UDP offload, buffers, free ports, limits, memory, disk, clock, the Docker engine and
its networks, kernel netem, Wireshark. It changes nothing. Each check is ok, a
warning (something works worse, or is not to be had, that a fabric can do without)
or a failure, with the way out. TOPOLOGY is what 'up' takes (default: t3000);
--port-base, --runtime and --image are those of 'up'. With '--runtime docker' what
containers need is no mere warning.

Exit code 1 where a check fails, 0 otherwise.`,
		Example: "  ttfabric doctor\n  ttfabric doctor galaxy --runtime docker\n  ttfabric doctor mesh:4x8 --port-base 17000\n  ttfabric doctor -o json",
		RunE: func(c *cobra.Command, args []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			arg := ""
			if len(args) > 0 {
				arg = args[0]
			}
			if p.t, err = loadTopology(c.Context(), arg); err != nil {
				return err
			}
			if p.runtime != spec.Process && p.runtime != spec.Docker {
				return spec.Usagef("--runtime %q: want %s or %s", p.runtime, spec.Process, spec.Docker)
			}
			if p.portBase < 0 || p.portBase > 1<<16-1 {
				return spec.Usagef("--port-base %d: want 1 to 65535, or 0 for any", p.portBase)
			}
			return showFindings(c, f, examine(c.Context(), &p))
		}}
	fl := c.Flags()
	fl.IntVar(&p.portBase, "port-base", 0, "UDP port of the first chip's channel 0, as for 'up': are they free?")
	fl.StringVar(&p.runtime, "runtime", spec.Process, "what the chips are to be: process or docker")
	fl.StringVar(&p.image, "image", "ttfabric", "container image, as for 'up'")
	return c
}

// examine makes all checks, those that wait for other programs at the same time.
func examine(ctx context.Context, p *request) []finding {
	p.engine = sync.OnceValues(func() (engineVersions, error) { return askEngine(ctx) })
	out := make([]finding, len(checks))
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

func showFindings(c *cobra.Command, f string, found []finding) error {
	var count [len(verdicts)]int
	for _, x := range found {
		count[x.Verdict]++
	}
	if f == "json" {
		if err := printJSON(c, found); err != nil {
			return err
		}
	} else {
		tw := newTable(c, "Check", "Verdict", "Found", "Way out")
		tw.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}, {Number: 4, WidthMax: 60, WidthMaxEnforcer: text.WrapSoft}})
		for _, x := range found {
			tw.AppendRow(table.Row{x.Check, x.Verdict.String(), x.Found, x.Way})
		}
		tw.Render()
	}
	if n := count[fails]; n > 0 {
		return fmt.Errorf("%s failed", topo.Count(n, "check"))
	}
	if count[warns] > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%s; nothing that keeps this fabric from running\n", topo.Count(count[warns], "warning"))
	}
	return nil
}

func ok(format string, a ...any) finding { return finding{Found: fmt.Sprintf(format, a...)} }

func bad(v verdict, way, format string, a ...any) finding {
	return finding{Verdict: v, Found: fmt.Sprintf(format, a...), Way: way}
}

// Costs of one chip, as measured; see scripts/bench.
const (
	chipIdle    = 10 << 20 // bytes of memory when it has done little
	chipBusy    = 32 << 20 // bytes of memory with much under way
	chipFiles   = 160      // open files at most: a socket per channel, gossip, 64 calls of its API, logs
	chipThreads = 12       // of the operating system
	chipDisk    = 3 << 20  // bytes of archive and log in the run folder
	chipCrowd   = 32       // chips per core from which on traffic crawls
)

func lookCores(_ context.Context, p *request) finding {
	return judgeCores(len(p.t.Chips), runtime.NumCPU())
}

func judgeCores(chips, cores int) finding {
	switch {
	case chips <= cores:
		return ok("%s for %s", topo.Count(cores, "core"), topo.Count(chips, "chip"))
	case chips <= chipCrowd*cores:
		return ok("%s for %s: the profile 'crowded', which 'up' chooses then, waits longer for silent links", topo.Count(cores, "core"), topo.Count(chips, "chip"))
	}
	return bad(warns, "a smaller topology, or several machines: 'ttfabric node --help'", "%s for %s: they come up, but under traffic links will be taken for dead",
		topo.Count(cores, "core"), topo.Count(chips, "chip"))
}

// join renders a list, cut where it is long.
func join(list []string) string {
	const most = 6
	if n := len(list); n > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(list, ", ")
}
