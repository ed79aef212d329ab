package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

func newCompose() *cobra.Command {
	f := containerFlags{spec: spec.Default(), Options: container.DefaultOptions()}
	var file string
	c := &cobra.Command{
		Use: "compose [TOPOLOGY]", Short: "Write a compose file: one container per chip", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		Long: `The command writes a compose file, which brings a fabric up with one container per
chip. The file works with docker-compose 1.29 and with Compose v2. TOPOLOGY is a
topology as for 'up'. The compose file contains the text of the topology, and needs
no topology file. With -o json, the command writes JSON. 'ttfabric up --runtime
docker' also writes a compose file, and starts the containers at once.

--name is the name of the fabric. When docker-compose brings the fabric up, the
environment variables TTFABRIC_NAME, TTFABRIC_IMAGE and TTFABRIC_MTU replace the
values of --name, --image and --mtu. The commands of ttfabric find the fabric by the
labels of its containers.

With --auth psk, --transport quic or --gossip-key, each container gets its own
keys and certificates as secrets. The command writes the secrets to a folder
(--secrets), not into the compose file. When docker-compose brings the fabric up, the
environment variable TTFABRIC_SECRETS may name another folder.

Chips write recordings, key logs and the archive of events into the fabric's
volume. A key log holds the secrets of QUIC connections, for Wireshark.
'record stop' and 'down' copy recordings to the folder of --record. 'up',
'capture' and 'down' copy key logs to the folder of --keylog. 'events' and 'down'
copy the archive to the folder of --archive.`,
		Example: `  ttfabric compose t3000 -f t3000.yml
  docker-compose -p t3000 -f t3000.yml up -d
  ttfabric inspect
  ttfabric compose cluster_desc.yaml --name lab --mtu 9000 --slots fast -f lab.yml
  ttfabric compose t3000 --auth psk --gossip-key generate -f sealed.yml
  ttfabric pki make t3000 --name lab -d pki
  ttfabric compose t3000 --name lab --transport quic --pki pki -f lab.yml`,
		RunE: func(c *cobra.Command, args []string) error {
			return render(c, args, file, func(arg string, t *topo.Topology) ([]byte, string, error) {
				of, err := f.file(c, arg, t, file)
				if err != nil {
					return nil, "", err
				}
				b, err := of.Compose()
				return b, fmt.Sprintf("%s%s. 'docker-compose -p %s -f %s up -d' brings the fabric up.", topo.Count(len(t.Chips), "container"), f.keys.Told(), container.AsProject(of.Spec.Name), file), err
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	f.add(c)
	return c
}
