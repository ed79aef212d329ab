package main

import (
	"strings"

	"github.com/spf13/cobra"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/picture/still"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/router/topo/draw"
)

func newGraph() *cobra.Command {
	var form, file, by string
	var w still.Wanted
	c := &cobra.Command{
		Use:   "graph [FILE|NAME]",
		Short: "Draw a topology, or the running fabric",
		Long: `The command draws the chips and cables of a topology as a picture (svg), as input for
Graphviz (dot), or as a diagram for Markdown pages (mermaid). No chip needs to run.

Without a topology, the command draws the running fabric. The picture shows the state of
each cable and chip, or with --by load the load of each cable. With --route, a pale line
marks the cables of a route, by the tables that are in force.`,
		Example: `  ttfabric graph t3000 -f t3000.svg
  ttfabric graph spec-l1 --format dot | neato -n2 -Tpng > spec.png
  ttfabric graph cluster_desc.yaml --format mermaid
  ttfabric graph -f now.svg --route M0D4-M0D6
  ttfabric graph mesh:4x4 -f tree.svg --route M0D5-M0D15,multicast
  ttfabric graph -f load.svg --by load`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeTopology,
		RunE: func(c *cobra.Command, args []string) (err error) {
			as, err := format(c)
			if err != nil {
				return err
			}
			if w.Form, err = draw.Choose(form, file); err != nil {
				return spec.AsUsage(err)
			}
			w.Source, w.By, w.Open = strings.Join(args, ""), picture.By(by), func() (*fabric.Fabric, error) { return openFabric(c) }
			name, text, err := still.Draw(c.Context(), w)
			if err != nil {
				return err
			}
			return writeResult(c, as, file, output.Text{Name: name, Format: w.Form.Name}, text)
		},
	}
	c.Flags().StringVar(&form, "format", "", "form of the drawing: "+strings.Join(draw.Names(), ", ")+" (default: the form that belongs to the ending of the name of --file, else svg)")
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	c.Flags().StringVar(&by, "by", "state", "meaning of the cables' colours in the running fabric: state or load")
	c.Flags().StringArrayVar(&w.Routes, "route", nil, "a route to mark, such as M0D0-M0D7 or M0D0-M0D7,plane=1; with ',multicast', the tree to all chips of the rectangle between the two chips; the option may come more than once")
	completeFormat(c, draw.Names()...)
	return c
}
