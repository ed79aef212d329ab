package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
)

func newProfile() *cobra.Command {
	var kind, file string
	var d time.Duration
	c := &cobra.Command{
		Use:   "profile CHIP",
		Short: "Take a CPU or memory profile of a chip's process",
		Long: `The command takes a profile of one chip's running process, and writes the profile
to a file for 'go tool pprof'.`,
		Example: `  ttfabric profile M0D3
  ttfabric profile M0D3 --kind allocs --file allocs.pprof
  go tool pprof -top M0D3-cpu.pprof`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if d <= 0 || d > api.MaxProfile {
				return spec.Usagef("--for %v: want more than 0, and at most %v", d, api.MaxProfile)
			}
			if !slices.Contains(api.ProfileKinds, kind) {
				return spec.Usagef("--kind %q: want one of %s", kind, strings.Join(api.ProfileKinds, ", "))
			}
			cl, err := clientArg(c, args[0])
			if err != nil {
				return err
			}
			n := cl.Self()
			if file == "" {
				file = fmt.Sprintf("%s-%s.pprof", n, kind)
			}
			if kind == "cpu" {
				fmt.Fprintf(c.ErrOrStderr(), "Profiling chip %s for %v.\n", n, d)
			}
			var b bytes.Buffer
			if err := cl.Profile(c.Context(), kind, d, &b); err != nil {
				return err
			}
			if err := folder.WriteOut(file, b.Bytes()); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s\n", file)
			fmt.Fprintf(c.ErrOrStderr(), "'go tool pprof -top %s' shows the profile.\n", file)
			return nil
		},
	}
	c.Flags().StringVar(&kind, "kind", "cpu", "kind of profile: "+strings.Join(api.ProfileKinds, ", "))
	c.Flags().DurationVar(&d, "for", 5*time.Second, "with --kind cpu: duration of the profile")
	c.Flags().StringVar(&file, "file", "", "file to write the profile to (default CHIP-KIND.pprof)")
	return c
}
