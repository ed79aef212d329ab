package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/wire/capture/wireshark"
)

func newWireshark() *cobra.Command {
	c := &cobra.Command{Use: "wireshark", Short: "Let Wireshark decode TT-link frames and fabric packets"}
	c.AddCommand(newWiresharkInstall(), newWiresharkShow())
	return c
}

type wiresharkFlags struct {
	dir                    string
	uninstall, dry, forced bool
}

func newWiresharkInstall() *cobra.Command {
	var f wiresharkFlags
	c := &cobra.Command{Use: "install", Short: "Install the dissector, the profile and the plugin for live captures", Args: cobra.NoArgs,
		Long: `The command puts three things into your home folder, in the places where Wireshark
4.0 and later looks. The first is a dissector in Lua, which tshark uses too. The
second is a profile 'ttfabric' with columns, colours and buttons. The third is an
extcap plugin, by which Wireshark lists running fabrics and captures their frames.
The plugin calls this program by its path. If you move the program, run the command
again.

Without --force, the command replaces no file that ttfabric did not install, and
keeps your changes of the profile. --uninstall removes the installed files.`,
		Example: "  ttfabric wireshark install\n  ttfabric wireshark install --dry-run\n  ttfabric wireshark install --uninstall",
		RunE:    func(c *cobra.Command, _ []string) error { return f.run(c) }}
	c.Flags().StringVar(&f.dir, "dir", "", "home folder to install into (default: your home folder)")
	c.Flags().BoolVar(&f.uninstall, "uninstall", false, "remove the installed files")
	c.Flags().BoolVar(&f.dry, "dry-run", false, "print what the command would do, and change nothing")
	c.Flags().BoolVar(&f.forced, "force", false, "also replace changed files, and files that ttfabric did not install; with --uninstall: also remove changed files")
	return c
}

func newWiresharkShow() *cobra.Command {
	var f wiresharkFlags
	c := &cobra.Command{Use: "show", Aliases: []string{"list"}, Short: "Show what is installed, and whether your tshark loads the dissector", Args: cobra.NoArgs,
		Example: "  ttfabric wireshark show\n  ttfabric wireshark show -o json",
		RunE:    func(c *cobra.Command, _ []string) error { return f.show(c) }}
	c.Flags().StringVar(&f.dir, "dir", "", "home folder to look into (default: your home folder)")
	return c
}

// place returns the folders in which the user's Wireshark looks for the files, and the
// path of this program. The plugin needs the path because it calls this program.
func (f *wiresharkFlags) place() (*wireshark.Place, string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	p := &wireshark.Place{Home: f.dir}
	if f.dir != "" {
		if p.Home, err = filepath.Abs(f.dir); err != nil {
			return nil, "", err
		}
		if s, err := os.Stat(p.Home); err != nil || !s.IsDir() {
			return nil, "", spec.Usagef("--dir %q: want an existing home folder", f.dir)
		}
		return p, program, nil
	}
	if p, err = wireshark.UserPlace(); err != nil {
		return nil, "", spec.Usagef("%w; name the home folder with --dir", err)
	}
	return p, program, nil
}

func (f *wiresharkFlags) run(c *cobra.Command) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	p, program, err := f.place()
	if err != nil {
		return err
	}
	act := p.Install
	if f.uninstall {
		act = p.Uninstall
	}
	steps, err := act(program, f.forced, f.dry)
	if err != nil {
		return err
	}
	if out == "json" {
		return printJSON(c, steps)
	}
	did, kept := printSteps(c, steps, f.dry)
	talk := c.ErrOrStderr()
	switch {
	case f.dry:
		fmt.Fprintln(talk, "Nothing was changed, because of --dry-run.")
	case f.uninstall && kept > 0:
		fmt.Fprintln(talk, "Files that ttfabric did not install, or that were changed, were kept; see the table.")
	case f.uninstall && did == 0:
		fmt.Fprintln(talk, "Nothing was installed.")
	case f.uninstall:
		fmt.Fprintln(talk, "Start Wireshark again; Wireshark then decodes no TT-link frames any more.")
	default:
		if f.dir == "" {
			said, _ := wireshark.TShark(c.Context())
			fmt.Fprintln(talk, said)
		}
		fmt.Fprintln(talk, "Next: start Wireshark again, choose the profile 'ttfabric' (Edit, Configuration Profiles), or:\n"+
			"  wireshark -C ttfabric FILE\n  tshark -C ttfabric -r FILE -Y ttlink.analysis.retransmission")
	}
	return nil
}

// printSteps prints what the command has done with each file, or would do without
// --dry-run. The result "did" is the number of files that changed or would change. The
// result "kept" is the number of files that the command left alone, because ttfabric did
// not install these files, or because somebody changed them.
func printSteps(c *cobra.Command, steps []wireshark.Step, dry bool) (did, kept int) {
	t := newTable(c, "What", "File", "Was", "Now")
	for _, s := range steps {
		now := s.Done
		switch {
		case now == "":
			now = "unchanged"
		case dry && now != "kept":
			now = "would be " + now
		}
		switch s.Done {
		case "":
		case "kept":
			kept++
		default:
			did++
		}
		t.AppendRow(table.Row{s.What, s.Path, s.State, now})
	}
	t.Render()
	return did, kept
}

// shownWireshark is what 'wireshark show' prints with -o json.
type shownWireshark struct {
	Files  []wireshark.Step `json:"files"`  // state of each file that 'wireshark install' writes
	TShark string           `json:"tshark"` // what a run of tshark showed, for people
	Loads  bool             `json:"loads"`  // whether tshark loads the dissector
}

func (f *wiresharkFlags) show(c *cobra.Command) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	p, program, err := f.place()
	if err != nil {
		return err
	}
	steps, err := p.Look(program)
	if err != nil {
		return err
	}
	said, loads := wireshark.TShark(c.Context())
	if out == "json" {
		return printJSON(c, shownWireshark{steps, said, loads})
	}
	t := newTable(c, "What", "File", "State")
	for _, s := range steps {
		t.AppendRow(table.Row{s.What, s.Path, s.State})
	}
	t.Render()
	fmt.Fprintln(c.ErrOrStderr(), said)
	return nil
}
