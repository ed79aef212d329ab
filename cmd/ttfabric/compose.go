package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

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
	composeAPI      = "8474" // of the API; 'ready' asks there by default
	composePortBase = 17000  // of channel 0
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
	minMTU         = 576          // the least that every IPv4 host takes (RFC 791)
	maxMTU         = 65535
	minQUIC        = 1280 // the least MTU of a network that QUIC's first packets of 1,200 bytes pass (RFC 9000 §14), over IPv6 too
)

// composeFlags say what containers are like.
type composeFlags struct {
	image  string
	memory string
	mtu    int
}

func (f *composeFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.image, "image", "ttfabric", "container image; 'scripts/image' builds it")
	fl.StringVar(&f.memory, "memory", "512m", "memory that one container may take, as the engine writes it")
	fl.IntVar(&f.mtu, "mtu", 1500, "MTU of the containers' network, in bytes")
}

func newCompose() *cobra.Command {
	var f composeFlags
	var fab fabricFlags
	var keys keyFlags
	var file string
	c := &cobra.Command{
		Use: "compose [TOPOLOGY]", Short: "Write a compose file: one container per chip", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		Long: `compose writes a compose file that brings a fabric up with one container per
chip, for docker-compose 1.29 and for Compose v2. TOPOLOGY is what 'up' takes; a
file's text goes into the compose file, so that it can be handed on alone.

The fabric is called as --name says unless the environment variable
TTFABRIC_NAME is set when it is brought up; TTFABRIC_IMAGE and TTFABRIC_MTU
stand in the same way for --image and --mtu. Commands find it by its containers'
labels. 'ttfabric up --runtime docker' writes the file and uses it at once. With -o json
it is written as JSON.

With --auth psk, --transport quic or --gossip-key, each container gets its own
keys and certificates as secrets, from a folder that compose makes for them
(--secrets) and that TTFABRIC_SECRETS may replace. They are in no compose file.
With --record, chips record into the fabric's volume; 'record stop' and 'down'
copy that to the folder. With --keylog they log into it; 'up', 'capture'
and 'down' copy that to theirs. With --archive, 'events' and 'down' copy the
archive, which is in the volume in any case.`,
		Example: `  ttfabric compose t3000 -f t3000.yml
  docker-compose -p t3000 -f t3000.yml up -d
  ttfabric inspect
  ttfabric compose cluster_desc.yaml --name lab --mtu 9000 --slots fast -f lab.yml
  ttfabric compose t3000 --auth psk --gossip-key generate -f sealed.yml
  ttfabric pki make t3000 --name lab -d pki
  ttfabric compose t3000 --name lab --transport quic --pki pki -f lab.yml`,
		RunE: func(c *cobra.Command, args []string) error {
			name, _ := c.Flags().GetString("name")
			return render(c, args, file, func(arg string, t *topo.Topology) ([]byte, string, error) {
				b, err := composeFile(name, arg, t, fab, f, func(m *spec.Spec) (string, error) { return keys.write(c, m, t, &fab.secure, file) })
				return b, fmt.Sprintf("%s%s. 'docker-compose -p %s -f %s up -d' brings it up.", topo.Count(len(t.Chips), "container"), keys.told(), asProject(name), file), err
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	keys.add(c)
	f.add(c)
	fab.add(c)
	return c
}

// render loads the topology that a command names, and writes what is made of it
// to a file, or to standard output where none is named. told is what is said of the file.
func render(c *cobra.Command, args []string, file string, make func(arg string, t *topo.Topology) (b []byte, told string, err error)) error {
	arg := defaultTopology
	if len(args) > 0 {
		arg = args[0]
	}
	as, err := format(c)
	if err != nil {
		return err
	}
	t, err := loadTopology(c.Context(), arg)
	if err != nil {
		return err
	}
	b, told, err := make(arg, t)
	if err != nil {
		return err
	}
	if o, _ := c.Flags().GetString("output"); as == "json" && o == "json" {
		if b, err = asJSON(b); err != nil {
			return err
		}
	}
	if file == "" {
		_, err = c.OutOrStdout().Write(b)
		return err
	}
	if err := writeOut(file, b); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "Wrote %s, of %s\n", file, told)
	return nil
}

// asJSON is a compose file in JSON, which the tools that read such files take as well. What a YAML file repeats by name is written out.
func asJSON(b []byte) ([]byte, error) {
	var v map[string]any
	if err := yaml.Unmarshal(b, &v); err != nil {
		return nil, err
	}
	maps.DeleteFunc(v, func(k string, _ any) bool { return strings.HasPrefix(k, "x-") })
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

// check refuses what a compose file cannot say.
func (f *composeFlags) check(fab *fabricFlags, name string, t *topo.Topology) error {
	switch {
	case !validName.MatchString(name):
		return spec.Usagef("fabric name %q: want letters, digits, '-', '_' and '.', at most 64", name)
	case f.mtu < minMTU || f.mtu > maxMTU:
		return spec.Usagef("--mtu %d: want %d to %d bytes", f.mtu, minMTU, maxMTU)
	case bytesOf(f.memory) < minMemory:
		return spec.Usagef("--memory %q: want an amount such as 256m or 1g, at least 64m", f.memory)
	case fab.secure.transport == spec.QUIC && f.mtu < minQUIC:
		return spec.Usagef("--mtu %d: QUIC needs at least %d bytes", f.mtu, minQUIC)
	case len(t.Chips) > maxContainers:
		return spec.Usagef("%s has %d chips: want at most %d, as a bridge takes no more containers", t.Name, len(t.Chips), maxContainers)
	}
	return nil
}

// contained settles what the chips of a fabric of containers are started with.
func (f *fabricFlags) contained(name string, t *topo.Topology, c *composeFlags) (m spec.Spec, err error) {
	f.secure.settle(t)
	if err := c.check(f, name, t); err != nil {
		return m, err
	}
	// The machine that runs it may be any, and chips outnumber cores on most.
	if f.secure.transport != spec.QUIC {
		f.profile = cmp.Or(f.profile, ttlink.ProfileCrowded.Name)
	}
	return f.mesh(name, t)
}

// composeFile renders the compose file of a fabric; arg is how the user named
// its topology. share says where the file finds keys and certificates, and
// whether gossip is encrypted.
func composeFile(name, arg string, t *topo.Topology, fab fabricFlags, f composeFlags, share func(*spec.Spec) (folder string, err error)) ([]byte, error) {
	m, err := fab.contained(name, t, &f)
	if err != nil {
		return nil, err
	}
	var env [][2]string
	args := []string{"node", "--name", "${TTFABRIC_NAME:-" + name + "}"}
	if _, err := os.Stat(arg); err != nil {
		args = append(args, "--topology", arg)
	} else {
		text := string(t.Encode())
		if len(text) > maxEnvironment {
			return nil, spec.Topologyf("%s: its text takes %d bytes; an environment variable, in which containers get it, takes %d", arg, len(text), maxEnvironment)
		}
		env = append(env, [2]string{topologyEnv, text})
	}
	folder, err := share(&m)
	if err != nil {
		return nil, err
	}
	args = append(args, "--listen", "eth0")
	if m.Auth == spec.None {
		args = append(args, "--trust-network", "eth0")
	}
	args = append(args, "--port-base", fmt.Sprint(composePortBase), "--api", "0.0.0.0:"+composeAPI,
		"--token-file", stateToken, "--archive", stateArchive, "--once", stateOnce,
		"--tile-memory", fmt.Sprintf("%dk", bytesOf(f.memory)/1024*tileShare/100), "--seeds", strings.Join(composeSeeds(t), ","))
	args = append(args, secureArguments(&m, t)...)
	if m.Record != "" {
		args = append(args, "--record", stateRecord, "--record-limit", fmt.Sprint(m.RecordMiB))
	}
	if m.KeyLog != "" {
		args = append(args, "--keylog", stateKeylog)
	}
	for _, a := range fab.arguments() {
		args = append(args, strings.ReplaceAll(a, "$", "$$"))
	}
	var b bytes.Buffer
	writeCompose(&b, &m, t, args, env, f)
	if s := secretFiles(&m, t, folder); s != "" {
		b.WriteString("# " + secretsEnv + ", where it is set, replaces the folder of the keys and certificates.\nsecrets:\n" + s)
	}
	return b.Bytes(), nil
}

// Parts of a container's memory, in percent.
const (
	gcShare   = 80 // from which on the chip collects garbage harder
	tileShare = 50 // that the chip's tile memory may take; a write beyond it is refused, where the kernel would kill the container
)

// bytesOf reads an amount of memory as compose files write it: 268435456, 256m, 1gb. It is 0 for anything else.
func bytesOf(s string) uint64 {
	s = strings.TrimSuffix(strings.ToLower(s), "b")
	shift := 0
	for i, unit := range []string{"k", "m", "g"} {
		if n, ok := strings.CutSuffix(s, unit); ok {
			s, shift = n, 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil && shift == 0 {
		n, err = strconv.ParseUint(s, 10, 63)
	}
	if err != nil {
		return 0
	}
	return n << shift
}

// serviceName is the compose service of a chip, by which the engine's DNS finds it.
func serviceName(n wire.FabricNodeID) string { return strings.ToLower(n.String()) }

// composeSeeds names chips of each mesh, exit nodes first, for only they are in the other pool.
func composeSeeds(t *topo.Topology) (out []string) {
	each := max(1, min(seedChips, maxSeeds/len(t.Meshes)))
	for _, m := range t.Meshes {
		n := 0
		for _, exits := range []bool{true, false} {
			for _, c := range t.Chips {
				if c.Node.Mesh == m.ID && exitNode(t, c.Node) == exits && n < each {
					out = append(out, fmt.Sprintf("%s/%s", c.Node, serviceName(c.Node)))
					n++
				}
			}
		}
	}
	return out[:min(len(out), maxSeeds)]
}

// quoted is a YAML string in double quotes, which takes all that a JSON string does (YAML 1.2, 1.2).
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSpace(b.String())
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

func writeCompose(b *bytes.Buffer, m *spec.Spec, t *topo.Topology, args []string, env [][2]string, f composeFlags) {
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
	fmt.Fprintf(b, composeHead, t, m.Name, f.image, folders)
	fmt.Fprintf(b, "  GOMEMLIMIT: %dKiB\n", bytesOf(f.memory)/1024*gcShare/100)
	for _, e := range env {
		fmt.Fprintf(b, "  %s: |\n", e[0])
		for line := range strings.Lines(e[1]) {
			fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(strings.TrimRight(line, "\n"), "$", "$$"))
		}
	}
	for i, a := range args {
		args[i] = quoted(a)
	}
	fmt.Fprintf(b, composeChip, f.image, strings.Join(args, ", "), max(minHealth, len(t.Chips)/healthPerSec), composeAPI, stateVolume, stateDir, f.memory)
	for _, c := range t.Chips {
		fmt.Fprintf(b, "  %s: {<<: *chip, environment: {<<: *environment, TTFABRIC_NODE_CHIP: %s}, labels: {<<: *labels, %s: %s}%s}\n", serviceName(c.Node), c.Node, labelChip, c.Node, secretsKey(m, c.Node, ""))
	}
	fmt.Fprintf(b, composeTail, f.mtu, stateVolume)
}
