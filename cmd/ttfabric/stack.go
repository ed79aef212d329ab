package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

func newStack() *cobra.Command {
	f := containerFlags{spec: spec.Default(), Options: container.DefaultOptions()}
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
			return render(c, args, file, func(arg string, t *topo.Topology) ([]byte, string, error) {
				if err := container.CheckStack(&f.spec, t, subnet); err != nil {
					return nil, "", err
				}
				of, err := f.file(c, arg, t, file)
				if err != nil {
					return nil, "", err
				}
				of.Subnet = subnet
				b, err := of.Stack()
				return b, fmt.Sprintf("%s and a console%s. 'openssl rand -hex 16 >token; docker stack deploy -c %s %s' brings it up.", topo.Count(len(t.Chips), "service"), f.keys.Told(), file, of.Spec.Name), err
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	c.Flags().StringVar(&subnet, "subnet", container.Subnet, "subnet of the overlay, where the machines' networks don't overlap with it")
	f.add(c)
	return c
}
