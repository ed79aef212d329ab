package main

import (
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/router/topo/draw"
)

func newGraph() *cobra.Command {
	var form, file string
	names := strings.Join(draw.Names(), ", ")
	c := &cobra.Command{
		Use:   "graph FILE|NAME",
		Short: "Draw a topology",
		Long: `The command draws the chips and cables of a topology as a picture (svg), as input for
Graphviz (dot), or as a diagram for Markdown pages (mermaid). No chip needs to run.`,
		Example: `  ttfabric graph t3000 -f t3000.svg
  ttfabric graph spec-l1 --format dot | neato -n2 -Tpng > spec.png
  ttfabric graph cluster_desc.yaml --format mermaid`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTopology,
		RunE: func(c *cobra.Command, args []string) error {
			as, err := format(c)
			if err != nil {
				return err
			}
			f, ok := draw.ByName(form)
			if file != "" && !c.Flags().Changed("format") {
				if f, ok = draw.ByEnding(file); !ok {
					return spec.Usagef("--file %s: no drawing format has files with this ending; want a name that ends with one of %s, or choose a format with --format", file, strings.Join(draw.Endings(), ", "))
				}
			}
			if !ok {
				return spec.Usagef("--format %q: want %s", form, names)
			}
			t, err := folder.LoadTopology(c.Context(), args[0])
			if err != nil {
				return err
			}
			if len(t.Chips) > draw.MaxChips {
				return spec.Usagef("%s has %d chips, but the command draws at most %d chips; 'ttfabric validate' prints figures of a large topology", t.Name, len(t.Chips), draw.MaxChips)
			}
			return writeResult(c, as, file, output.Text{Name: t.Name, Format: f.Name}, f.Draw(t))
		},
	}
	c.Flags().StringVar(&form, "format", "svg", "form of the drawing: "+names+" (default with --file: the form that belongs to the ending of the name)")
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	completeFormat(c, draw.Names()...)
	return c
}
