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
		Long: `The command writes a file for 'docker stack deploy', which brings a fabric up on the
machines of a Swarm. Each chip is a service with one task. The services share an
overlay network, which no other service uses. TOPOLOGY is a topology as for 'up'. If
TOPOLOGY is a file, the stack file contains that file's topology.

The overlay has a subnet of /16 and no virtual addresses (dnsrr). So neither the
addresses nor the load balancer limits the number of chips. --mtu is the MTU of the
network between the machines; VXLAN takes 50 bytes of each packet. The token of the
chips' APIs is a secret from the file "token", or from the file that the
environment variable TTFABRIC_TOKEN_FILE names.

The stack publishes no port. If a service has no virtual address, Swarm cannot limit
a published port to 127.0.0.1. Commands run in the service "console" on the overlay,
as the example shows. This service attaches to the chips. Swarm's DNS has only healthy
tasks, and chips need this DNS to find each other before their links can come up. A
task is therefore healthy as soon as its process runs.

With --auth psk, --transport quic or --gossip-key, each service gets its own keys
and certificates as secrets. The command writes the secrets to a folder (--secrets)
on the machine that deploys. A Swarm cannot change a secret. To change the gossip
keys, deploy the stack again.

Containers of a compose file have three things that a stack lacks. The first is the
setting no-new-privileges. The engine's /etc/docker/daemon.json can set it for all
containers. The second is the archive of events. The third is commands such as
'chip kill'. Instead, 'docker service scale NAME_m0d3=0' stops chip M0D3, and
'docker service scale NAME_m0d3=1' starts the chip again.`,
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
				return b, fmt.Sprintf("%s and a console%s. 'openssl rand -hex 16 >token; docker stack deploy -c %s %s' brings the fabric up.", topo.Count(len(t.Chips), "service"), f.keys.Told(), file, of.Spec.Name), err
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	c.Flags().StringVar(&subnet, "subnet", container.Subnet, "subnet of the overlay; the subnet must not overlap with the machines' networks")
	f.add(c)
	return c
}
