package container

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/wire"
)

// Labels of a fabric's containers, network and volume, by which commands find them.
const (
	labelFabric  = "ttfabric.fabric"  // the fabric's name
	labelChip    = "ttfabric.chip"    // M<mesh>D<chip>
	labelRecord  = "ttfabric.record"  // folder of the machine that composed it, which recordings are copied to
	labelKeylog  = "ttfabric.keylog"  // and the same for secrets of connections
	labelArchive = "ttfabric.archive" // and for the archive of events, below the fabric's name
	labelPKI     = "ttfabric.pki"     // and the one that certificates are from
	labelImage   = "ttfabric.image"   // the image: to read the volume when no container is left
)

// Ports and paths of a container; each has an address of its own, so that all have the same.
const (
	composePortBase = 17000 // of channel 0
	stateVolume     = "state"
	stateDir        = "/state" // where that volume is, and what docker/Dockerfile makes
	stateToken      = stateDir + "/token"
	stateArchive    = stateDir + "/archive"
	stateRecord     = stateDir + "/record" // recordings; those of single lives in folders below it, see onceFolder
	stateKeylog     = stateDir + "/keylog"
	stateOnce       = stateDir + "/once"
)

// Limits of a compose file.
const (
	maxEnvironment = 128<<10 - 64 // bytes of the topology's text: those of one string that execve(2) takes, MAX_ARG_STRLEN, less the name
	maxContainers  = 1000         // chips: a Linux bridge has 1,023 ports, and the engine stops short of them
	minHealth      = 10           // seconds between two health checks of one container
	healthPerSec   = 1            // health checks of all containers in a second, at most, as each starts a process
	minMemory      = 64 << 20     // bytes of one container's memory: an idle chip takes some 20 MiB
	minQUIC        = 1280         // the least MTU of a network that QUIC's first packets of 1,200 bytes pass (RFC 9000 §14), over IPv6 too
)

// AsJSON is a compose file in JSON, which the tools that read such files take as well. What a YAML file repeats by name is written out.
func AsJSON(b []byte) ([]byte, error) {
	var v map[string]any
	if err := yaml.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	maps.DeleteFunc(v, func(k string, _ any) bool { return strings.HasPrefix(k, "x-") })
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

// Options say what the containers of a fabric are like.
type Options struct {
	Image  string // container image
	Memory string // that one container may take, as the engine writes an amount
	MTU    int    // of the containers' network, in bytes
}

// DefaultOptions are the options where nobody says anything.
func DefaultOptions() Options { return Options{Image: "ttfabric", Memory: "512m", MTU: 1500} }

// check refuses what a compose file cannot say.
func (o *Options) check(s *spec.Spec, name string, t *topo.Topology) error {
	switch {
	case o.MTU < spec.MinMTU || o.MTU > spec.MaxMTU:
		return spec.Usagef("--mtu %d: want %d to %d bytes", o.MTU, spec.MinMTU, spec.MaxMTU)
	case spec.Bytes(o.Memory) < minMemory:
		return spec.Usagef("--memory %q: want an amount such as 256m or 1g, at least 64m", o.Memory)
	case s.Transport == spec.QUIC && o.MTU < minQUIC:
		return spec.Usagef("--mtu %d: QUIC needs at least %d bytes", o.MTU, minQUIC)
	case len(t.Chips) > maxContainers:
		return spec.Usagef("%s has %d chips: want at most %d, as a bridge takes no more containers", t.Name, len(t.Chips), maxContainers)
	}
	return spec.CheckName(name)
}

// Settle settles what the chips of a fabric of containers are started with; see [spec.New].
func Settle(name string, t *topo.Topology, want spec.Spec, o Options) (s spec.Spec, err error) {
	want.Settle(t)
	if err := o.check(&want, name, t); err != nil {
		return s, err
	}
	// The machine that runs the fabric may be any, and chips outnumber cores on most.
	if want.Transport != spec.QUIC {
		want.Profile = cmp.Or(want.Profile, ttlink.ProfileCrowded.Name)
	}
	return spec.New(name, t, want)
}

// File is a compose file or a stack file to be written.
type File struct {
	Spec     spec.Spec // of [Settle]
	Topology *topo.Topology
	Named    string // how the user named the topology
	Options
	Secrets string // folder of the keys and certificates, as the file names the folder; see [Keys]
	Subnet  string // of a stack's overlay; see [Subnet]
}

// topologyArgument says how chips learn the topology: by an argument, or, of a
// file of this machine, by the file's text in the environment.
func (f *File) topologyArgument() (args []string, text string, err error) {
	if _, err := os.Stat(f.Named); err != nil {
		return []string{"--topology", f.Named}, "", nil
	}
	text = string(f.Topology.Encode())
	if len(text) > maxEnvironment {
		return nil, "", spec.Topologyf("%s: its text takes %d bytes; an environment variable, in which containers get it, takes %d", f.Named, len(text), maxEnvironment)
	}
	return nil, text, nil
}

// Compose renders the compose file of a fabric.
func (f *File) Compose() ([]byte, error) {
	m, t := &f.Spec, f.Topology
	args := []string{"node", "--name", "${TTFABRIC_NAME:-" + m.Name + "}"}
	named, text, err := f.topologyArgument()
	if err != nil {
		return nil, err
	}
	args = append(args, named...)
	args = append(args, "--listen", "eth0")
	if m.Auth == spec.None {
		args = append(args, "--trust-network", "eth0")
	}
	args = append(args, "--port-base", fmt.Sprint(composePortBase), "--api", "0.0.0.0:"+spec.APIPort,
		"--token-file", stateToken, "--archive", stateArchive, "--once", stateOnce,
		"--tile-memory", fmt.Sprintf("%dk", spec.Bytes(f.Memory)/1024*tileShare/100), "--seeds", strings.Join(composeSeeds(t), ","))
	args = append(args, secureArguments(m, t)...)
	if m.Record != "" {
		args = append(args, "--record", stateRecord, "--record-limit", fmt.Sprint(m.RecordMiB))
	}
	if m.KeyLog != "" {
		args = append(args, "--keylog", stateKeylog)
	}
	for _, a := range m.Arguments() {
		args = append(args, strings.ReplaceAll(a, "$", "$$"))
	}
	var b bytes.Buffer
	f.writeCompose(&b, args, text)
	if s := secretFiles(m, t, f.Secrets); s != "" {
		b.WriteString("# " + secretsEnv + ", where it is set, replaces the folder of the keys and certificates.\nsecrets:\n" + s)
	}
	return b.Bytes(), nil
}

// Parts of a container's memory, in percent.
const (
	gcShare   = 80 // from which on the chip collects garbage harder
	tileShare = 50 // that the chip's tile memory may take; a write beyond it is refused, where the kernel would kill the container
)

// ServiceName is the compose service of a chip, by which the engine's DNS finds it.
func ServiceName(n wire.FabricNodeID) string { return strings.ToLower(n.String()) }

// composeSeeds names chips of each mesh, exit nodes first, for only they are in the other pool.
func composeSeeds(t *topo.Topology) (out []string) {
	each := max(1, min(spec.SeedChips, spec.MaxSeeds/len(t.Meshes)))
	for _, m := range t.Meshes {
		n := 0
		for _, exits := range []bool{true, false} {
			for _, c := range t.Chips {
				if c.Node.Mesh == m.ID && t.ExitNode(c.Node) == exits && n < each {
					out = append(out, fmt.Sprintf("%s/%s", c.Node, ServiceName(c.Node)))
					n++
				}
			}
		}
	}
	return out[:min(len(out), spec.MaxSeeds)]
}

// quoted is a YAML string in double quotes, which takes all that a JSON string does (YAML 1.2, 1.2).
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSpace(b.String())
}

