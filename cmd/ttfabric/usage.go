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

// onlyGroups is the annotation of a command that does nothing but hold others.
const onlyGroups = "onlyGroups"

// similar is how many letters two names of commands may differ in to be offered for each other.
const similar = 2

// refuseUnknown lets commands that only hold others refuse a name that none of
// them has, as the program does; alone they print their help.
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

// completeFabrics offers the fabrics that run.
func completeFabrics(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	for _, d := range folder.All() {
		if spec.CheckName(d.Name()) == nil {
			names = append(names, d.Name())
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// plainFlagError says what a flag wants, where the library says which function could not read it.
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

// watchedOutput is standard output that remembers what could not be written: tables and fmt do not tell.
type watchedOutput struct {
	*os.File
	mu  sync.Mutex
	err error // the first
}

func (o *watchedOutput) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if err != nil && !errors.Is(err, syscall.EPIPE) { // whoever closed the pipe has seen enough
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
