package main

import (
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
)

// fabricFlags say how the chips of a fabric behave: all alike, wherever they run.
type fabricFlags struct {
	portBase       int
	profile, slots string
	routes         routeFlags
	stuck          string
	stuckAfter     time.Duration
	localFirst     bool
	ttl            int
	netem          []string
	offload        string
	archive        archiveFlags
	record         recordFlags
	secure         secureFlags
}

func (f *fabricFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.profile, "profile", "", "link times: lan, crowded, paced (default: paced over QUIC, crowded where 'up' starts more chips than there are cores)")
	fl.StringVar(&f.slots, "slots", "spec", "channel sizes: "+slotNames()+"; spec is the specification's, fast is for long windows")
	f.routes.add(c)
	fl.StringVar(&f.stuck, "stuck", "notify", "what happens to packets that cannot move, one or more: notify (an event), drop (give up the first), drain (what waits behind it in its channel); or none (counted only)")
	fl.DurationVar(&f.stuckAfter, "stuck-after", 10*time.Second, "when they count as such; 0: never")
	fl.BoolVar(&f.localFirst, "local-first", false, "serve a chip's own packets before those that pass through, instead of in turn")
	fl.IntVar(&f.ttl, "ttl", 0, "hops after which a packet is dropped; 0: those of the longest route")
	fl.StringArrayVar(&f.netem, "netem", nil, "impair cables from the start, as LINK,delay=1ms,loss=1%; keys are the flags of 'netem set'; may be repeated")
	f.secure.add(c)
	fl.StringVar(&f.offload, "offload", "on", "on: hand the kernel up to 64 datagrams as one super-packet (UDP GSO, GRO); off: each for itself, so that what the network does, it does to each; slower; plain: with a system call for each, too")
	f.archive.add(c)
	f.record.on(c)
}

// mesh checks the flags and proves the routes: what a fabric of that name and
// topology is started with. Its pool's label, ID, is left to the caller.
func (f *fabricFlags) mesh(name string, t *topo.Topology) (m meshFile, err error) {
	f.secure.settle(t)
	if f.profile == "" {
		f.profile = ttlink.ProfileLAN.Name
		if f.secure.transport == overQUIC {
			f.profile = ttlink.ProfilePaced.Name
		}
	}
	if _, err := profileByName(f.profile); err != nil {
		return m, err
	}
	if _, err := slotsByName(f.slots); err != nil {
		return m, err
	}
	if _, _, err := offloadByName(f.offload); err != nil {
		return m, err
	}
	m = meshFile{Name: name, Source: t.Name, Created: time.Now(), Profile: f.profile, Slots: f.slots, PortBase: f.portBase,
		Order: f.routes.order, Ring: f.routes.ring, Engine: f.routes.engine, Fabric: f.routes.fabric,
		Stuck: f.stuck, StuckMS: f.stuckAfter.Milliseconds(), Local: f.localFirst, TTL: f.ttl, Netem: f.netem, Offload: f.offload, Record: f.record.dir, RecordLimit: f.record.limit}
	if err := m.configure(&node.Config{}); err != nil {
		return m, err
	}
	if err := f.secure.configure(&m); err != nil {
		return m, err
	}
	if err := f.archive.configure(&m); err != nil {
		return m, err
	}
	for _, text := range f.netem {
		if _, err := parseDeclared(t, text); err != nil {
			return m, err
		}
	}
	m.Checked, err = f.routes.prove(t)
	return m, err
}

// offloadByName reads --offload: whether super-packets are used, and several
// messages per system call; "" is of a run folder that an older version wrote.
func offloadByName(s string) (super, batch transport.Mode, err error) {
	switch s {
	case "on", "":
		return transport.Auto, transport.Auto, nil
	case "off":
		return transport.Off, transport.Auto, nil
	case "plain":
		return transport.Off, transport.Off, nil
	}
	return 0, 0, coded(exitUsage, "--offload %q: want on, off or plain", s)
}
