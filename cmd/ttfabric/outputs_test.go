package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/kernel"
	"ttfabric/node/output"
)

// outputs runs commands with -o json, and validates what they print.
type outputs struct {
	cli
	schemas map[string][]*jsonschema.Schema
	seen    map[string]bool // alternatives of commands that were printed, such as "trace 1"
	filled  map[string]bool // lists in objects that had items, such as "output.Healed.routers"
}

// prints runs a command line with -o json, and validates the output by the schema of the command. The
// exit code may be any of codes; no code means 0.
func (o *outputs) prints(command, args string, codes ...int) string {
	o.t.Helper()
	out, errs, code := o.run(append(strings.Fields(command+" "+args), "-o", "json")...)
	if code != exitOK && !slices.Contains(codes, code) {
		o.t.Errorf("%s %s: exit code %d: %s", command, args, code, errs)
		return out
	}
	o.fits(command, out)
	return out
}

// fits validates the values in the output of a command.
func (o *outputs) fits(command, out string) {
	o.t.Helper()
	if out == "" {
		o.t.Errorf("%s printed nothing", command)
	}
	all := o.schemas[command]
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var text json.RawMessage
		if err := d.Decode(&text); err == io.EOF {
			return
		} else if err != nil {
			o.t.Errorf("%s: %v in %.300s", command, err, out)
			return
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			o.t.Fatal(err)
		}
		var why []string
		for i, s := range all {
			if err := s.Validate(v); err != nil {
				why = append(why, err.Error())
				continue
			}
			if list, ok := v.([]any); !ok || len(list) > 0 { // an empty list fits any list
				o.seen[fmt.Sprintf("%s %d", command, i)] = true
			}
			o.fill(v, s)
		}
		if len(why) == len(all) {
			o.t.Errorf("%s: %s\n%.1000s", command, strings.Join(why, "\n"), text)
			return
		}
	}
}

// fill takes note of the lists in v that have items. The value v fits the schema s.
func (o *outputs) fill(v any, s *jsonschema.Schema) {
	for s.Ref != nil {
		s = s.Ref
	}
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			p := s.Properties[name]
			if more, ok := s.AdditionalProperties.(*jsonschema.Schema); p == nil && ok {
				p = more
			}
			if list, ok := x.([]any); ok && len(list) > 0 {
				o.filled[listName(s, name)] = true
			}
			if p != nil {
				o.fill(x, p)
			}
		}
	case []any:
		if items := s.Items2020; items != nil {
			for _, x := range v {
				o.fill(x, items)
			}
		}
	}
}

// listName returns the name of a list in an object, such as "output.Healed.routers".
func listName(s *jsonschema.Schema, field string) string {
	_, def, _ := strings.Cut(s.Location, "#/$defs/")
	return def + "." + field
}

// lists adds the names of all lists of objects in a schema to all.
func lists(s *jsonschema.Schema, all map[string]bool) {
	for s.Ref != nil {
		s = s.Ref
	}
	for name, p := range s.Properties {
		at := listName(s, name)
		if all[at] {
			continue // recursive types end here
		}
		if items := p.Items2020; items != nil && (items.Ref != nil || items.Properties != nil) {
			all[at] = true
		}
		lists(p, all)
	}
	if items := s.Items2020; items != nil {
		lists(items, all)
	}
	if more, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		lists(more, all)
	}
}

