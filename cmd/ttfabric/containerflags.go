package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// addContainerOptions adds what containers are like to a command as flags.
func addContainerOptions(c *cobra.Command, o *container.Options) {
	fl := c.Flags()
	fl.StringVar(&o.Image, "image", o.Image, "container image; 'scripts/image' builds it")
	fl.StringVar(&o.Memory, "memory", o.Memory, "memory that one container may take, as the engine writes it")
	fl.IntVar(&o.MTU, "mtu", o.MTU, "MTU of the containers' network, in bytes")
}

// containerFlags are those of 'compose' and 'stack'.
type containerFlags struct {
	spec spec.Spec
	keys container.Keys
	container.Options
}

func (f *containerFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.keys.Gossip, "gossip-key", "", "encrypt gossip: a file with a key, as 'gossip keygen' writes it, or generate")
	c.Flags().StringVar(&f.keys.Folder, "secrets", "", "folder to make for the keys and certificates that containers see (default: that of --file, with the ending .secrets)")
	addContainerOptions(c, &f.Options)
	addOptions(c, &f.spec)
}

// file settles what the file for containers says, and writes the keys that it names.
func (f *containerFlags) file(c *cobra.Command, arg string, t *topo.Topology, path string) (*container.File, error) {
	name, _ := c.Flags().GetString("name")
	s, err := container.Settle(name, t, f.spec, f.Options)
	if err != nil {
		return nil, err
	}
	secrets, err := f.keys.Write(c.Context(), c.InOrStdin(), &s, t, path)
	return &container.File{Spec: s, Topology: t, Named: arg, Options: f.Options, Secrets: secrets}, err
}

// render loads the topology that a command names, and writes what is made of it
// to a file, or to standard output where none is named. told is what is said of the file.
func render(c *cobra.Command, args []string, file string, make func(arg string, t *topo.Topology) (b []byte, told string, err error)) error {
	arg := folder.DefaultTopology
	if len(args) > 0 {
		arg = args[0]
	}
	as, err := format(c)
	if err != nil {
		return err
	}
	t, err := folder.LoadTopology(c.Context(), arg)
	if err != nil {
		return err
	}
	b, told, err := make(arg, t)
	if err != nil {
		return err
	}
	if o, _ := c.Flags().GetString("output"); as == "json" && o == "json" {
		if b, err = container.AsJSON(b); err != nil {
			return err
		}
	}
	if file == "" {
		_, err = c.OutOrStdout().Write(b)
		return err
	}
	if err := folder.WriteOut(file, b); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "Wrote %s, of %s\n", file, told)
	return nil
}
