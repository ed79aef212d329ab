package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"ttfabric/router/topo"
)

// A chip's place, and the cables of an n300: M0D0's channels 8 and 9 go to M0D1's 0 and 1.
const (
	portBase   = 17000
	apiPort    = 8474
	firstCable = "M0D0/8"
	bothChips  = 2
)

// lab is two chips in two namespaces.
type lab struct {
	bin, dir string
	spaces   [bothChips]string // names as of 'ip netns'
	chips    [bothChips]*exec.Cmd
	logs     [bothChips]*bytes.Buffer
	window   int // packets that each chip keeps outstanding in a run; 0: the command's default
}

func address(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// inside runs f on a thread of its own in a namespace. What f starts is in it too.
func inside(space string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
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

// newLab makes two namespaces joined by a veth pair. The lab is to be closed even where it fails.
func newLab(bin, name string) (*lab, error) {
	l := &lab{bin: bin}
	dir, err := os.MkdirTemp("", "ttfabric-lab")
	if err != nil {
		return l, err
	}
	l.dir = dir
	for i := range l.spaces {
		space := fmt.Sprintf("%s-%d", name, i)
		made := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // as NewNamed moves the thread
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

// up brings the interfaces of the present namespace up.
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
	for i, c := range l.chips {
		if c != nil {
			c.Process.Kill()
			c.Wait()
			l.chips[i] = nil
		}
	}
}

func (l *lab) env() []string {
	return append(os.Environ(), "XDG_RUNTIME_DIR="+l.dir, "TTFABRIC_TOKEN=0123456789abcdef0123456789abcdef")
}

// start starts both chips, waits until their links are up, and writes the run folder that makes the command line know them.
func (l *lab) start(flags ...string) error {
	for i, space := range l.spaces {
		args := []string{"node", "--chip", fmt.Sprintf("M0D%d", i), "--name", "lab", "--topology", "n300", "--listen", address(i), "--trust-network", "10.77.0.0/24", "--port-base", strconv.Itoa(portBase),
			"--seeds", address(1 - i), "--api", fmt.Sprintf("%s:%d", address(i), apiPort), "--profile", "crowded"}
		cmd := exec.Command(l.bin, append(args, flags...)...)
		log := &bytes.Buffer{}
		cmd.Env, cmd.Stdout, cmd.Stderr = l.env(), log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := inside(space, cmd.Start); err != nil {
			return err
		}
		l.chips[i], l.logs[i] = cmd, log
	}
	if err := l.register(); err != nil {
		return err
	}
	for i := range l.chips {
		for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			out, err := l.run("ready", "--api", fmt.Sprintf("%s:%d", address(i), apiPort))
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

// settled waits until each link goes by its own cable.
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
			return fmt.Errorf("only %d of %d links go by their own cable", own, 2*bothChips)
		}
	}
}

// register writes a run folder.
func (l *lab) register() error {
	t, err := topo.Named("n300")
	if err != nil {
		return err
	}
	run := filepath.Join(l.dir, "ttfabric", "lab")
	if err := os.MkdirAll(run, 0o700); err != nil {
		return err
	}
	write := func(name string, v any) {
		b, ok := v.([]byte)
		if !ok {
			var e error
			b, e = json.Marshal(v)
			err = errors.Join(err, e)
		}
		err = errors.Join(err, os.WriteFile(filepath.Join(run, name), b, 0o600))
	}
	write("topology.yaml", t.Encode())
	write("token", []byte("0123456789abcdef0123456789abcdef"))
	write("mesh.json", map[string]any{"name": "lab", "source": "n300", "profile": "crowded", "slots": "spec", "order": "xy", "ring": "dateline", "engine": "dor", "fabric": "2d", "stuck": "notify", "id": "lab"})
	for i, c := range l.chips {
		write(fmt.Sprintf("chip-M0D%d.json", i), map[string]any{"chip": fmt.Sprintf("M0D%d", i), "pid": c.Process.Pid, "started_ticks": startTicks(c.Process.Pid),
			"api": fmt.Sprintf("%s:%d", address(i), apiPort), "gossip": address(i) + ":7946"})
	}
	return err
}

// startTicks is a process's start time (proc(5), /proc/pid/stat field 22).
func startTicks(pid int) uint64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	n, _ := strconv.ParseUint(f[19], 10, 64)
	return n
}

// run runs the command line in the first chip's namespace, where both chips' APIs are reached.
func (l *lab) run(args ...string) ([]byte, error) {
	var out []byte
	return out, inside(l.spaces[0], func() error {
		cmd := exec.Command(l.bin, append([]string{"-n", "lab"}, args...)...)
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

// runJSON reads what a command prints.
func (l *lab) runJSON(v any, args ...string) error {
	out, err := l.run(append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, v)
}

// linkState is what the lab looks at of a link.
type linkState struct {
	Chip      string
	Channel   int               `json:"channel"`
	Plane     int               `json:"plane"`
	State     string            `json:"state"`
	By        *int              `json:"by_channel"`
	RTTMicros float64           `json:"rtt_microseconds"`
	Retrains  int               `json:"retrains"`
	Counters  map[string]uint64 `json:"counters"`
	Drops     map[string]uint64 `json:"frame_drops"` // bad frames, by reason
}

func (l *lab) links() (out []linkState, err error) {
	var v struct {
		Chips []struct {
			Chip  string      `json:"chip"`
			Links []linkState `json:"links"`
		} `json:"chips"`
	}
	err = l.runJSON(&v, "inspect", "--links")
	for _, c := range v.Chips {
		for _, x := range c.Links {
			x.Chip = c.Chip
			for _, n := range x.Drops {
				x.Counters["bad"] += n
			}
			out = append(out, x)
		}
	}
	return out, err
}

// report is what the lab looks at of a traffic run.
type report struct {
	Seconds float64 `json:"seconds"`
	Pairs   []struct {
		Sent, Delivered, Lost, Duplicated, Corrupted, Reordered, Failed, Completed, Bytes uint64
		P50                                                                               float64 `json:"latency_p50_microseconds"`
	} `json:"pairs"`
}

// traffic sends verified packets both ways. The command fails unless everything arrived exactly once, whole and in order.
func (l *lab) traffic(packets, size, planes int) (r report, err error) {
	err = l.runJSON(&r, "traffic", "all-to-all", "--packets", strconv.Itoa(packets), "--size", strconv.Itoa(size), "--planes", strconv.Itoa(planes), "--window", strconv.Itoa(l.window), "--timeout", "60s")
	if err != nil {
		return r, err
	}
	sum := uint64(0)
	for _, p := range r.Pairs {
		if p.Lost+p.Duplicated+p.Corrupted+p.Reordered+p.Failed > 0 || p.Sent != p.Delivered || p.Sent != p.Completed {
			return r, fmt.Errorf("the promise is broken: %+v", p)
		}
		sum += p.Delivered
	}
	if sum != uint64(packets) {
		return r, fmt.Errorf("%d packets delivered, want %d", sum, packets)
	}
	return r, nil
}

// errDown is that a link was down during a run, so that its counters say nothing.
var errDown = errors.New("was down")

// effect is what a run did to the links: by how much counters grew, of the degraded cable (0) and the other (1), both ends together.
type effect struct {
	grown [2]map[string]uint64
	rtt   [2]float64 // microseconds, the greater of both ends
	run   report
}

func (l *lab) measure(run func() (report, error)) (e effect, err error) {
	before, err := l.links()
	if err != nil {
		return e, err
	}
	e.run, err = run()
	after, err2 := l.links()
	if err2 != nil {
		return e, errors.Join(err, err2)
	}
	for i, x := range after {
		if x.Retrains != before[i].Retrains || x.State != "up" {
			return e, fmt.Errorf("the link at %s/%d %w (%v)", x.Chip, x.Channel, errDown, err)
		}
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
