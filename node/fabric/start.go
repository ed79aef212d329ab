package fabric

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
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
	Named    string    // what the user gave as the topology: the path of a file, or the name of a built-in topology
	Spec     spec.Spec // options of the fabric, for example [spec.Default]; of the fields in [spec.Place], Create uses only Runtime and Program
	// GossipKeys are the keys of encrypted gossip. Chips encrypt with the first key. If there are
	// no keys, the gossip is not encrypted.
	GossipKeys [][]byte
	// PSK is the key that encrypts the links' datagrams, if Spec.Auth is [spec.PSK].
	PSK []byte
	// Container holds the options of the fabric's containers, if Spec.Runtime is [spec.Docker].
	Container container.Options
}

// Create makes the run folder of a new fabric. Create starts no chips. [Fabric.Up] starts the
// chips. Create first checks all options. If AllowDeadlock is not set, Create also proves that the
// routes are free of deadlock. If a fabric of the same name exists already, Create returns an
// error.
func Create(ctx context.Context, w Wanted) (*Fabric, error) {
	s, files, err := w.settle(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := folder.For(w.Name)
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
	if err := dir.Create(w.Topology, &s, token, files...); err != nil {
		return nil, err
	}
	return &Fabric{Dir: dir, Spec: s, Topology: w.Topology, token: token}, nil
}

// settle checks all options, and returns the complete spec of the fabric. The functions of the second result write the
// keys, certificates and compose file of the fabric into its run folder.
func (w *Wanted) settle(ctx context.Context) (s spec.Spec, files []func(folder.Dir) error, err error) {
	if _, err := folder.For(w.Name); err != nil {
		return s, nil, err
	}
	if w.Topology == nil {
		return s, nil, spec.Usagef("fabric %q has no topology; topo.Named and folder.LoadTopology return a topology", w.Name)
	}
	want := w.Spec
	want.Settle(w.Topology)
	if want.Profile == "" && len(w.Topology.Chips) > runtime.NumCPU() && want.Transport != spec.QUIC {
		want.Profile = ttlink.ProfileCrowded.Name
	}
	if s, err = spec.New(w.Name, w.Topology, want); err != nil {
		return s, nil, err
	}
	s.ID = fmt.Sprintf("%s-%016x", w.Name, random64())
	s.Keyed = len(w.GossipKeys) > 0
	if top := s.PortBase + len(w.Topology.Chips)*spec.ChannelStride; s.PortBase < 0 {
		return s, nil, spec.Usagef("--port-base %d: want 1 to 65535, or 0 for any free ports", s.PortBase)
	} else if s.PortBase > 0 && top > 1<<16 {
		return s, nil, spec.Usagef("--port-base %d: %d chips need the UDP ports up to %d, but the last UDP port is 65535; want at most %d", s.PortBase, len(w.Topology.Chips), top-1, 1<<16-len(w.Topology.Chips)*spec.ChannelStride)
	}
	also, err := w.contained(ctx, &s)
	if err != nil {
		return s, nil, err
	}
	secrets, err := w.secrets(&s)
	return s, append(secrets, also...), err
}

// The method "secrets" returns functions that write keys and certificates into the run folder. If
// the user named a folder of certificates, no function writes certificates. The method then checks
// that the user's folder has a certificate for each chip.
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

// If s is the spec of a fabric of containers, the method "contained" sets the fields of s that
// concern containers. The method then returns functions that write the compose file and the
// containers' keys into the run folder. If s is the spec of a fabric of processes, the method sets
// s.Runtime to "" and returns no functions.
func (w *Wanted) contained(ctx context.Context, s *spec.Spec) (also []func(folder.Dir) error, err error) {
	switch s.Runtime {
	case "", spec.Process:
		s.Runtime = ""
		return nil, nil
	case spec.Model:
		return nil, nil
	case spec.Docker:
	default:
		return nil, spec.Usagef("--runtime %q: want process, docker or model", s.Runtime)
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
	file := container.File{Spec: of, Topology: w.Topology, Named: w.Named, Options: w.Container, User: os.Getuid(),
		Secrets: "./" + container.SecretsName, Sockets: "./" + container.SocketsName} // relative to the folder of the compose file
	composed, err := file.Compose()
	if err != nil {
		return nil, err
	}
	return []func(folder.Dir) error{
		container.MakeSockets,
		func(d folder.Dir) error { return container.Share(d, s, w.Topology) },
		func(d folder.Dir) error { return folder.WriteFile(d.Path(container.ComposeName), composed) },
	}, nil
}

// withProfile returns s with another link profile.
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
// taken. If the fabric has no containers, Settled returns nil at once. If no container of the
// fabric runs or starts, Settled returns an error at once. If the containers belong to several
// compose projects, Settled also returns an error at once. If no container answers before ctx ends,
// Settled returns an error then.
func Settled(ctx context.Context, name string) error {
	for {
		_, err := Open(ctx, name)
		var u container.Unheard
		if !errors.As(err, &u) {
			return nil // Open has found the fabric, or there are no containers that could still answer
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

// Exits is a Go channel that gets a value for each chip that ends. The capacity of the Go channel
// must be at least the number of chips.
type Exits = chan folder.Exit

// Up starts the chips that do not run, and waits until all links are up. Meanwhile, Up calls the
// function "progress" with the number of links that are up and the number of all links. If a chip
// that Up started ends before Up returns, Up returns an error. If a chip that Up started ends
// later, the Go channel "exits" gets a value. Both progress and exits may be nil.
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

// The method "launch" starts the chips ns, which do not run. Then the method reads the token of the
// chips' APIs into f, because containers make the token when they start for the first time.
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

// waitUp waits until all chips are ready. waitUp sends requests to the chips for their states. A
// chip answers a request of waitUp when the chip is ready, or after readyTime if the chip is not
// ready by then. If an answer says that the chip is not ready, waitUp sends the chip another
// request. The first request to a chip in the parameter "running" is different: the chip answers
// this request with its present state at once. Such an answer may be out of date, because the chip
// may not have noticed yet that a neighbour has restarted. So waitUp asks a chip again if another
// chip became ready after the request. waitUp also asks again if the two ends of a cable are in
// different sessions.
func (f *Fabric) waitUp(ctx context.Context, progress func(done, total int), running map[wire.FabricNodeID]bool, exits Exits) ([]api.ChipView, error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	views, asked := map[wire.FabricNodeID]api.ChipView{}, map[wire.FabricNodeID]bool{}
	begun := map[wire.FabricNodeID]time.Time{} // when the latest request to each chip began
	var changed time.Time                      // when a chip last became ready that had not been ready before
	answers := make(chan Answer[api.ChipView], len(f.Topology.Chips))
	ask := func(c *api.Client, most time.Duration) {
		asked[c.Self()], begun[c.Self()] = true, time.Now()
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
				was, answered := views[a.Chip]
				if answered && !ready(was, anyAvoided(views)) {
					changed = time.Now()
				}
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
			if outOfDate(views, running, begun, changed) {
				wait = pollInterval
				look.Reset(wait)
				continue
			}
			out := make([]api.ChipView, 0, len(views))
			for _, n := range f.Topology.Nodes() {
				out = append(out, views[n])
			}
			return out, nil
		}
	}
}

// outOfDate removes each answer that may be out of date, and reports whether there was one. An
// answer is out of date if the other end of a cable of the chip names another session. For a chip
// that ran before, an answer is also out of date if the request began before the instant "changed".
// At this instant, another chip became ready. The parameter "begun" says when the request to each
// chip began.
func outOfDate(views map[wire.FabricNodeID]api.ChipView, running map[wire.FabricNodeID]bool, begun map[wire.FabricNodeID]time.Time, changed time.Time) bool {
	type end struct {
		chip    wire.FabricNodeID
		channel wire.Channel
	}
	sessions := map[end]string{}
	for n, v := range views {
		for _, l := range v.Links {
			sessions[end{n, l.Channel}] = l.Session
		}
	}
	var stale []wire.FabricNodeID
	for n, v := range views {
		if running[n] && begun[n].Before(changed) || slices.ContainsFunc(v.Links, func(l api.LinkView) bool {
			other, known := sessions[end{l.Peer, l.PeerChan}]
			return known && other != l.Session
		}) {
			stale = append(stale, n)
		}
	}
	for _, n := range stale {
		delete(views, n)
	}
	return len(stale) > 0
}

// askMore calls the function "ask" for each running chip that is not ready and has no unanswered
// request. The parameter "views" has the latest answer of each chip. The parameter "asked" says
// which chips have an unanswered request. If a chip in the parameter "running" has not answered
// yet, askMore asks the chip to answer at once. The other chips may wait for readyTime before they
// answer.
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

// Times of a command that waits for chips that start.
const (
	pollInterval = 50 * time.Millisecond  // time between two checks of a chip's state; between two calls of askMore, the time grows by a quarter after each call, up to slowPoll
	slowPoll     = 500 * time.Millisecond // longest time between two calls of askMore; with fewer calls, slow chips get more processor time
	readyTime    = 2 * time.Second        // time after which a chip answers a request even if the chip is not ready
	pollTime     = 2 * time.Second        // longest time that one chip may take to answer a request; if the chip answers only when it is ready, in addition to readyTime
	startTime    = 20 * time.Second       // longest time that one chip may take to start
)

// The function "ready" reports whether a chip is ready. The parameter v is the chip's answer. A
// chip is ready if all of its links are up, and if its tables use all cables of the fabric. The
// parameter "avoided" is true if an operator has taken any cable of the fabric out of service. In
// this case, the function does not check the tables, because the tables of all chips avoid that
// cable.
func ready(v api.ChipView, avoided bool) bool {
	return v.LinksUp == len(v.Links) && (avoided || len(v.OutOfService) == 0)
}

// anyAvoided reports whether an operator has taken any cable of the fabric out of service. The
// parameter "all" has the latest answers of all chips.
func anyAvoided(all map[wire.FabricNodeID]api.ChipView) bool {
	for _, v := range all {
		if slices.ContainsFunc(v.Links, func(l api.LinkView) bool { return l.Avoided }) {
			return true
		}
	}
	return false
}

// EndedError says that a chip's process ended before the chip ran.
type EndedError struct {
	folder.Exit
	Words string // last line of the chip's log, or ""
}

// Error returns a text that says how the process ended, and why as far as the log says so.
func (e *EndedError) Error() string {
	_, how := e.How()
	if e.Words == "" {
		return fmt.Sprintf("chip %s ended right after its start, %s, and its log is empty; either the executable is no chip (a Go program becomes a chip by process.Main), or the disk is full", e.Chip, how)
	}
	return fmt.Sprintf("chip %s ended right after its start, %s; the last line of its log: %s", e.Chip, how, e.Words)
}

// diedAtStart returns the error about a chip that ended at its start.
func (f *Fabric) diedAtStart(e folder.Exit) error { return &EndedError{e, f.LastWords(e.Chip)} }

// maxMissing is the largest number of reasons that the method "whatIsMissing" lists.
const maxMissing = 5

// whatIsMissing returns a text that says why the fabric is not ready. The parameter "views" has the
// latest answers of the chips. If there are more than maxMissing reasons, the text gives the number
// of the other reasons.
func (f *Fabric) whatIsMissing(views map[wire.FabricNodeID]api.ChipView) string {
	var out []string
	for _, n := range f.Topology.Nodes() {
		v, ok := views[n]
		if !ok {
			out = append(out, fmt.Sprintf("chip %s does not answer", n))
			continue
		}
		if v.Members <= 1 && len(f.Topology.Chips) > 1 {
			out = append(out, fmt.Sprintf("chip %s knows no other chip (see 'ttfabric gossip show')", n))
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
