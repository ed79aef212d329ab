package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/process"
	"ttfabric/node/traffic"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Names and ports of the fabric, an n300. The two cables of the n300 join channels 8 and 9 of chip
// M0D0 with channels 0 and 1 of chip M0D1.
const (
	machine    = "n300"
	fabricName = "lab" // name of the fabric
	portBase   = 17000
	apiPort    = 8474
	bothChips  = 2
	bothCables = 2
)

// profile is the profile of the chips' link timers. At first, profile is the one for chips that share
// processors. The method "cuts" tries other profiles.
var profile = ttlink.ProfileCrowded.Name

// lab runs two chips in two network namespaces.
type lab struct {
	bin, dir string
	spaces   [bothChips]string // names of the namespaces, as 'ip netns' shows them
	chips    [bothChips]*exec.Cmd
	logs     [bothChips]*bytes.Buffer
	fabric   *fabric.Fabric // the two chips as a fabric, which commands find by its run folder
	token    string         // token of the chips' APIs
	window   int            // packets that each chip keeps outstanding in a run; 0: the command's default
}

func address(i int) string         { return fmt.Sprintf("10.77.0.%d", i+1) }
func apiAt(i int) string           { return fmt.Sprintf("%s:%d", address(i), apiPort) }
func chip(i int) wire.FabricNodeID { return wire.FabricNodeID{Chip: wire.ChipID(i)} }

// The function "inside" runs f in a namespace, on a thread of its own. Processes that f starts are
// also in this namespace.
func inside(space string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread stays locked, and ends with the goroutine
		ns, err := netns.GetFromName(space)
		if err == nil {
			err = netns.Set(ns)
			ns.Close()
		}
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

// newLab makes a run folder, and two namespaces joined by a veth pair. The caller must close the
// lab, even if newLab fails.
func newLab(bin, name string) (*lab, error) {
	l := &lab{bin: bin}
	if err := l.create(); err != nil {
		return l, err
	}
	for i := range l.spaces {
		space := fmt.Sprintf("%s-%d", name, i)
		made := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // NewNamed moves the thread into the new namespace
			ns, err := netns.NewNamed(space)
			if err == nil {
				ns.Close()
			}
			made <- err
		}()
		if err := <-made; err != nil {
			return l, fmt.Errorf("cannot make the network namespace %s: %w", space, err)
		}
		l.spaces[i] = space
	}
	peer, err := netns.GetFromName(l.spaces[1])
	if err != nil {
		return l, err
	}
	defer peer.Close()
	err = inside(l.spaces[0], func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = "eth0", 1500
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(peer)})
	})
	if err != nil {
		return l, fmt.Errorf("cannot make a veth pair: %w", err)
	}
	for i, space := range l.spaces {
		if err := inside(space, func() error { return up(address(i) + "/24") }); err != nil {
			return l, err
		}
	}
	return l, nil
}

// The function "up" gives eth0 of the present namespace the address cidr, and brings up lo and
// eth0.
func up(cidr string) error {
	for _, name := range []string{"lo", "eth0"} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if name == "eth0" {
			a, err := netlink.ParseAddr(cidr)
			if err == nil {
				err = netlink.AddrAdd(link, a)
			}
			if err != nil {
				return err
			}
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
	}
	return nil
}

// close ends the chips and removes the namespaces.
func (l *lab) close() {
	l.stop()
	for _, space := range l.spaces {
		if space != "" {
			_ = netns.DeleteNamed(space)
		}
	}
	os.RemoveAll(l.dir)
}

func (l *lab) stop() {
	for i := range l.chips {
		l.kill(i)
	}
}

// kill ends chip i at once, without a goodbye.
func (l *lab) kill(i int) {
	if c := l.chips[i]; c != nil {
		c.Process.Kill()
		c.Wait()
		l.chips[i] = nil
	}
}

func (l *lab) env() []string { return append(os.Environ(), "TTFABRIC_TOKEN="+l.token) }

// create makes the run folder by which commands find the fabric, below a temporary folder.
// [lab.start] writes the address of each chip into the run folder.
func (l *lab) create() (err error) {
	if l.dir, err = os.MkdirTemp("", "ttfabric-lab"); err != nil {
		return err
	}
	os.Setenv("XDG_RUNTIME_DIR", l.dir)
	want := fabric.Wanted{Name: fabricName, Spec: spec.Default()}
	want.Spec.Profile = profile
	if want.Topology, err = topo.Named(machine); err != nil {
		return err
	}
	if l.fabric, err = fabric.Create(context.Background(), want); err != nil {
		return err
	}
	l.token, err = l.fabric.Dir.Token()
	return err
}

// start starts both chips, writes their addresses into the run folder, and waits until their links
// are up. The links stay on cables that an impairment makes unreliable.
func (l *lab) start(flags ...string) error {
	for i := range l.spaces {
		if err := l.startChip(i, flags...); err != nil {
			return err
		}
	}
	for i := range l.chips {
		for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			out, err := l.run("ready", "--api", apiAt(i))
			if err == nil {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("chip %d is not ready: %w\n%s%s", i, err, out, l.logs[i])
			}
		}
	}
	return l.settled()
}

// startChip starts chip i, and writes the addresses of the chip into the run folder.
func (l *lab) startChip(i int, flags ...string) error {
	args := []string{"node", "--chip", chip(i).String(), "--name", fabricName, "--topology", machine, "--listen", address(i), "--trust-network", "10.77.0.0/24", "--port-base", strconv.Itoa(portBase),
		"--seeds", address(1 - i), "--api", apiAt(i), "--profile", profile, "--keep-unreliable"}
	cmd := exec.Command(l.bin, append(args, flags...)...)
	log := &bytes.Buffer{}
	cmd.Env, cmd.Stdout, cmd.Stderr = l.env(), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := inside(l.spaces[i], cmd.Start); err != nil {
		return err
	}
	l.chips[i], l.logs[i] = cmd, log
	at := folder.Chip{Chip: chip(i), PID: cmd.Process.Pid, Started: folder.StartTicks(cmd.Process.Pid), API: apiAt(i), Gossip: fmt.Sprintf("%s:%d", address(i), process.DefaultGossipPort)}
	return l.fabric.Dir.WriteChip(at)
}

