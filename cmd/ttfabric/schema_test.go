package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/admin/api/schema"
	"ttfabric/node/chip/record/replay"
	"ttfabric/node/doctor"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/bench"
	fabriccapture "ttfabric/node/fabric/capture"
	"ttfabric/node/fabric/pipe"
	"ttfabric/node/fabric/ranks"
	"ttfabric/node/firmware/host"
	"ttfabric/node/model"
	"ttfabric/node/model/control"
	"ttfabric/node/noc"
	"ttfabric/node/output"
	"ttfabric/node/scenario"
	"ttfabric/node/sim/reliable"
	"ttfabric/node/sim/reliable/curves"
	"ttfabric/node/snapshot"
	"ttfabric/node/traffic"
	"ttfabric/router/topo/mapping"
	"ttfabric/wire/capture/wireshark"
)

// printed are the types of the data that each command prints with -o json.
var printed = map[string][]any{
	"attach": {output.Up{}, output.Chips{}}, "up": {output.Up{}}, "ls": {[]output.Fabric{}}, "version": {output.Version{}}, "schema": {map[string]any{}, []string{}},
	"inspect": {output.Chips{}, fabric.LinkDiff{}, fabric.Balance{}, output.Channels{}}, "cabling": {fabric.Cabling{}}, "map": {mapping.Mapping{}}, "chip remove": {output.Removed{}}, "doctor": {[]doctor.Finding{}},
	"validate": {output.Topology{}}, "routes": {output.Routes{}}, "graph": {output.Text{}}, "generate": {output.Text{}}, "pki show": {[]pkiRow{}},
	"run": {ranks.Report{}}, "ping": {[]pingRow{}}, "mem read": {output.Memory{}}, "mem write": {output.Memory{}}, "mem tiles": {[]noc.Tile{}}, "mem save": {output.Memory{}}, "mem restore": {output.Memory{}}, "socket send": {pipe.Result{}}, "socket recv": {pipe.Result{}}, "host queues": {[]host.State{}}, "host read": {output.Memory{}}, "host write": {output.Memory{}}, "traffic": {traffic.Result{}},
	"bench link": {[]bench.LinkRow{}}, "bench ring": {[]bench.RingRow{}}, "bench collective": {[]bench.CollectiveRow{}}, "job ls": {[]jobRow{}}, "bench rtt": {[]bench.RTTReport{}}, "trace": {[]fabric.Hop{}, traceCounts{}}, "checkpoint": {fabric.LossesSince{}},
	"netem set": {[]api.ImpairmentView{}}, "netem show": {[]api.ImpairmentView{}}, "netem reset": {output.Cables{}, output.Reset{}},
	"link down": {output.Cables{}}, "link up": {output.Cables{}}, "link flap": {output.Cables{}}, "partition": {output.Cables{}}, "heal": {output.Healed{}}, "link fallback": {[]fabric.Fallback{}},
	"reroute": {output.Cables{}}, "remove": {output.Cables{}}, "restore": {output.Cables{}},
	"router drain": {[]api.RouterView{}}, "router flush": {[]api.RouterView{}}, "router pause": {[]api.RouterView{}}, "router resume": {[]api.RouterView{}}, "router retrain": {[]api.RouterView{}},
	"router raw": {[]api.RouterView{}}, "router ttlink": {[]api.RouterView{}},
	"gossip show": {[]api.GossipView{}}, "gossip cut": {output.GossipChips{}}, "gossip heal": {output.GossipChips{}}, "gossip impair": {output.GossipChips{}}, "gossip keygen": {output.Key{}},
	"gossip keys install": {[]fabric.KeyRow{}}, "gossip keys list": {[]fabric.KeyRow{}}, "gossip keys remove": {[]fabric.KeyRow{}}, "gossip keys rotate": {[]fabric.KeyRow{}}, "gossip keys use": {[]fabric.KeyRow{}},
	"snapshot": {output.Snapshot{}}, "snapshot diff": {[]snapshot.Difference{}}, "model": {model.Result{}, []reliable.Number{}, []curves.Row{}},
	"model status": {control.Reply{}}, "model run": {control.Reply{}}, "model stop": {control.Reply{}}, "model step": {control.Reply{}}, "model back": {control.Reply{}}, "model break": {control.Reply{}}, "model speed": {control.Reply{}},
	"scenario list": {[]listedScenario{}}, "scenario run": {[]scenario.Report{}}, "events": {api.EventView{}}, "capture": {fabriccapture.Frame{}}, "mailbox": {[]output.Mailbox{}},
	"wireshark install": {[]wireshark.Step{}}, "wireshark show": {shownWireshark{}}, "record stop": {[]stopped{}}, "replay": {[]replay.Result{}, replay.Record{}, api.EventView{}},
}

