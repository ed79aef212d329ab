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
			return render(c, args, file, func(arg string, t *topo.Topology) ([]byte, string, error) {
				of, err := f.file(c, arg, t, file)
				if err != nil {
					return nil, "", err
				}
				b, err := of.Compose()
				return b, fmt.Sprintf("%s%s. 'docker-compose -p %s -f %s up -d' brings it up.", topo.Count(len(t.Chips), "container"), f.keys.Told(), container.AsProject(of.Spec.Name), file), err
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	f.add(c)
	return c
}
