package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// What a stack has that a compose file has not.
const (
	stackSubnet  = "10.213.0.0/16"      // of the overlay: the usual /24 ends at 252 addresses (moby issue 31019)
	stackSecret  = "/run/secrets/token" // where Swarm puts the secret of that name
	stackConsole = "console"            // the service from which commands steer the others
	// Labels of its containers: others than compose's, whose commands would take them for containers of this machine.
	labelStack     = "ttfabric.stack"
	labelStackChip = "ttfabric.stack.chip"
	stackSeed      = "tasks." // before a service's name: the addresses of its tasks, as Swarm's DNS tells them
)

// checkSubnet refuses what has no room for a fabric.
func checkSubnet(s string, chips int) error {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() || p.Masked() != p || p.Bits() > 30 {
		return spec.Usagef("--subnet %q: want a network of IPv4, such as %s", s, stackSubnet)
	}
	if room := 1<<(32-p.Bits()) - 4; room < chips+1 { // network, broadcast, gateway and the overlay's own end
		return spec.Usagef("--subnet %s: has room for %d containers; %d chips and a console need more", s, room, chips)
	}
	return nil
}

func newStack() *cobra.Command {
	var f composeFlags
	var fab fabricFlags
	var keys keyFlags
	var file, subnet string
	c := &cobra.Command{
		Use: "stack [TOPOLOGY]", Short: "Write a stack file for Docker Swarm: one service per chip", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		Long: `stack writes a file for 'docker stack deploy' that brings a fabric up on the
machines of a Swarm, with one service of one task per chip, on an overlay of its
own. TOPOLOGY is what 'up' takes; a file's text goes into the stack file.

The overlay has a subnet of /16 and no virtual addresses (dnsrr): neither the
number of addresses nor the balancer bounds the number of chips. --mtu is that of
the network between the machines; VXLAN takes 50 bytes of it. The token of the
APIs is a secret, from the file "token", or the one that the environment variable
TTFABRIC_TOKEN_FILE names.

Swarm publishes no port of such a service on 127.0.0.1 alone, so none is
published. Commands run in the service "console", on the overlay, which attaches
to the chips: see the example. A task counts as healthy, and is in Swarm's DNS, as
soon as its process runs: if it had to have its links up, none could find another.

With --auth psk, --transport quic or --gossip-key each service gets its own keys
and certificates as secrets, from a folder that stack makes for them (--secrets)
on the machine that deploys. A secret of a Swarm is not changed: for other keys
of gossip, deploy anew.

What a Swarm cannot say is left out: no-new-privileges (the engine's
/etc/docker/daemon.json has it for all), the archive of events, and 'chip kill'
and the like, for which 'docker service scale NAME_m0d3=0' and '=1' stand.`,
		Example: `  ttfabric stack t3000 -f stack.yml
  openssl rand -hex 16 >token
  docker stack deploy -c stack.yml lab
  docker exec $(docker ps -qf name=lab_console) /ttfabric traffic all-to-all
  docker stack rm lab
  ttfabric stack t3000 --auth psk --gossip-key generate -f sealed.yml`,
		RunE: func(c *cobra.Command, args []string) error {
			name, _ := c.Flags().GetString("name")
			return render(c, args, file, func(arg string, t *topo.Topology) ([]byte, string, error) {
				b, err := stackFile(name, arg, subnet, t, fab, f, func(m *spec.Spec) (string, error) { return keys.write(c, m, t, &fab.secure, file) })
				return b, fmt.Sprintf("%s and a console%s. 'openssl rand -hex 16 >token; docker stack deploy -c %s %s' brings it up.", topo.Count(len(t.Chips), "service"), keys.told(), file, name), err
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	c.Flags().StringVar(&subnet, "subnet", stackSubnet, "subnet of the overlay, where the machines' networks don't overlap with it")
	keys.add(c)
	f.add(c)
	fab.add(c)
	return c
}

// stackFile renders the stack file of a fabric; the arguments are those of composeFile.
func stackFile(name, arg, subnet string, t *topo.Topology, fab fabricFlags, f composeFlags, share func(*spec.Spec) (string, error)) ([]byte, error) {
	if fab.record.dir != "" {
		return nil, spec.Usagef("--record: a task of a Swarm moves from machine to machine and leaves its files behind; 'ttfabric compose' records")
	}
	if fab.secure.keylog != "" {
		return nil, spec.Usagef("--keylog: a task of a Swarm moves from machine to machine and leaves its files behind; 'ttfabric compose' logs")
	}
	if fab.archive != (archiveFlags{}) {
		return nil, spec.Usagef("--archive: a task of a Swarm moves from machine to machine and leaves its files behind")
	}
	if err := checkSubnet(subnet, len(t.Chips)); err != nil {
		return nil, err
	}
	m, err := fab.contained(name, t, &f)
	if err != nil {
		return nil, err
	}
	seeds := composeSeeds(t)
	for i, s := range seeds {
		seeds[i] = strings.Replace(s, "/", "/"+stackSeed, 1)
	}
	args := []string{"node", "--name", name}
	var text string
	if _, err := os.Stat(arg); err != nil {
		args = append(args, "--topology", arg)
	} else if text = string(t.Encode()); len(text) > maxEnvironment {
		return nil, spec.Topologyf("%s: its text takes %d bytes; an environment variable, in which containers get it, takes %d", arg, len(text), maxEnvironment)
	}
	folder, err := share(&m)
	if err != nil {
		return nil, err
	}
	// By the network, since a task has another interface too, to its machine. Not by the way to a seed: no name is known before tasks are healthy.
	args = append(args, "--listen", subnet)
	if m.Auth == spec.None {
		args = append(args, "--trust-network", subnet)
	}
	args = append(args, "--port-base", fmt.Sprint(composePortBase), "--api", "0.0.0.0:"+composeAPI, "--token-file", stackSecret,
		"--tile-memory", fmt.Sprintf("%dk", bytesOf(f.memory)/1024*tileShare/100), "--seeds", strings.Join(seeds, ","))
	args = slices.Concat(args, secureArguments(&m, t), fab.arguments())
	var b bytes.Buffer
	writeStack(&b, &m, subnet, t, args, text, f)
	if s := secretFiles(&m, t, folder); s != "" {
		b.WriteString("  # " + secretsEnv + ", where it is set, replaces the folder of these.\n" + s)
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
# TTFABRIC_IMAGE and TTFABRIC_TOKEN_FILE, where set, replace the image and the file of the secret.
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

func writeStack(b *bytes.Buffer, m *spec.Spec, subnet string, t *topo.Topology, args []string, text string, f composeFlags) {
	name := m.Name
	list := func(args []string) string {
		var out []string
		for _, a := range args {
			out = append(out, quoted(strings.ReplaceAll(a, "$", "$$")))
		}
		return strings.Join(out, ", ")
	}
	fmt.Fprintf(b, strings.ReplaceAll(stackHead, "$$", "$"), t, name, bytesOf(f.memory)/1024*gcShare/100)
	if text != "" {
		fmt.Fprintf(b, "  %s: |\n", topologyEnv)
		for line := range strings.Lines(text) {
			fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(strings.TrimRight(line, "\n"), "$", "$$"))
		}
	}
	fmt.Fprintf(b, stackServices, f.image, f.memory, list(args), minHealth)
	for _, c := range t.Chips {
		fmt.Fprintf(b, "  %s: {<<: *chip, environment: {<<: *environment, TTFABRIC_NODE_CHIP: %s}, labels: {%s: %s, %s: %s}%s}\n",
			serviceName(c.Node), c.Node, labelStack, quoted(name), labelStackChip, c.Node, secretsKey(m, c.Node, fmt.Sprintf(`, uid: "%d", mode: 0400`, secretsUser), "token"))
	}
	// Any chip will do, so the console asks some of each mesh.
	var apis []string
	for _, s := range composeSeeds(t) {
		n, _, _ := strings.Cut(s, "/")
		id, _ := wire.ParseFabricNodeID(n)
		apis = append(apis, stackSeed+serviceName(id))
	}
	console := []string{"attach", "--name", name, "--api", strings.Join(apis, ","), "--token-file", stackSecret, "--stay"}
	fmt.Fprintf(b, stackTail, stackConsole, list(console), f.mtu, subnet)
}
