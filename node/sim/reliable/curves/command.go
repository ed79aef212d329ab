package curves

import (
	"context"
	"os"

	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
	"ttfabric/node/sim/reliable"
	"ttfabric/router/topo"
)

// Command is what the command 'ttfabric model TOPOLOGY --router reliable' measures.
type Command struct {
	Options
	Router string // "reliable"
	Curves bool   // latency by load, not the paper's figures
	Folder string // with Curves: folder for curves.csv and the charts, or ""
}

// Run measures. The argument is the name of one built-in topology. The results are the data for JSON,
// and the head and the rows of a table. If ctx ends, the results are those so far,
// with the error of ctx.
func (c *Command) Run(ctx context.Context, args []string, bar *screen.Progress) (data any, head []any, rows [][]any, err error) {
	switch {
	case c.Router != "reliable":
		return nil, nil, nil, spec.Usagef("--router %q: want reliable", c.Router)
	case len(args) != 1:
		return nil, nil, nil, spec.Usagef("--router %s needs a topology, such as mesh:8x8", c.Router)
	case !c.Curves && (c.Folder != "" || len(c.Patterns)+len(c.Loads) > 0):
		return nil, nil, nil, spec.Usagef("--charts, --pattern and --loads need --curves")
	}
	t, err := topo.Named(args[0])
	if err != nil {
		return nil, nil, nil, err
	}
	m, err := Mesh(t)
	if err != nil {
		return nil, nil, nil, spec.Topologyf("%w", err)
	}
	if c.Folder != "" {
		if i, err := os.Stat(c.Folder); err != nil || !i.IsDir() {
			return nil, nil, nil, spec.Usagef("--charts %s: want a folder that exists", c.Folder)
		}
	}
	if !c.Curves {
		if m.W < 4 {
			return nil, nil, nil, spec.Topologyf("%s: the measurements need at least four columns", t.Name)
		}
		ns, err := reliable.Numbers(m, c.Seed)
		if err != nil {
			return nil, nil, nil, err
		}
		head, rows = NumberTable(ns)
		return ns, head, rows, nil
	}
	cs, err := Run(ctx, m, c.Options, func(done, total int) {
		bar.Rename("points measured", total)
		bar.Set(done)
	})
	if err == nil && c.Folder != "" {
		err = Write(c.Folder, m, cs)
	}
	if cs == nil {
		return nil, nil, nil, err
	}
	head, rows = Table(cs)
	return cs, head, rows, err
}