// writeTopology writes a topology's text as an environment variable; "" writes nothing.
func writeTopology(b *bytes.Buffer, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(b, "  %s: |\n", spec.TopologyEnv)
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(strings.TrimRight(line, "\n"), "$", "$$"))
	}
}

const composeHead = `# %s
# One container per chip. Written by 'ttfabric compose'; docker/README.md says what each line is for.
#
#   docker-compose -p NAME -f THIS up -d       or: docker compose -p NAME -f THIS up -d
#   ttfabric inspect                           and every other command, from this machine
#   docker-compose -p NAME -f THIS down -v
#
# TTFABRIC_NAME, TTFABRIC_IMAGE and TTFABRIC_MTU, where set, replace the fabric's name, the image and the network's MTU.
x-labels: &labels
  ttfabric.fabric: "${TTFABRIC_NAME:-%s}"
  ttfabric.image: "${TTFABRIC_IMAGE:-%s}"
%sx-environment: &environment
`

const composeChip = `x-chip: &chip
  image: "${TTFABRIC_IMAGE:-%s}"
  command: [%s]
  healthcheck:
    test: ["CMD", "/ttfabric", "ready"]
    interval: %ds
    timeout: 5s
    retries: 3
    start_period: 60s
  ports: ["127.0.0.1::%s"]
  volumes: ["%s:%s"]
  read_only: true
  cap_drop: ["ALL"]
  security_opt: ["no-new-privileges:true"]
  mem_limit: %s
  pids_limit: 128
  restart: "no"
  stop_grace_period: 5s
  logging:
    driver: json-file
    options: {max-size: 1m, max-file: "2"}
services:
`

const composeTail = `networks:
  default:
    driver_opts:
      com.docker.network.driver.mtu: "${TTFABRIC_MTU:-%d}"
    labels: *labels
volumes:
  %s:
    labels: *labels
`

func (f *File) writeCompose(b *bytes.Buffer, args []string, text string) {
	m, t := &f.Spec, f.Topology
	folders := ""
	archive := ""
	if m.Archive != "" {
		archive = filepath.Dir(m.Archive) // below which the name is the one that the fabric is brought up with
	}
	for _, l := range [][2]string{{labelRecord, m.Record}, {labelKeylog, m.KeyLog}, {labelArchive, archive}, {labelPKI, m.PKI}} {
		if l[1] != "" {
			folders += fmt.Sprintf("  %s: %s\n", l[0], quoted(strings.ReplaceAll(l[1], "$", "$$")))
		}
	}
	fmt.Fprintf(b, composeHead, t, m.Name, f.Image, folders)
	fmt.Fprintf(b, "  GOMEMLIMIT: %dKiB\n", spec.Bytes(f.Memory)/1024*gcShare/100)
	writeTopology(b, text)
	for i, a := range args {
		args[i] = quoted(a)
	}
	fmt.Fprintf(b, composeChip, f.Image, strings.Join(args, ", "), max(minHealth, len(t.Chips)/healthPerSec), spec.APIPort, stateVolume, stateDir, f.Memory)
	for _, c := range t.Chips {
		fmt.Fprintf(b, "  %s: {<<: *chip, environment: {<<: *environment, TTFABRIC_NODE_CHIP: %s}, labels: {<<: *labels, %s: %s}%s}\n", ServiceName(c.Node), c.Node, labelChip, c.Node, secretsKey(m, c.Node, ""))
	}
	fmt.Fprintf(b, composeTail, f.MTU, stateVolume)
}
