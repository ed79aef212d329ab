package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/router/topo"
)

func newGenerate() *cobra.Command {
	var form, file string
	var secure spec.Security
	c := &cobra.Command{
		Use:   "generate NAME|FILE",
		Short: "Write a topology as a file",
		Long: `The command writes a topology to a file: a built-in or generated topology, or the
topology of another file. A file in the form "ttfabric" holds the whole topology. A
file in the form "umd" is a cluster descriptor of tt-umd, which holds one mesh.

In the form "ttfabric" a cable may have labels. 'netem' and 'link' can name cables
by their labels. A cable may also have an impairment that is in force from the
start. Each entry of the list "netem" impairs all cables that the entry names, as
'up --netem' does. The key "transport" says what carries the links, and the key
"auth" says how chips authenticate each other. --transport and --auth write these
two keys. When another command uses the file, the flags --transport and --auth of
that command overrule the keys. An example of these parts of a file:

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
				return fmt.Errorf("topology %s: the file would have %d bytes; want a smaller topology, with a file of at most %d bytes", t.Name, len(text), topo.MaxFile)
			}
			return writeResult(c, as, file, output.Text{Name: t.Name, Format: form}, text)
		},
	}
	c.Flags().StringVar(&form, "format", "ttfabric", "form of the file: ttfabric, or umd (a cluster descriptor of tt-umd)")
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	c.Flags().StringVar(&secure.Transport, "transport", "", "write into the file what carries the links: udp or quic (default: the value in the file that the command reads)")
	c.Flags().StringVar(&secure.Auth, "auth", "", "write into the file how chips authenticate each other: none, psk or mtls (default: the value in the file that the command reads)")
	completeFormat(c, "ttfabric", "umd")
	return c
}

// note writes the values of --transport and --auth into a topology. If a flag is empty,
// the topology keeps its own value. If a value is unknown, or if the two values exclude
// each other, note returns an error. If both flags are empty, note checks nothing.
func note(flags spec.Security, t *topo.Topology) error {
	if flags.Transport == "" && flags.Auth == "" {
		return nil
	}
	t.Transport, t.Auth = cmp.Or(flags.Transport, t.Transport), cmp.Or(flags.Auth, t.Auth)
	flags.Settle(t)
	return flags.Check()
}
