package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// refuse names a flag that does nothing to a fabric that runs already.
func (f *upFlags) refuse(c *cobra.Command, name string, m *meshFile) error {
	if len(f.netem) > 0 {
		return coded(exitUsage, "--netem: fabric %q runs already; 'ttfabric netem set' impairs its cables", name)
	}
	if f.archive != (archiveFlags{}) {
		return coded(exitUsage, "--archive and --archive-limit: fabric %q runs already; 'ttfabric down' stops it", name)
	}
	if f.gossipKey != "" {
		return coded(exitUsage, "--gossip-key: fabric %q runs already; 'ttfabric gossip keys' changes the keys of one that is encrypted", name)
	}
	for _, x := range []string{"transport", "auth", "psk-file", "pki", "keylog"} {
		if c.Flags().Changed(x) {
			return coded(exitUsage, "--%s: fabric %q runs already, and keeps what carries its links; 'ttfabric down' stops it", x, name)
		}
	}
	if err := f.keep(c, name, m); err != nil {
		return err
	}
	return f.record.refuse(name)
}

// keep refuses the flags that would have the running fabric other than it is;
// what is not known of a fabric that was found rather than started is let pass.
func (f *upFlags) keep(c *cobra.Command, name string, m *meshFile) error {
	has := [][2]string{{"runtime", cmp.Or(m.Runtime, runtimeProcess)}, {"profile", m.Profile}, {"slots", m.Slots}, {"order", m.Order}, {"ring", m.Ring},
		{"engine", m.Engine}, {"fabric", m.Fabric}, {"stuck", m.Stuck}, {"offload", m.Offload}}
	if m.Runtime == "" {
		has = append(has, [][2]string{{"stuck-after", (time.Duration(m.StuckMS) * time.Millisecond).String()}, {"local-first", strconv.FormatBool(m.Local)},
			{"ttl", strconv.Itoa(m.TTL)}, {"port-base", strconv.Itoa(m.PortBase)}}...)
	}
	for _, h := range has {
		if fl := c.Flags().Lookup(h[0]); fl != nil && fl.Changed && h[1] != "" && fl.Value.String() != h[1] {
			return coded(exitUsage, "--%s %s: fabric %q runs already, with %s; 'ttfabric down --name %s' stops it, or choose another --name", h[0], fl.Value, name, h[1], name)
		}
	}
	return nil
}

// contain makes the fabric one of containers, where the flags say so, and returns its compose file.
func (f *upFlags) contain(c *cobra.Command, m *meshFile, arg string, t *topo.Topology) ([]byte, error) {
	switch f.runtime {
	case "", runtimeProcess:
		for _, name := range []string{"image", "memory", "mtu"} {
			if c.Flags().Changed(name) {
				return nil, coded(exitUsage, "--%s goes with --runtime docker", name)
			}
		}
		return nil, nil
	case runtimeDocker:
	default:
		return nil, coded(exitUsage, "--runtime %q: want process or docker", f.runtime)
	}
	if f.portBase != 0 {
		return nil, coded(exitUsage, "--port-base: each container has an address of its own, and the same ports; leave it out")
	}
	if _, err := composeCommand(c.Context()); err != nil {
		return nil, err
	}
	if _, err := docker(c.Context(), "version", "--format", "{{.Server.Version}}"); err != nil {
		return nil, err // as the engine says it, not as compose does
	}
	m.Runtime, m.Project = runtimeDocker, projectName(m.Name)
	fab := f.fabricFlags
	fab.profile = m.Profile
	return composeFile(m.Name, cmp.Or(arg, defaultTopology), t, fab, f.compose, func(of *meshFile) (string, error) {
		of.Keyed = m.Keyed
		return "./" + secretsName, nil // beside the compose file
	})
}

// projectName is the compose project of a fabric that 'up' brings up.
func projectName(name string) string { return "ttfabric-" + asProject(name) }

// asProject makes a fabric's name one for a compose project, which has small letters, digits, '-' and '_' only.
func asProject(name string) string { return strings.ReplaceAll(strings.ToLower(name), ".", "-") }

// unheard is that containers of a fabric are there, and none says what it is.
type unheard struct {
	error
	yet bool // they have been started, and may say it soon
}

// Error names the way out to those who don't wait.
func (u unheard) Error() string {
	if u.yet {
		return u.error.Error() + "; if its containers have just been started, 'ttfabric up -d' waits for them"
	}
	return u.error.Error()
}

// starting reports whether containers may yet say what their fabric is: some
// run, or are about to, and no two fabrics have one name.
func starting(cs []container) (some bool) {
	for _, c := range cs {
		if c.project != cs[0].project {
			return false
		}
		some = some || c.state == "running" || c.state == "created"
	}
	return some
}

// settled waits until a fabric whose containers have just been started says
// what it is, so that no other one gets its name. The error is that of
// containers that don't.
func (d runDir) settled(ctx context.Context) error {
	for {
		_, _, _, err := d.mesh()
		var u unheard
		if !errors.As(err, &u) {
			return nil // there is one, or none
		}
		if !u.yet {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return coded(exitNotReady, "not ready in time: %w; more time with --timeout", u.error)
		case <-time.After(pollInterval):
		}
	}
}

// ready reports whether a chip's links are all up, and its tables know of it.
// Cables that an operator took out of service are not waited for.
func ready(v api.ChipView, all map[wire.FabricNodeID]api.ChipView) bool {
	if v.LinksUp < len(v.Links) {
		return false
	}
	for _, w := range all {
		if slices.ContainsFunc(w.Links, func(l api.LinkView) bool { return l.Avoided }) {
			return true
		}
	}
	return len(v.OutOfService) == 0
}