// TestOutputsFitTheirSchemas runs each command that has a schema against live fabrics, and validates
// the data by the schema. A field that is not in the schema is an error too.
func TestOutputsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	o := &outputs{*newCLI(t), map[string][]*jsonschema.Schema{}, map[string]bool{}, map[string]bool{}}
	for _, name := range output.Commands() {
		s, _ := output.Schema(name)
		var err error
		if o.schemas[name], err = compiled(name, s); err != nil {
			t.Fatal(err)
		}
	}
	key, calls, home := filepath.Join(o.dir, "key"), filepath.Join(o.dir, "calls"), t.TempDir()
	o.prints("gossip keygen", "")
	var first, second output.Key
	for name, k := range map[string]*output.Key{key: &first, key + "2": &second} {
		if err := json.Unmarshal([]byte(o.prints("gossip keygen", "-f "+name)), k); err != nil {
			t.Fatal(err)
		}
	}
	o.prints("up", "mesh:2x2 -d "+unhurried+" --gossip-key "+key+" --record "+calls)
	o.alone(home)
	o.data()
	o.faults()
	o.happened(home)
	o.prints("gossip keys list", "")
	o.prints("gossip keys install", key+"2")
	o.prints("gossip keys use", second.ID)
	o.prints("gossip keys remove", first.ID)
	o.prints("gossip keys rotate", "")
	o.prints("chip remove", "M0D3")
	o.must("chip", "start", "M0D3")
	o.prints("chip remove", "M0D2,M0D3")
	o.prints("inspect", "")
	o.prints("inspect", "--losses")
	o.prints("record stop", "M0D0 M0D1")
	image := filepath.Join(t.TempDir(), "chip1.mem")
	o.prints("mem save", "M0D1 "+image)
	o.prints("mem restore", "M0D1 "+image)
	o.must("down")
	files, _ := filepath.Glob(filepath.Join(calls, "*.ttrec"))
	if len(files) == 0 {
		t.Fatal("no recordings")
	}
	o.prints("replay", files[0])
	o.prints("replay", "--show --until 500 "+files[0])
	o.prints("replay", "--events "+files[0])
	o.attached()
	known := map[string]bool{}
	for name, all := range o.schemas {
		for i := range all {
			lists(all[i], known)
			if at := fmt.Sprintf("%s %d", name, i); !o.seen[at] && at != "netem reset 1" { // the test has no network namespace that it could reset
				t.Errorf("%s: no output fits alternative %d of the schema", name, i)
			}
		}
	}
	for _, at := range slices.Sorted(maps.Keys(known)) {
		if !o.filled[at] && !strings.HasSuffix(at, ".starved") { // TestALateChip checks outputs with starved chips
			t.Errorf("%s: the list has no items in any output", at)
		}
	}
}

// The method "alone" runs the commands that need no fabric.
func (o *outputs) alone(home string) {
	o.prints("version", "")
	o.prints("schema", "")
	o.prints("schema", "inspect")
	o.prints("validate", "2xt3000")
	o.prints("up", "mesh:2x2 --dry-run --port-base 20000 --name planned")
	lines := strings.SplitAfter(o.must("generate", "mesh:1x3"), "\n")
	o.prints("validate", o.write("thin.yaml", strings.Join(lines[:len(lines)-3], ""))) // without the last cable
	square := strings.SplitAfter(o.must("generate", "mesh:2x2"), "    - a: M0D2/0\n")  // the cables between M0D2 and M0D3 come last
	o.prints("validate", o.write("noted.yaml", square[0][:len(square[0])-len("    - a: M0D2/0\n")]+"missing: [[M0D2, M0D3]]\nleft_out: [{count: 2, what: pinnings, why: an emulated chip has no tray}]\n"))
	two := `mesh { mesh_descriptor: "M0" mesh_id: %d }`
	o.prints("map", o.write("two.textproto", `mesh_descriptors { name: "M0" arch: WORMHOLE_B0 device_topology { dims: [ 2, 2 ] } channels { count: 4 policy: RELAXED } }
graph_descriptors { name: "G" type: "FABRIC" instances { `+fmt.Sprintf(two, 0)+` } instances { `+fmt.Sprintf(two, 1)+` }
  connections { nodes { `+fmt.Sprintf(two, 0)+` } nodes { `+fmt.Sprintf(two, 1)+` } channels { count: 2 } } }
top_level_instance { graph { graph_descriptor: "G" } }
`)+" t3000")
	o.prints("routes", "--topology spec-l1")
	o.prints("graph", "n300")
	o.prints("generate", "mesh:2x2")
	o.prints("generate", "mesh:2x2 -f "+filepath.Join(home, "mesh.yaml"))
	o.prints("doctor", "", exitFailed)
	o.must("pki", "make", "n300", "-d", filepath.Join(home, "pki"))
	o.prints("pki show", "-d "+filepath.Join(home, "pki"))
	o.prints("scenario list", "")
	if err := os.WriteFile(filepath.Join(home, "wrong.yaml"), []byte(wrong), 0o600); err != nil {
		o.t.Fatal(err)
	}
	o.prints("scenario run", filepath.Join(home, "wrong.yaml")+" --sim --seed 5", exitAssert)
	o.prints("wireshark install", "--dry-run --dir "+home)
	o.prints("wireshark show", "--dir "+home)
}

