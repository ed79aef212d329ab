package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

func newGenerate() *cobra.Command {
	var form, file string
	var secure spec.Security
	c := &cobra.Command{
		Use:   "generate NAME|FILE",
		Short: "Write a topology as a file",
		Long: `generate writes a built-in or generated topology, or one that a file describes,
in the form of ttfabric, which holds everything, or as a cluster descriptor of
tt-umd, which holds one mesh.

In the form of ttfabric a cable may have labels, by which 'netem' and 'link'
name the cable, and an impairment that is in force from the start. An entry of
the list netem impairs all cables that the entry names, as 'up --netem' does. The
file may say for the whole fabric what carries the links and how chips know each
other: --transport and --auth write these two keys, and flags of the same names
overrule the keys where the file is used:

  transport: udp
  auth: psk
  cables:
      - a: M0D0/8
        b: M0D1/0
        labels: [wan]
        netem: delay=1ms,loss=1%
  netem:
      - label:wan,jitter=200us`,
		Example: `  ttfabric generate torus:4x8 -f torus.yaml
  ttfabric generate t3000 --auth psk -f sealed.yaml
  ttfabric generate galaxy --format umd > cluster_desc.yaml
  ttfabric generate t3k_mesh_graph_descriptor.textproto --format umd`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopology,
		RunE: func(c *cobra.Command, args []string) error {
			as, err := format(c)
			if err != nil {
				return err
			}
			t, err := folder.LoadTopology(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := note(secure, t); err != nil {
				return err
			}
			var text []byte
			switch form {
			case "ttfabric":
				text = t.Encode()
			case "umd":
				if text, err = t.EncodeClusterDescriptor(); err != nil {
					return spec.Usagef("%w", err)
				}
			default:
				return spec.Usagef("--format %q: want ttfabric or umd", form)
			}
			if len(text) > topo.MaxFile {
				return fmt.Errorf("%s would be %d bytes as a file; a topology has at most %d", t.Name, len(text), topo.MaxFile)
			}
			return writeResult(c, as, file, map[string]any{"name": t.Name, "format": form}, text)
		},
	}
	c.Flags().StringVar(&form, "format", "ttfabric", "ttfabric or umd (a cluster descriptor of tt-umd)")
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	c.Flags().StringVar(&secure.Transport, "transport", "", "write what carries the links: udp, quic (default: as the file that is read says)")
	c.Flags().StringVar(&secure.Auth, "auth", "", "write how chips know each other: none, psk, mtls (default: as the file that is read says)")
	completeFormat(c, "ttfabric", "umd")
	return c
}

// note writes into a topology what carries the links and how chips know each
// other, as far as the flags say; what they say must go together.
func note(flags spec.Security, t *topo.Topology) error {
	if flags.Transport == "" && flags.Auth == "" {
		return nil
	}
	t.Transport, t.Auth = cmp.Or(flags.Transport, t.Transport), cmp.Or(flags.Auth, t.Auth)
	flags.Settle(t)
	return flags.Check()
}
