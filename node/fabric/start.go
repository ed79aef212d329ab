package fabric

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Wanted describes a fabric that [Create] is to make.
type Wanted struct {
	Name     string
	Topology *topo.Topology
	Named    string    // topology as the user named it: a file, or the name of a built-in topology
	Spec     spec.Spec // options of the fabric, for example [spec.Default]; of the part [spec.Place], Create uses only Runtime and Program
	// GossipKeys are the keys of encrypted gossip, with the key in use first. If there are
	// no keys, the gossip is not encrypted.
	GossipKeys [][]byte
	// PSK is the key that encrypts the links' datagrams, if Spec.Auth is [spec.PSK].
	PSK []byte
	// Container holds the options of the fabric's containers, if Spec.Runtime is [spec.Docker].
	Container container.Options
}

// Create makes the run folder of a new fabric, but starts no chips; see [Fabric.Up]. Create checks
// all options first. If AllowDeadlock is not set, Create also proves the routes free of deadlock.
// Create returns an error if the fabric exists already.
func Create(ctx context.Context, w Wanted) (*Fabric, error) {
	dir, err := folder.For(w.Name)
	if err != nil {
		return nil, err
	}
	if w.Topology == nil {
		return nil, spec.Usagef("fabric %q has no topology; topo.Named and folder.LoadTopology return a topology", w.Name)
	}
	want := w.Spec
	want.Settle(w.Topology)
	if want.Profile == "" && len(w.Topology.Chips) > runtime.NumCPU() && want.Transport != spec.QUIC {
		want.Profile = ttlink.ProfileCrowded.Name
	}
	s, err := spec.New(w.Name, w.Topology, want)
	if err != nil {
		return nil, err
	}
	s.ID = fmt.Sprintf("%s-%016x", w.Name, random64())
	s.Keyed = len(w.GossipKeys) > 0
	if top := s.PortBase + len(w.Topology.Chips)*spec.ChannelStride; s.PortBase < 0 {
		return nil, spec.Usagef("--port-base %d: want 1 to 65535, or 0 for any free ports", s.PortBase)
	} else if s.PortBase > 0 && top > 1<<16 {
		return nil, spec.Usagef("--port-base %d: %d chips need the UDP ports up to %d, but the last UDP port is 65535; want at most %d", s.PortBase, len(w.Topology.Chips), top-1, 1<<16-len(w.Topology.Chips)*spec.ChannelStride)
	}
	also, err := w.contained(ctx, &s)
	if err != nil {
		return nil, err
	}
	secrets, err := w.secrets(&s)
	if err != nil {
		return nil, err
	}
	if err := folder.MakeRoot(); err != nil {
		return nil, err
	}
	if dir.Has() {
		return nil, fmt.Errorf("fabric %q exists already; 'ttfabric down --name %s' removes the fabric, or choose another name", w.Name, w.Name)
	}
	_ = dir.Remove() // a crash may have left a folder without a readable mesh.json
	token := folder.NewToken()
	if err := dir.Create(w.Topology, &s, token, append(secrets, also...)...); err != nil {
		return nil, err
	}
	return &Fabric{Dir: dir, Spec: s, Topology: w.Topology, token: token}, nil
}

// secrets returns functions that write keys and certificates into the run folder. If the user named
// a folder of certificates, secrets writes no certificates, and checks that the folder has a
// certificate for each chip.
func (w *Wanted) secrets(s *spec.Spec) (out []func(folder.Dir) error, err error) {
	if s.Keyed {
		out = append(out, folder.WriteGossipKeys(w.GossipKeys))
	}
	switch {
	case s.Auth == spec.PSK:
		out = append(out, folder.WritePSK(w.PSK))
	case s.Auth == spec.MTLS && s.PKI == "":
		out = append(out, folder.MakeCertificates(s, w.Topology))
	case s.Auth == spec.MTLS:
		err = folder.CheckCertificates(s, w.Topology)
	}
	return out, err
}

