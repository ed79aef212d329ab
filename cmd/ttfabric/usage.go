package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"

	"github.com/spf13/cobra"
)

// onlyGroups is the annotation of a command that only groups other commands.
const onlyGroups = "onlyGroups"

// similar is the largest number of letters by which a mistyped command may differ from
// a suggested command.
const similar = 2

// refuseUnknown sets the action of each command that only groups other commands, for c and all
// commands below c. Without an argument, a command that only groups others prints its help. If the
// argument is not the name of a subcommand, the command returns an error.
func refuseUnknown(c *cobra.Command) {
	for _, sub := range c.Commands() {
		refuseUnknown(sub)
	}
	if !c.HasSubCommands() || c.Runnable() {
		return
	}
	c.Annotations = map[string]string{onlyGroups: "true"}
	c.SuggestionsMinimumDistance = similar
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), hint)
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// completeFabrics returns the names of the fabrics of this user that have a run folder,
// for shell completion.
func completeFabrics(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	dirs, _ := folder.All() // completion shows no errors
	for _, d := range dirs {
		if spec.CheckName(d.Name()) == nil {
			names = append(names, d.Name())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// plainFlagError rewrites an error about a flag's value. The error of the flag library
// names a parsing function. The new error names the kind of value that the flag wants, or
// says that the number is too large. plainFlagError returns other errors unchanged.
func plainFlagError(err error) error {
	var n *strconv.NumError
	if !errors.As(err, &n) {
		return err
	}
	want := "want a number"
	switch {
	case errors.Is(n.Err, strconv.ErrRange):
		want = "the number is too large"
	case n.Func == "ParseInt":
		want = "want a whole number"
	case n.Func == "ParseUint":
		want = "want a whole number, 0 or more"
	case n.Func == "ParseBool":
		want = "want true or false"
	}
	return errors.New(strings.Replace(err.Error(), n.Error(), want, 1))
}

// watchedOutput is standard output that remembers the first error of writing. Commands
// ignore the errors that the functions of package fmt return. So main asks watchedOutput
// for an error at the end.
type watchedOutput struct {
	*os.File
	mu  sync.Mutex
	err error // first error of writing
}

func (o *watchedOutput) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if err != nil && !errors.Is(err, syscall.EPIPE) { // EPIPE is no error: the reader closed the pipe, and needs no more output
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

func (o *watchedOutput) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
