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

// Labels of a fabric's containers, network and volume. Commands find these objects by their labels.
const (
	labelFabric  = "ttfabric.fabric"  // name of the fabric
	labelChip    = "ttfabric.chip"    // chip that runs in the container, as M<mesh>D<chip>
	labelRecord  = "ttfabric.record"  // folder of this machine to which recordings are copied
	labelKeylog  = "ttfabric.keylog"  // folder of this machine to which logged secrets are copied
	labelArchive = "ttfabric.archive" // folder of this machine to which the event archive is copied, into a subfolder with the fabric's name
	labelPKI     = "ttfabric.pki"     // folder of this machine with the chips' certificates
	labelImage   = "ttfabric.image"   // image of the containers; when all containers are gone, a command starts a container of this image to copy files from the volume
)

// Ports and paths in a container. All containers use the same ports, because each
// container has an address of its own.
const (
	composePortBase = 17000 // UDP port of channel 0
	stateVolume     = "state"
	stateDir        = "/state" // folder at which containers mount the volume; docker/Dockerfile makes the folder
	stateToken      = stateDir + "/token"
	stateArchive    = stateDir + "/archive"
	stateRecord     = stateDir + "/record" // recordings of chips that record every start; a recording of a single start is in a subfolder, see onceFolder
	stateKeylog     = stateDir + "/keylog"
	stateOnce       = stateDir + "/once"
	socketsDir      = "/sockets" // folder at which containers mount the folder of the chips' Unix sockets
)

// Limits of a compose file.
const (
	maxEnvironment = 128<<10 - 64 // largest topology text in bytes; execve(2) accepts 128 KiB (MAX_ARG_STRLEN) for the text and the variable's name
	maxContainers  = 1000         // largest number of chips; each container needs a port of a Linux bridge, which has 1,023 ports
	minHealth      = 10           // shortest time between two health checks of one container, in seconds
	healthPerSec   = 1            // largest number of health checks of all containers in one second; each check starts a process
	minMemory      = 64 << 20     // smallest memory limit of one container in bytes; an idle chip takes some 20 MiB
	minQUIC        = 1280         // smallest MTU in bytes for QUIC, whose first packets have 1,200 bytes (RFC 9000 §14) plus the headers of UDP and IPv6
)

// AsJSON converts a compose file from YAML into JSON, which compose can also read. AsJSON replaces
// each YAML alias by the value that the alias stands for, and leaves out the keys of the file that
// begin with "x-".
func AsJSON(b []byte) ([]byte, error) {
	var v map[string]any
	if err := yaml.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	maps.DeleteFunc(v, func(k string, _ any) bool { return strings.HasPrefix(k, "x-") })
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

// Options are options of a fabric's containers.
type Options struct {
	Image  string // container image
	Memory string // memory limit of one container, in the engine's notation
	MTU    int    // MTU of the containers' network, in bytes
}

// DefaultOptions returns the default of every option.
func DefaultOptions() Options { return Options{Image: "ttfabric", Memory: "512m", MTU: 1500} }

// check returns an error if a fabric of containers cannot have these options, the given
// name, or the given topology.
func (o *Options) check(s *spec.Spec, name string, t *topo.Topology) error {
	switch {
	case o.MTU < spec.MinMTU || o.MTU > spec.MaxMTU:
		return spec.Usagef("--mtu %d: want %d to %d bytes", o.MTU, spec.MinMTU, spec.MaxMTU)
	case spec.Bytes(o.Memory) < minMemory:
		return spec.Usagef("--memory %q: want an amount such as 256m or 1g, at least 64m", o.Memory)
	case s.Transport == spec.QUIC && o.MTU < minQUIC:
		return spec.Usagef("--mtu %d: QUIC needs an MTU of at least %d bytes", o.MTU, minQUIC)
	case len(t.Chips) > maxContainers:
		return spec.Usagef("topology %s has %d chips; want at most %d, because all containers share one Linux bridge", t.Name, len(t.Chips), maxContainers)
	}
	return spec.CheckName(name)
}

// Settle checks the name and the options, sets the default profile for containers, and completes
// the spec "want" with [spec.New]. If an option is not valid, the error has kind [spec.Usage].
func Settle(name string, t *topo.Topology, want spec.Spec, o Options) (s spec.Spec, err error) {
	want.Settle(t)
	if err := o.check(&want, name, t); err != nil {
		return s, err
	}
	// Without QUIC, the default profile is crowded. The compose file may run on any machine, and
	// most machines have fewer cores than the fabric has chips.
	if want.Transport != spec.QUIC {
		want.Profile = cmp.Or(want.Profile, ttlink.ProfileCrowded.Name)
	}
	return spec.New(name, t, want)
}

// File is the content of a compose file or a stack file.
type File struct {
	Spec     spec.Spec // complete spec of the fabric, as [Settle] returns it
	Topology *topo.Topology
	Named    string // topology as the user named it: a file, or the name of a built-in topology
	Options
	Secrets string // folder of the keys and certificates, as [Keys.Write] returns it
	Sockets string // folder of this machine for the chips' Unix sockets, relative to the compose file; "": the chips have no sockets
	User    int    // id of the user who may use the sockets
	Subnet  string // subnet of a stack's overlay network, for example [Subnet]; a compose file has none
}

// topologyArgument returns the topology for the chips, as arguments or as a text. If the
// topology is built in, the result args has the flag with the topology's name. If the
// topology comes from a file, the result "text" is the value of the variable
// [spec.TopologyEnv].
func (f *File) topologyArgument() (args []string, text string, err error) {
	if _, err := os.Stat(f.Named); err != nil {
		return []string{"--topology", f.Named}, "", nil
	}
	text = string(f.Topology.Encode())
	if len(text) > maxEnvironment {
		return nil, "", spec.Topologyf("topology %s: the file's text has %d bytes; want at most %d bytes, because containers get the text in an environment variable", f.Named, len(text), maxEnvironment)
	}
	return nil, text, nil
}

// Compose returns the text of the compose file of a fabric.
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
	if f.Sockets != "" {
		args = append(args, "--socket-dir", socketsDir, "--socket-user", fmt.Sprint(f.User))
	}
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
		b.WriteString("# " + secretsEnv + ", if set, replaces the folder of the keys and certificates.\nsecrets:\n" + s)
	}
	return b.Bytes(), nil
}