// contained sets the fields of s that concern containers, if s is the spec of a fabric of
// containers. contained then returns functions that write the compose file and the containers' keys
// into the run folder. If s is the spec of a fabric of processes, contained sets s.Runtime to ""
// and returns no functions.
func (w *Wanted) contained(ctx context.Context, s *spec.Spec) (also []func(folder.Dir) error, err error) {
	switch s.Runtime {
	case "", spec.Process:
		s.Runtime = ""
		return nil, nil
	case spec.Docker:
	default:
		return nil, spec.Usagef("--runtime %q: want process or docker", s.Runtime)
	}
	if s.PortBase != 0 {
		return nil, spec.Usagef("--port-base %d: each container has an address of its own, and all containers use the same UDP ports; leave out --port-base", s.PortBase)
	}
	if err := container.Usable(ctx); err != nil {
		return nil, err
	}
	s.Project = container.ProjectName(s.Name)
	of, err := container.Settle(s.Name, w.Topology, withProfile(w.Spec, s.Profile), w.Container)
	if err != nil {
		return nil, err
	}
	of.Keyed = s.Keyed
	file := container.File{Spec: of, Topology: w.Topology, Named: w.Named, Options: w.Container, Secrets: "./" + container.SecretsName} // relative to the folder of the compose file
	composed, err := file.Compose()
	if err != nil {
		return nil, err
	}
	return []func(folder.Dir) error{
		func(d folder.Dir) error { return container.Share(d, s, w.Topology) },
		func(d folder.Dir) error { return folder.WriteFile(d.Path(container.ComposeName), composed) },
	}, nil
}

func withProfile(s spec.Spec, profile string) spec.Spec {
	s.Profile = profile
	return s
}

func random64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// Settled waits until a container of the fabric with the given name answers a request for the
// fabric's spec. While a fabric's containers start, no command can read the fabric's spec. A
// command that makes a fabric therefore calls Settled before the command checks whether the name is
// taken. If there are no such containers, Settled returns nil at once. If there are containers, but
// none of them runs or starts, Settled returns an error at once. If no container answers before ctx
// ends, Settled also returns an error.
func Settled(ctx context.Context, name string) error {
	for {
		_, err := Open(ctx, name)
		var u container.Unheard
		if !errors.As(err, &u) {
			return nil // the fabric is known, or there is no fabric
		}
		if !u.Yet {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return spec.NotReadyf("fabric %q is not ready in time: %w; allow more time with --timeout", name, u.Unwrap())
		case <-time.After(pollInterval):
		}
	}
}

// Exits is a channel that gets a value for each chip that ends. The capacity of the channel must be
// at least the number of chips.
type Exits = chan folder.Exit

// Up starts the chips that do not run, and waits until all links are up. Up calls the function
// "progress" with the number of links that are up and the number of all links. If a started chip
// ends meanwhile, Up returns an error. After the return, the channel "exits" gets a value for each
// started chip that ends. Both progress and exits may be nil.
func (f *Fabric) Up(ctx context.Context, progress func(done, total int), exits Exits) ([]api.ChipView, error) {
	unlock, err := folder.Lock(ctx, string(f.Dir))
	if err != nil {
		return nil, err
	}
	defer unlock()
	running := map[wire.FabricNodeID]bool{}
	for _, c := range f.Running() {
		running[c.Chip] = true
	}
	missing := slices.DeleteFunc(f.Topology.Nodes(), func(n wire.FabricNodeID) bool { return running[n] })
	if exits == nil {
		exits = make(Exits, len(f.Topology.Chips))
	}
	if err := f.launch(ctx, missing, spec.Records{}, exits); err != nil {
		return nil, err
	}
	return f.waitUp(ctx, progress, running, exits)
}

// launch starts chips that do not run. Then launch reads the token of the chips' APIs into
// f, because containers make the token at their first start.
func (f *Fabric) launch(ctx context.Context, ns []wire.FabricNodeID, rec spec.Records, exits Exits) error {
	if len(ns) == 0 {
		return nil
	}
	err := f.host().Launch(ctx, ns, rec, exits)
	if token, terr := f.Dir.Token(); terr == nil {
		f.mu.Lock()
		f.token = token
		f.mu.Unlock()
	}
	return err
}

// WaitUp waits until all links of the fabric are up; see [Fabric.Up].
func (f *Fabric) WaitUp(ctx context.Context, progress func(done, total int)) ([]api.ChipView, error) {
	return f.waitUp(ctx, progress, nil, nil)
}