// firstNames are the names in the schemas of types that were in this package first. The names in the
// schemas stay as they are, because other programs may refer to the names.
var firstNames = map[string]string{"bench.LinkRow": "linkRow", "bench.RingRow": "ringRow", "bench.RTTReport": "rttReport", "output.Memory": "memView",
	"replay.Result": "replayed", "replay.Difference": "replayDifference", "replay.Record": "shownRecord"}

// linewise are the types of which a command prints one value in each line.
var linewise = []any{api.EventView{}, fabriccapture.Frame{}, replay.Record{}}

// unstructured are the commands that print no data of their own with -o json.
var unstructured = map[string]string{
	"job stop": "one sentence", "host shim": "prints text",
	"chip kill": "prints nothing", "chip pause": "prints nothing", "chip restart": "prints nothing", "chip resume": "prints nothing", "chip start": "prints nothing", "down": "prints nothing",
	"pki make": "prints nothing", "pki renew": "prints nothing", "profile": "writes a file of pprof", "dashboard": "prints the address of a page", "top": "shows a screen", "node": "runs until it is stopped", "ready": "prints text", "extcap": "speaks Wireshark's protocol",
	"compose": "prints a file in the format of Docker Compose", "stack": "prints a file in the format of Docker Compose",
	"scenario show": "prints a scenario in YAML", "scenario validate": "prints text", "": "prints its help",
}

// breaking lets -rewrite write schemas that break the promise of stability.
var breaking = flag.Bool("breaking", false, "with -rewrite, write the schemas even if fields disappear or change; only for a new major version")

