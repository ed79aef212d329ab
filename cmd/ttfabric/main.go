// Command ttfabric brings up a live TT-Fabric with one process per chip, and
// steers the running fabric. This package defines the subcommands and their flags,
// and prints the results. The packages under node and router do the work.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"ttfabric/node/fabric"
	"ttfabric/node/fabric/spec"

	"github.com/spf13/cobra"
)

func main() {
	fabric.ServesChips() // this program can run chips, with its command 'ttfabric node'
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	go insist(ctx, again, func() {
		fmt.Fprintln(os.Stderr, "ttfabric: ended at once, without cleaning up")
		os.Exit(exitSignal)
	})
	root := newRoot()
	root.SetArgs(extcapCall(os.Args))
	out := &watchedOutput{File: os.Stdout}
	root.SetOut(out)
	err := cmp.Or(root.ExecuteContext(ctx), out.failure())
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(report(err, interrupted))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ttfabric",
		Short: "A live, networked emulator of Tenstorrent's TT-Fabric",
		Long: `ttfabric emulates a TT-Fabric of Tenstorrent. Each chip is a process, and each
ethernet port of a chip is a UDP or QUIC socket. ttfabric brings such a fabric up,
sends data through the fabric, injects faults, and shows what happens.

An environment variable can give the value of a flag. For example, TTFABRIC_NAME
gives the value of --name, and TTFABRIC_UP_PROFILE gives the value of 'up --profile'.
If the command line has the flag too, the command line overrules the variable.

Exit codes: 0 ok, 1 failed, 2 usage, 3 topology invalid, 4 not ready in time,
5 assertion failed, 130 interrupted.`,
		Example: `  ttfabric up                      the built-in T3000, eight chips
  ttfabric up mesh:4x8 -d          32 chips, in the background
  ttfabric traffic all-to-all      verified data between all pairs
  ttfabric down                    stop and clean up`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version(),
	}
	root.PersistentFlags().StringP("name", "n", "default", "name of the fabric")
	root.PersistentFlags().StringP("output", "o", "table", "output format: table, wide (a table with all columns, also if the terminal is narrower), json or yaml")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	_ = root.RegisterFlagCompletionFunc("name", completeFabrics)
	root.PersistentPreRunE = fromEnvironment
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return spec.Usagef("%w\nSee '%s --help'", plainFlagError(err), c.CommandPath())
	})
	for _, g := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(), newSchema())
	for _, c := range root.Commands() {
		refuseUnknown(c)
		wrapArgs(c)
		completeChips(c)
	}
	refuseUnknown(root)
	wrapArgsOf(root)
	completeValues(root, flagValues())
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .Annotations."+onlyGroups+")}}", 1))
	return root
}

// commandGroup is a paragraph of 'ttfabric --help'.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

func commandGroups() []commandGroup {
	return []commandGroup{
		{"A fabric:", []*cobra.Command{newUp(), newDown(), newLs(), newInspect(), newCabling(), newAttach(), newChip(), newProfile()}},
		{"Topologies and files, without a running fabric:", []*cobra.Command{newValidate(), newMap(), newRoutes(), newGraph(), newGenerate(), newCompose(), newStack(), newPKI(), newDoctor()}},
		{"Data:", []*cobra.Command{newRun(), newPing(), newMem(), newSocket(), newTraffic(), newBench(), newTrace(), newCheckpoint(), newHost()}},
		{"Faults and routing:", []*cobra.Command{newNetem(), newLink(), newRouter(), newPartition(), newHeal(), newGossip(), newReroute(), newRemove(), newRestore(), newScenario()}},
		{"What happened:", []*cobra.Command{newDashboard(), newTop(), newEvents(), newJob(), newMailbox(), newCapture(), newWireshark(), newRecord(), newReplay(), newSnapshot(), newModel()}},
		{"Called by other programs:", []*cobra.Command{newNode(), newReady(), newExtcap()}},
	}
}

// completeChips lets the shell complete names of chips, for c and each command below
// c. The usage line of a command says which arguments are chips.
func completeChips(c *cobra.Command) {
	words := strings.Fields(c.Use)[1:]
	if slices.ContainsFunc(words, asksForChip) {
		c.ValidArgsFunction = func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			i := len(args)
			if last := len(words) - 1; i > last && strings.HasSuffix(words[last], "...") {
				i = last
			}
			if i >= len(words) || !asksForChip(words[i]) {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return chipNames(c), cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, sub := range c.Commands() {
		completeChips(sub)
	}
}

func asksForChip(word string) bool {
	return slices.Contains([]string{"CHIP", "SRC", "DST"}, strings.Trim(word, "[]."))
}

// wrapArgs turns errors about the arguments of c, and of all commands below c, into
// usage errors.
func wrapArgs(c *cobra.Command) {
	wrapArgsOf(c)
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

func wrapArgsOf(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return spec.Usagef("%w\nSee '%s --help'", err, c.CommandPath())
			}
			// An empty argument usually comes from a script in which a variable has no value. Only the
			// argument TEXT may be empty.
			if i := slices.Index(args, ""); i >= 0 && !(i == 2 && strings.HasSuffix(c.Use, "[TEXT]")) {
				return spec.Usagef("argument %d of '%s' is empty; want a name or value, see '%s --help'", i+1, c.CommandPath(), c.CommandPath())
			}
			return nil
		}
	}
}