// waitUp waits until all chips are ready. Each chip answers when it is ready. If a chip answers that it
// is not ready, waitUp asks it again. waitUp asks the chips in the argument "running" for their
// present state first.
func (f *Fabric) waitUp(ctx context.Context, progress func(done, total int), running map[wire.FabricNodeID]bool, exits Exits) ([]api.ChipView, error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	views, asked := map[wire.FabricNodeID]api.ChipView{}, map[wire.FabricNodeID]bool{}
	answers := make(chan Answer[api.ChipView], len(f.Topology.Chips))
	ask := func(c *api.Client, most time.Duration) {
		asked[c.Self()] = true
		asking.Go(func() {
			one, cancel := context.WithTimeout(ctx, most+pollTime)
			defer cancel()
			v, err := c.ChipWhenReady(one, most)
			answers <- Answer[api.ChipView]{c.Self(), v, err}
		})
	}
	look, wait := time.NewTimer(0), pollInterval
	defer look.Stop()
	for {
		select {
		case a := <-answers:
			asked[a.Chip] = false
			if a.Err == nil {
				views[a.Chip] = a.Value
			}
		case e := <-exits:
			return nil, f.diedAtStart(e)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, spec.NotReadyf("the fabric is not ready in time: %s; allow more time with --timeout", f.whatIsMissing(views))
		case <-look.C:
			f.askMore(views, asked, running, ask)
			look.Reset(wait)
			wait = min(wait*5/4, slowPoll)
			continue
		}
		up, done, avoided := 0, 0, anyAvoided(views)
		for _, v := range views {
			up += v.LinksUp
			if ready(v, avoided) {
				done++
			}
		}
		if progress != nil {
			progress(up/2, f.Topology.Routed())
		}
		if done == len(f.Topology.Chips) {
			out := make([]api.ChipView, 0, len(views))
			for _, n := range f.Topology.Nodes() {
				out = append(out, views[n])
			}
			return out, nil
		}
	}
}

// askMore asks each running chip that is not ready and has no open question. The argument "views"
// has the chips' latest answers, and asked says which chips have an open question. If a chip in the
// argument "running" has not answered yet, askMore asks for an answer at once.
func (f *Fabric) askMore(views map[wire.FabricNodeID]api.ChipView, asked, running map[wire.FabricNodeID]bool, ask func(c *api.Client, most time.Duration)) {
	cs, _, err := f.Clients()
	if err != nil {
		return
	}
	avoided := anyAvoided(views)
	for _, c := range cs {
		n := c.Self()
		switch v, answered := views[n]; {
		case asked[n] || answered && ready(v, avoided):
		case running[n] && !answered:
			ask(c, 0)
		default:
			ask(c, readyTime)
		}
	}
}

// Times of waiting for chips that start.
const (
	pollInterval = 50 * time.Millisecond  // shortest time between two requests for the state of a chip
	slowPoll     = 500 * time.Millisecond // longest time between two looks for chips to ask; the time grows to this value, so that slow chips get more processor time
	readyTime    = 2 * time.Second        // longest time that a chip waits until it is ready before it answers
	pollTime     = 2 * time.Second        // longest time that one chip may take to answer a request
	startTime    = 20 * time.Second       // longest time that one chip may take to start
)

// ready returns true if all links of a chip are up and the chip's tables use all links. The
// parameter v is the chip's answer. If "avoided" is true, because an operator took a cable of the
// fabric out of service, ready does not check the tables.
func ready(v api.ChipView, avoided bool) bool {
	return v.LinksUp == len(v.Links) && (avoided || len(v.OutOfService) == 0)
}

// anyAvoided reports whether an operator took a cable out of service, by the latest answers of all
// chips.
func anyAvoided(all map[wire.FabricNodeID]api.ChipView) bool {
	for _, v := range all {
		if slices.ContainsFunc(v.Links, func(l api.LinkView) bool { return l.Avoided }) {
			return true
		}
	}
	return false
}

func (f *Fabric) diedAtStart(e folder.Exit) error {
	words := f.LastWords(e.Chip)
	if words == "" {
		words = fmt.Sprintf("%v, and the chip's log is empty; check whether the disk is full", e.Err)
	}
	return fmt.Errorf("chip %s ended at its start: %s", e.Chip, words)
}

// maxMissing is the largest number of missing chips and links that an error names.
const maxMissing = 5

func (f *Fabric) whatIsMissing(views map[wire.FabricNodeID]api.ChipView) string {
	var out []string
	for _, n := range f.Topology.Nodes() {
		v, ok := views[n]
		if !ok {
			out = append(out, fmt.Sprintf("chip %s does not answer", n))
			continue
		}
		if v.Members <= 1 && len(f.Topology.Chips) > 1 {
			out = append(out, fmt.Sprintf("chip %s knows no other chip, see 'ttfabric gossip show'", n))
			continue
		}
		for _, l := range v.Links {
			if l.State != "up" {
				out = append(out, fmt.Sprintf("chip %s channel %d to %s is %s", n, l.Channel, l.Peer, l.State))
			}
		}
		if len(v.OutOfService) > 0 && v.LinksUp == len(v.Links) {
			out = append(out, fmt.Sprintf("the routes of chip %s still avoid cable %s", n, v.OutOfService[0]))
		}
	}
	if len(out) > maxMissing {
		out = append(out[:maxMissing], fmt.Sprintf("and %d more", len(out)-maxMissing))
	}
	return strings.Join(out, ", ")
}
