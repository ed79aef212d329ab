package container

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// Names and addresses that only stack files use.
const (
	Subnet       = "10.213.0.0/16"      // default subnet of the overlay network; Swarm's default, a /24, has only 252 addresses (moby issue 31019)
	stackSecret  = "/run/secrets/token" // path at which Swarm mounts the secret "token"
	stackConsole = "console"            // name of the service in which commands run
	// Labels of a stack's containers. A stack does not use labelFabric and labelChip, because
	// commands would take containers with these labels for a fabric of this machine.
	labelStack     = "ttfabric.stack"
	labelStackChip = "ttfabric.stack.chip"
	stackSeed      = "tasks." // with this prefix before a service's name, Swarm's DNS returns the addresses of the service's tasks
)

// checkSubnet returns an error if s, the value of --subnet, is no IPv4 network, or has too
// few addresses for the fabric.
func checkSubnet(s string, chips int) error {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p.Masked() != p || p.Bits() > 30 {
		return spec.Usagef("--subnet %q: want an IPv4 network, such as %s", s, Subnet)
	}
	if room := 1<<(32-p.Bits()) - 4; room < chips+1 { // an address for each task; the subnet also needs a network, a broadcast and a gateway address, and an address for the overlay itself
		return spec.Usagef("--subnet %s: the subnet has room for %d containers, but %d chips and a console need %d; choose a larger subnet", s, room, chips, chips+1)
	}
	return nil
}

// CheckStack returns an error of kind [spec.Usage] if a stack does not support an option of the
// user. A subnet with too few addresses is also an error.
func CheckStack(want *spec.Spec, t *topo.Topology, subnet string) error {
	switch {
	case want.Record != "":
		return spec.Usagef("--record: a task of a Swarm may move to another machine and leaves its files behind; leave out --record, or use 'ttfabric compose'")
	case want.KeyLog != "":
		return spec.Usagef("--keylog: a task of a Swarm may move to another machine and leaves its files behind; leave out --keylog, or use 'ttfabric compose'")
	case want.Archive != "" || want.ArchiveMiB != 0:
		return spec.Usagef("--archive: a task of a Swarm may move to another machine and leaves its files behind; leave out --archive and --archive-limit, or use 'ttfabric compose'")
	}
	return checkSubnet(subnet, len(t.Chips))
}

// Stack returns the text of the stack file of a fabric, for 'docker stack deploy'.
func (f *File) Stack() ([]byte, error) {
	m, t, subnet := &f.Spec, f.Topology, f.Subnet
	seeds := composeSeeds(t)
	for i, s := range seeds {
		seeds[i] = strings.Replace(s, "/", "/"+stackSeed, 1)
	}
	args := []string{"node", "--name", m.Name}
	named, text, err := f.topologyArgument()
	if err != nil {
		return nil, err
	}
	args = append(args, named...)
	// A task has an interface to the overlay and an interface to its machine. The subnet
	// selects the interface to the overlay. The address of a seed cannot select the
	// interface, because Swarm's DNS knows a task's name only after the task is healthy.
	args = append(args, "--listen", subnet)
	if m.Auth == spec.None {
		args = append(args, "--trust-network", subnet)
	}
	args = append(args, "--port-base", fmt.Sprint(composePortBase), "--api", "0.0.0.0:"+spec.APIPort, "--token-file", stackSecret,
		"--tile-memory", fmt.Sprintf("%dk", spec.Bytes(f.Memory)/1024*tileShare/100), "--seeds", strings.Join(seeds, ","))
	args = slices.Concat(args, secureArguments(m, t), m.Arguments())
	var b bytes.Buffer
	f.writeStack(&b, args, text)
	if s := secretFiles(m, t, f.Secrets); s != "" {
		b.WriteString("  # " + secretsEnv + ", if set, replaces the folder of these secrets.\n" + s)
	}
	return b.Bytes(), nil
}

const stackHead = `# %s
# One service per chip, for Docker Swarm. Written by 'ttfabric stack'; docker/README.md says what each line is for.
#
#   openssl rand -hex 16 >token
#   docker stack deploy -c THIS NAME
#   docker exec $$(docker ps -qf name=NAME_console) /ttfabric --name %s inspect     on the machine that has the console
#   docker stack rm NAME
#
# TTFABRIC_IMAGE and TTFABRIC_TOKEN_FILE, if set, replace the image and the file of the secret.
version: "3.9"
x-environment: &environment
  GOMEMLIMIT: %dKiB
`

const stackServices = `x-service: &service
  image: "${TTFABRIC_IMAGE:-%s}"
  networks: [fabric]
  secrets: [token]
  read_only: true
  cap_drop: ["ALL"]
  stop_grace_period: 5s
  logging:
    driver: json-file
    options: {max-size: 1m, max-file: "2"}
  deploy: &deploy
    endpoint_mode: dnsrr
    replicas: 1
    restart_policy: {condition: any, delay: 2s}
    update_config: {order: stop-first}
    resources:
      limits: {memory: %s, pids: 128}
x-chip: &chip
  <<: *service
  command: [%s]
  healthcheck:
    test: ["CMD", "/ttfabric", "ready", "--live"]
    interval: %ds
    timeout: 5s
    retries: 3
    start_period: 20s
services:
`

const stackTail = `  %s:
    <<: *service
    command: [%s]
    environment: *environment
    volumes:
      - {type: tmpfs, target: /tmp}
networks:
  fabric:
    driver: overlay
    attachable: true
    driver_opts:
      com.docker.network.driver.mtu: "%d"
    ipam:
      config:
        - subnet: %s
secrets:
  token:
    file: "${TTFABRIC_TOKEN_FILE:-./token}"
`

func (f *File) writeStack(b *bytes.Buffer, args []string, text string) {
	m, t, subnet := &f.Spec, f.Topology, f.Subnet
	name := m.Name
	list := func(args []string) string {
		var out []string
		for _, a := range args {
			out = append(out, quoted(strings.ReplaceAll(a, "$", "$$")))
		}
		return strings.Join(out, ", ")
	}
	fmt.Fprintf(b, strings.ReplaceAll(stackHead, "$$", "$"), t, name, spec.Bytes(f.Memory)/1024*gcShare/100)
	writeTopology(b, text)
	fmt.Fprintf(b, stackServices, f.Image, f.Memory, list(args), minHealth)
	for _, c := range t.Chips {
		fmt.Fprintf(b, "  %s: {<<: *chip, environment: {<<: *environment, TTFABRIC_NODE_CHIP: %s}, labels: {%s: %s, %s: %s}%s}\n",
			ServiceName(c.Node), c.Node, labelStack, quoted(name), labelStackChip, c.Node, secretsKey(m, c.Node, fmt.Sprintf(`, uid: "%d", mode: 0400`, secretsUser), "token"))
	}
	// The console needs only the APIs of some chips of each mesh, because every chip knows
	// the addresses of other chips.
	var apis []string
	for _, s := range composeSeeds(t) {
		n, _, _ := strings.Cut(s, "/")
		id, _ := wire.ParseFabricNodeID(n)
		apis = append(apis, stackSeed+ServiceName(id))
	}
	console := []string{"attach", "--name", name, "--api", strings.Join(apis, ","), "--token-file", stackSecret, "--stay"}
	fmt.Fprintf(b, stackTail, stackConsole, list(console), f.MTU, subnet)
}
