package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// addContainerOptions adds the options of containers to a command as flags.
func addContainerOptions(c *cobra.Command, o *container.Options) {
	fl := c.Flags()
	fl.StringVar(&o.Image, "image", o.Image, "container image; 'scripts/image' builds the image")
	fl.StringVar(&o.Memory, "memory", o.Memory, "memory limit of each container, in Docker's notation, such as 256m")
	fl.IntVar(&o.MTU, "mtu", o.MTU, "MTU of the containers' network, in bytes")
}

// containerFlags are the flags that 'compose' and 'stack' share.
type containerFlags struct {
	spec spec.Spec
	keys container.Keys
	container.Options
}

func (f *containerFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.keys.Gossip, "gossip-key", "", "file with the key that encrypts gossip, as 'gossip keygen' writes; the value generate makes a new key")
	c.Flags().StringVar(&f.keys.Folder, "secrets", "", "new folder for the keys and certificates of the containers (default: the name of --file with the ending .secrets)")
	addContainerOptions(c, &f.Options)
	addOptions(c, &f.spec)
}

// file returns the content of the compose or stack file, and writes the keys and
// certificates that this content names into a folder. path is the name of the compose
// or stack file.
func (f *containerFlags) file(c *cobra.Command, arg string, t *topo.Topology, path string) (*container.File, error) {
	name, _ := c.Flags().GetString("name")
	s, err := container.Settle(name, t, f.spec, f.Options)
	if err != nil {
		return nil, err
	}
	secrets, err := f.keys.Write(c.Context(), c.InOrStdin(), &s, t, path)
	return &container.File{Spec: s, Topology: t, Named: arg, Options: f.Options, Secrets: secrets}, err
}

// render loads the topology that args names, or the default topology, and calls make. The
// result b of make is a text in YAML. With -o json, render changes the text to JSON. Then
// render writes the text to the file, or to standard output if the argument "file" is
// empty. The result "told" describes the text, for the message about a written file.
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
	fmt.Fprintf(c.ErrOrStderr(), "Wrote %s with %s\n", file, told)
	return nil
}