// Limits within a container's memory, in percent of the container's memory limit.
const (
	gcShare   = 80 // memory above which the chip collects garbage more often
	tileShare = 50 // memory of the chip's tiles; the chip refuses writes that need more, because the kernel kills a container that exceeds its memory
)

// ServiceName returns the name of a chip's service in a compose or stack file. The engine's
// DNS resolves this name to the address of the chip's container.
func ServiceName(n wire.FabricNodeID) string { return strings.ToLower(n.String()) }

// composeSeeds returns the gossip seeds: the chips that a starting chip contacts first. Each mesh
// has at most [spec.SeedChips] seeds. A seed has the form CHIP/SERVICE. In each mesh, exit nodes
// come first, because only exit nodes are also in the gossip pool that joins the meshes.
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

// quoted returns s as a YAML string in double quotes. Every JSON string is also a YAML
// string in double quotes (YAML 1.2, section 1.2).
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSpace(b.String())
}

// writeTopology writes the YAML entry of the environment variable with a topology's text.
// writeTopology writes nothing if text is "".
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
# TTFABRIC_NAME, TTFABRIC_IMAGE and TTFABRIC_MTU, if set, replace the fabric's name, the image and the network's MTU.
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
  volumes: [%s]
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
		// m.Archive ends with m.Name. The label has only the parent folder, because TTFABRIC_NAME may
		// give the fabric another name when the user brings the fabric up.
		archive = filepath.Dir(m.Archive)
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
	volumes := quoted(stateVolume + ":" + stateDir)
	if f.Sockets != "" {
		volumes += ", " + quoted(f.Sockets+":"+socketsDir)
	}
	fmt.Fprintf(b, composeChip, f.Image, strings.Join(args, ", "), max(minHealth, len(t.Chips)/healthPerSec), spec.APIPort, volumes, f.Memory)
	for _, c := range t.Chips {
		fmt.Fprintf(b, "  %s: {<<: *chip, environment: {<<: *environment, TTFABRIC_NODE_CHIP: %s}, labels: {<<: *labels, %s: %s}%s}\n", ServiceName(c.Node), c.Node, labelChip, c.Node, secretsKey(m, c.Node, ""))
	}
	fmt.Fprintf(b, composeTail, f.MTU, stateVolume)
}