// settled waits until each link sends its frames by its own cable. After 30 s, settled returns an
// error.
func (l *lab) settled() error {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		links, err := l.links()
		if err != nil {
			return err
		}
		own := 0
		for _, x := range links {
			if x.State == "up" && x.By == nil {
				own++
			}
		}
		if own == 2*bothChips {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d link ends send by their own cable", own, 2*bothChips)
		}
	}
}

// run runs a command of ttfabric in the first chip's namespace, and returns its standard output. The
// APIs of both chips are reachable from this namespace.
func (l *lab) run(args ...string) ([]byte, error) {
	var out []byte
	return out, inside(l.spaces[0], func() error {
		cmd := exec.Command(l.bin, append([]string{"-n", fabricName}, args...)...)
		cmd.Env = l.env()
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		out = stdout.Bytes()
		if err != nil {
			return fmt.Errorf("ttfabric %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
		}
		return nil
	})
}

// runJSON runs a command, and reads the JSON that the command prints into v.
func (l *lab) runJSON(v any, args ...string) error {
	out, err := l.run(append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, v)
}

// link is one end of a cable.
type link struct {
	chip wire.FabricNodeID
	api.LinkView
}

// links returns both ends of both cables. The counter "bad" of an end is the number of bad frames
// that the end received.
func (l *lab) links() (out []link, err error) {
	var v struct{ Chips []api.ChipView }
	err = l.runJSON(&v, "inspect", "--links")
	for _, c := range v.Chips {
		for _, x := range c.Links {
			for _, n := range x.FrameDrops {
				x.Counters["bad"] += n
			}
			out = append(out, link{c.Chip, x})
		}
	}
	return out, err
}

// traffic sends verified packets in both directions. If a packet does not arrive exactly once,
// whole and in order, traffic returns an error.
func (l *lab) traffic(packets, size, planes int) (r traffic.Result, err error) {
	err = l.runJSON(&r, "traffic", "all-to-all", "--packets", strconv.Itoa(packets), "--size", strconv.Itoa(size), "--planes", strconv.Itoa(planes), "--window", strconv.Itoa(l.window), "--timeout", "60s")
	if err != nil {
		return r, err
	}
	if !r.OK() || r.Total.Delivered != uint64(packets) {
		return r, fmt.Errorf("packets were lost, doubled, damaged or reordered: %+v", r.Total)
	}
	return r, nil
}

// errDown says that a link was down during a run, or used the other cable. The counters of that run
// prove nothing.
var errDown = errors.New("was down or used the other cable")

// stayed compares two views of the links. stayed returns an error that matches errDown if a link
// trained between the views. The error is the same if a link does not send by its own cable in the
// later view.
func stayed(before, after []link) error {
	for i, x := range after {
		if x.Retrains != before[i].Retrains || x.State != "up" || x.By != nil {
			return fmt.Errorf("the link at %s/%d %w", x.chip, x.Channel, errDown)
		}
	}
	return nil
}

// effect holds the effect of a run on the links. Index 0 is the degraded cable, and index 1 is the
// other cable.
type effect struct {
	grown [2]map[string]uint64 // increase of each counter, summed over the two ends of the cable
	rtt   [2]float64           // round trip in microseconds, the greater value of the two ends
	run   traffic.Result
}

// Limits of [lab.rested].
const (
	restPause = 300 * time.Millisecond // time between two readings of the counters; longer than a delayed path holds a frame back
	restMost  = 10 * time.Second       // largest time until the frames that were sent again have arrived
)

// rested reads both ends of both cables until two readings have equal counters of three kinds of frames:
// frames that were sent again, that came behind a gap, or that came twice. Then no frame that a link sent
// again is under way. rested returns the last reading. After restMost, rested stops reading.
func (l *lab) rested() ([]link, error) {
	last, err := l.links()
	for end := time.Now().Add(restMost); err == nil && time.Now().Before(end); {
		time.Sleep(restPause)
		before := last
		if last, err = l.links(); err == nil && len(last) == len(before) && !sentAgain(before, last) {
			break
		}
	}
	return last, err
}

// sentAgain returns true if a link sent a frame again, or received such a frame, between two
// readings.
func sentAgain(before, after []link) bool {
	for i, x := range after {
		for _, k := range []string{"retransmitted", "gaps", "duplicates"} {
			if x.Counters[k] != before[i].Counters[k] {
				return true
			}
		}
	}
	return false
}

// measure returns the effect of a run on the links. measure reads the counters before the run. After the
// run, measure reads the counters when no frame of the run is under way.
func (l *lab) measure(run func() (traffic.Result, error)) (e effect, err error) {
	before, err := l.links()
	if err != nil {
		return e, err
	}
	e.run, err = run()
	after, err2 := l.rested()
	if err2 != nil {
		return e, errors.Join(err, err2)
	}
	if down := stayed(before, after); down != nil {
		return e, errors.Join(down, err)
	}
	if err != nil {
		return e, err
	}
	e.grown = [2]map[string]uint64{{}, {}}
	for i, x := range after {
		for k, n := range x.Counters {
			e.grown[x.Plane][k] += n - before[i].Counters[k]
		}
		e.rtt[x.Plane] = max(e.rtt[x.Plane], x.RTTMicros)
	}
	return e, nil
}