// data runs the commands that move data.
func (o *outputs) data() {
	o.prints("ping", "--all -c 1")
	o.prints("mem write", "M0D3 1-1:0x10 text --via M0D0")
	o.prints("mem write", "M0D0 1-1:0x10 text --multicast E1,S1")
	o.prints("mem read", "M0D3 1-1:0x10 4")
	o.prints("mem tiles", "")
	o.sockets()
	o.prints("host write", "M0D3 1-1:0x20000 text --through M0D0/10")
	o.prints("host read", "M0D3 1-1:0x20000 64")
	o.prints("host queues", "M0D0")
	o.prints("traffic", "all-to-all --packets 200 --size 100")
	o.prints("bench link", "--sizes 64 --channels 1 --time 50ms")
	o.prints("bench ring", "--hops 4 --packets 1 --sizes 64 --rounds 5")
	o.prints("bench ring", "--kernels --hops 4 --sizes 64 --rounds 5")
	o.jobs()
	o.prints("bench rtt", "--sizes 0 --rounds 5")
	o.prints("bench collective", "all-reduce -b 8 -e 64K -f 64 --iters 2 -w 1")
	o.prints("trace", "M0D0 M0D3")
	o.prints("trace", "M0D0 M0D3 --count 3")
	point := filepath.Join(o.dir, "point")
	o.must("checkpoint", "-f", point)
	o.prints("checkpoint", "--since "+point)
}

// sockets sends a file over a socket.
func (o *outputs) sockets() {
	ended := make(chan string, 1)
	go func() {
		out, _, _ := o.run("socket", "recv", "M0D0", "M0D3", "--file", filepath.Join(o.dir, "got"), "-o", "json")
		ended <- out
	}()
	o.prints("socket send", "M0D0 M0D3 --file "+o.write("sent", "the bytes of a file"))
	o.fits("socket recv", <-ended)
}

// faults runs the commands that inject faults and steer routers.
func (o *outputs) faults() {
	o.prints("netem set", "M0D0-M0D1 --delay 1ms")
	o.prints("netem show", "")
	o.prints("netem reset", "")
	o.prints("link fallback", "all")
	o.prints("link down", "M0D0-M0D1")
	o.within(soon, "the chips notice the cut", func() bool {
		o.prints("inspect", "--diff")
		return o.filled["fabric.LinkDiff.downed"]
	})
	more := o.write("more.yaml", o.must("generate", "mesh:2x2")+"    - a: M0D0/8\n      b: M0D1/9\n")
	o.prints("inspect", "--diff --expected "+more)
	o.prints("cabling", "")
	lines := strings.SplitAfter(o.must("generate", "mesh:2x2"), "\n")
	o.prints("cabling", "--expected "+o.write("fewer.yaml", strings.Join(lines[:len(lines)-3], "")))
	o.prints("link up", "all")
	o.prints("link flap", "M0D0-M0D1 --every 100ms --down 10ms --for 200ms")
	for _, verb := range []string{"pause", "resume", "drain", "flush", "retrain", "raw", "ttlink"} {
		o.prints("router "+verb, "M0D0")
	}
	o.prints("router pause", "M0D0-M0D1")
	o.within(soon, "a packet waits at the paused port", func() bool {
		_, _, _ = o.run("ping", "M0D0", "M0D1", "-c", "1", "--timeout", "1s")
		o.prints("inspect", "--channels")
		return o.filled["output.Channels.channels"]
	})
	o.prints("checkpoint", "--since "+filepath.Join(o.dir, "point"), exitAssert)
	o.prints("reroute", "M0D1-M0D3 --force")
	o.prints("partition", "M0D0,M0D2 --gossip")
	o.prints("heal", "")
	o.prints("reroute", "M0D0-M0D1 --force")
	o.prints("reroute", "--back all")
	o.prints("remove", "row 1 --force")
	o.prints("restore", "row 1")
	o.prints("gossip show", "")
	o.prints("gossip impair", "M0D0 --delay 1ms")
	o.prints("gossip cut", "M0D0")
	o.prints("gossip heal", "")
}