// TestSchemas generates the schemas of all commands from the types of their data. The result must be
// equal to the file node/output/schemas.json.
func TestSchemas(t *testing.T) {
	file := filepath.Join(checkout, "node", "output", "schemas.json")
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	g := &schema.Generator{Root: checkout, Refs: "#/$defs/", Own: func(rt reflect.Type) bool { return strings.HasPrefix(rt.PkgPath(), "ttfabric/") }, Name: func(rt reflect.Type) string {
		if strings.HasSuffix(rt.PkgPath(), "cmd/ttfabric") {
			return rt.Name()
		}
		return cmp.Or(firstNames[rt.String()], rt.String())
	}}
	commands := schema.Object{}
	for name, types := range printed {
		s := g.AnyOf("anyOf", types)
		for i, v := range types {
			if !slices.ContainsFunc(linewise, func(l any) bool { return reflect.TypeOf(l) == reflect.TypeOf(v) }) {
				continue
			}
			one := s
			if len(types) > 1 {
				one = s["anyOf"].([]schema.Object)[i]
			}
			one["$comment"] = "The command prints one such value in each line."
		}
		commands[name] = s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(schema.Object{"commands": commands, "$defs": g.Schemas()}); err != nil || g.Err() != nil {
		t.Fatal(err, g.Err())
	}
	if bytes.Equal(b.Bytes(), old) {
		return
	}
	if !*rewrite {
		t.Fatal("node/output/schemas.json differs from the schemas of the commands' data; 'go test ./cmd/ttfabric -run TestSchemas -rewrite' writes the file anew")
	}
	var before, after any
	if err := json.Unmarshal(old, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &after); err != nil {
		t.Fatal(err)
	}
	if broken := breaks("schemas", before, after); len(broken) > 0 && !*breaking {
		t.Fatalf("these changes break the promise of stability; a new major version needs -breaking:\n%s", strings.Join(broken, "\n"))
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// breaks lists the parts of a schema that are missing or different in a later version of the
// schema. Texts for people may change, and lists may become longer. A command may print other data, too, if
// a new flag says so: the old schema is then one of a list.
func breaks(at string, before, after any) (all []string) {
	switch old := before.(type) {
	case map[string]any:
		now, _ := after.(map[string]any)
		if list, more := now["anyOf"].([]any); more && old["anyOf"] == nil && path.Dir(at) == "schemas/commands" {
			return breaks(at+"/anyOf", []any{before}, list)
		}
		for _, k := range slices.Sorted(maps.Keys(old)) {
			if !strings.HasSuffix(at, "/properties") && slices.Contains([]string{"description", "examples", "$comment"}, k) {
				continue
			}
			all = append(all, breaks(at+"/"+k, old[k], now[k])...)
		}
	case []any:
		now, _ := after.([]any)
		for _, v := range old {
			if !slices.ContainsFunc(now, func(n any) bool { return len(breaks("", v, n)) == 0 }) {
				all = append(all, fmt.Sprintf("%s: %v is missing", at, v))
			}
		}
	default:
		if before != after {
			all = append(all, fmt.Sprintf("%s: %v becomes %v", at, before, after))
		}
	}
	return all
}

// TestBreaks checks which changes break the promise of stability.
func TestBreaks(t *testing.T) {
	const old = `{"type":"object","description":"x","properties":{"a":{"type":"string","enum":["p","q"]},"b":{"type":"integer"},"description":{"type":"string"}},"required":["a"]}`
	for now, want := range map[string]bool{
		old:                                   false,
		strings.Replace(old, `"x"`, `"y"`, 1): false,
		strings.Replace(old, `"b":`, `"c":{"type":"null"},"b":`, 1):                   false,
		strings.Replace(old, `"q"`, `"r","q"`, 1):                                     false,
		strings.Replace(old, `["a"]`, `["b","a"]`, 1):                                 false,
		strings.Replace(old, `,"b":{"type":"integer"}`, ``, 1):                        true,
		strings.Replace(old, `"integer"`, `"string"`, 1):                              true,
		strings.Replace(old, `"p",`, ``, 1):                                           true,
		strings.Replace(old, `["a"]`, `["b"]`, 1):                                     true,
		strings.Replace(old, `,"description":{"type":"string"}}`, `}`, 1):             true,
		strings.Replace(old, `"description":{"type":"string"}`, `"description":1`, 1): true,
	} {
		var before, after any
		if err := json.Unmarshal([]byte(old), &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(now), &after); err != nil {
			t.Fatal(err)
		}
		if got := breaks("", before, after); (len(got) > 0) != want {
			t.Errorf("%s breaks %q, want %v", now, got, want)
		}
	}
	one, two := map[string]any{"$ref": "#/$defs/a"}, map[string]any{"$ref": "#/$defs/b"}
	for at, want := range map[string]int{"schemas/commands/model": 0, "schemas/$defs/a": 1} {
		if got := breaks(at, one, map[string]any{"anyOf": []any{one, two}}); len(got) != want {
			t.Errorf("at %s, a second shape breaks %q", at, got)
		}
	}
	if breaks("schemas/commands/model", one, map[string]any{"anyOf": []any{two}}) == nil {
		t.Error("the old shape may disappear")
	}
}

// TestEachCommandHasASchema checks that the table of types names each command that prints data.
func TestEachCommandHasASchema(t *testing.T) {
	all := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if name := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "ttfabric"), " "); c.Runnable() && c.Annotations[onlyGroups] == "" {
			all[name] = true
			if _, has := printed[name]; has == (unstructured[name] != "") {
				t.Errorf("the command %q must be in one of the tables of this test", name)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	for name := range printed {
		if !all[name] {
			t.Errorf("there is no command %q", name)
		}
	}
	if got := output.Commands(); len(got) != len(printed) {
		t.Errorf("%d commands have a schema, want %d", len(got), len(printed))
	}
	for _, name := range output.Commands() {
		s, _ := output.Schema(name)
		if _, err := compiled(name, s); err != nil {
			t.Error(err)
		}
	}
}

// compiled returns the validators of a schema, one for each alternative. The validators allow no field
// that is not in the schema, although other programs must allow further fields.
func compiled(name string, s map[string]any) (all []*jsonschema.Schema, err error) {
	c := jsonschema.NewCompiler()
	at := "mem:///" + url.PathEscape(name)
	closeObjects(s)
	if err := c.AddResource(at, s); err != nil {
		return nil, err
	}
	refs := []string{at}
	if alternatives, ok := s["anyOf"].([]any); ok {
		refs = refs[:0]
		for i := range alternatives {
			refs = append(refs, fmt.Sprintf("%s#/anyOf/%d", at, i))
		}
	}
	for _, r := range refs {
		v, err := c.Compile(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, v)
	}
	return all, nil
}

func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, fields := v["properties"].(map[string]any); fields && v["additionalProperties"] == nil {
			v["additionalProperties"] = false
		}
		for _, x := range v {
			closeObjects(x)
		}
	case []any:
		for _, x := range v {
			closeObjects(x)
		}
	}
}