// happened runs the commands that show what happened.
func (o *outputs) happened(home string) {
	before, after := filepath.Join(home, "before.json"), filepath.Join(home, "after.json")
	o.prints("snapshot", "--file "+before)
	o.must("router", "pause", "M0D0")
	o.prints("snapshot", "--payload --file "+after)
	o.must("router", "resume", "M0D0")
	o.prints("snapshot diff", before+" "+after)
	o.prints("model", "--drain --from "+before)
	o.prints("model", "mesh:2x4 --router reliable")
	o.prints("model", "mesh:2x2 --router reliable --curves --loads 0.05 --pattern uniform")
	o.model()
	o.prints("ls", "")
	o.prints("inspect", "M0D0")
	o.prints("inspect", "--losses")
	o.prints("routes", "")
	o.prints("events", "--follow=false")
	o.prints("mailbox", "M0D1 --via M0D0 --last 64")
	o.prints("capture", "all --count 20")
}

// model runs a model into a deadlock. Whether the chips' packets close a circle depends on the instants at which the
// chips begin to send, so model tries several times.
func (o *outputs) model() {
	const tries = 30
	for range tries {
		if o.deadlocks() {
			return
		}
	}
	o.t.Errorf("no circle in %d tries", tries)
}

// deadlocks runs a new model until a deadlock, or for half a second of virtual time, and reports whether there was a deadlock.
func (o *outputs) deadlocks() bool {
	at := " --name modelled"
	o.must(strings.Fields("model mesh:2x2 -d --order none --allow-deadlock --local-first" + at)...)
	defer o.must("down", "--name", "modelled")
	o.prints("model speed", "1"+at)
	o.prints("model stop", at)
	var now struct {
		Nanos int64 `json:"time_ns"`
	}
	if err := json.Unmarshal([]byte(o.prints("model status", at)), &now); err != nil {
		o.t.Fatal(err)
	}
	o.prints("model break", "add time "+(time.Duration(now.Nanos)+time.Second/2).String()+at)
	traffic := make(chan bool)
	go func() {
		defer close(traffic)
		o.run(strings.Fields("traffic bit-complement --packets 80000 --window 500 --size 256 --timeout 1s" + at)...)
	}()
	time.Sleep(time.Second) // time for the command to reach the chips, which begin to send when time passes
	out := o.prints("model run", "until deadlock"+at)
	o.prints("model step", "10"+at)
	o.prints("model back", "1ms"+at)
	<-traffic
	return strings.Contains(out, `"circle"`)
}

// jobs lists and stops a job whose kernel waits for ever.
func (o *outputs) jobs() {
	f, err := fabric.OpenDir(o.t.Context(), folder.Dir(filepath.Join(o.dir, "ttfabric", "default")))
	if err != nil {
		o.t.Fatal(err)
	}
	c, err := f.Client(f.Topology.Chips[0].Node)
	if err != nil {
		o.t.Fatal(err)
	}
	setup := kernel.Start{Kernel: "ring-setup", Tile: kernel.Tile{X: 1, Y: 2}, Args: []byte{1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0}}
	if err := c.StartJob(kernel.Job{ID: 5, Programs: []kernel.Program{{Kernels: []kernel.Start{setup}}}}); err != nil {
		o.t.Fatal(err)
	}
	if out := o.prints("job ls", ""); !strings.Contains(out, "ring-setup@1-2") {
		o.t.Errorf("job ls: %s", out)
	}
	if out := o.must("job", "stop", "5"); !strings.Contains(out, "Job 5 is stopped on 1 chip.") {
		o.t.Errorf("job stop: %s", out)
	}
	if _, errs, code := o.run("job", "stop", "5"); code != exitFailed || !strings.Contains(errs, "job 5 does not run on any chip") {
		o.t.Errorf("a second stop: exit code %d, %s", code, errs)
	}
}

// attached attaches a fabric of this machine by the address of a chip, under another name.
func (o *outputs) attached() {
	o.must("up", "n300", "-d", unhurried)
	out, _, _ := o.run("run", "-o", "json", "sh", "-c", "exit 3")
	o.fits("run", out)
	dir := folder.Dir(filepath.Join(o.dir, "ttfabric", "default"))
	chips := dir.ChipFiles()
	token, err := os.ReadFile(filepath.Join(string(dir), "token"))
	if err != nil || len(chips) != 2 {
		o.t.Fatal(err, chips)
	}
	o.env = []string{"TTFABRIC_TOKEN=" + strings.TrimSpace(string(token))}
	defer func() { o.env = nil }()
	o.prints("attach", "--name other --api "+chips[0].API)
	o.prints("attach", "--name other --wait 60s --api "+chips[0].API)
}
