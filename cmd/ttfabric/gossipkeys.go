package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/membership/keyring"
	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/node/output"
	"ttfabric/node/output/screen"
)

func newGossipKeygen() *cobra.Command {
	var file string
	var bits int
	c := &cobra.Command{Use: "keygen", Short: "Make a key for encrypted gossip", Args: cobra.NoArgs,
		Long: `The command writes a random key in base64, as 'consul keygen' and 'serf keygen' do.
The key goes to standard output, or to a file that only you can read.`,
		Example: "  ttfabric gossip keygen -f key\n  ttfabric up --gossip-key key",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			k, err := keyring.New(bits / 8)
			if err != nil || bits%8 != 0 {
				return spec.Usagef("--bits %d: want 128, 192 or 256", bits)
			}
			about := output.Key{ID: keyring.ID(k), Bits: bits}
			if file != "" {
				about.File = file
				if err := os.WriteFile(file, []byte(keyring.Text(k)+"\n"), 0o600); err != nil {
					return fmt.Errorf("cannot write the key: %w", err)
				}
				if err := os.Chmod(file, 0o600); err != nil {
					return fmt.Errorf("cannot keep other users from reading the key file %s: %w", file, err)
				}
				fmt.Fprintf(c.ErrOrStderr(), "Wrote key %s to %s.\n", keyring.ID(k), file)
			} else {
				about.Key = keyring.Text(k)
			}
			if f == "json" {
				return printJSON(c, about)
			}
			if file == "" {
				fmt.Fprintln(c.OutOrStdout(), keyring.Text(k))
			}
			return nil
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	c.Flags().IntVar(&bits, "bits", folder.KeyBytes*8, "length of the AES key in bits: 128, 192 or 256")
	return c
}

func newGossipKeys() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "Show and change the keys of encrypted gossip",
		Long: `The commands below 'gossip keys' change the keys of a fabric that was started with
'up --gossip-key'. A change takes three steps: install a new key at all chips, use
the new key, remove the old key. With these steps, all chips can read each other's
gossip at any moment. 'gossip keys rotate' takes all three steps.

The commands also change the key file in the run folder, or the key file that
'compose' gives to containers. Chips that start later read their keys from this
file. If a chip is paused during a change, the chip cannot read any gossip after
'chip resume'. The chip reports the problem in its log and events. 'ttfabric chip
restart' gives the chip the new keys.

A KEY is either the id of a key, which is the first digits of the key's hash, or a
FILE that holds the key.`}
	for _, x := range []struct{ use, short, example string }{
		{"list", "Show which keys the chips have", "  ttfabric gossip keys list"},
		{"install FILE|generate", "Give all chips another key; the chips do not use this key yet", "  ttfabric gossip keys install generate\n  ttfabric gossip keys install key"},
		{"use KEY", "Let all chips encrypt with an installed key", "  ttfabric gossip keys use 3f2a90c1"},
		{"remove KEY", "Remove a key from all chips; the key must not be in use", "  ttfabric gossip keys remove 3f2a90c1"},
		{"rotate", "Install a new key, use the new key, and remove all other keys", "  ttfabric gossip keys rotate"},
	} {
		verb, arg, _ := strings.Cut(x.use, " ")
		force := false
		sub := &cobra.Command{Use: x.use, Short: x.short, Example: x.example, Args: cobra.ExactArgs(len(strings.Fields(arg))),
			RunE: func(c *cobra.Command, args []string) error { return changeKeys(c, verb, args, force) }}
		if verb != "list" && verb != "install" {
			sub.Flags().BoolVar(&force, "force", false, "go on without chips that do not answer; these chips cannot read any gossip until 'ttfabric chip restart'")
		}
		c.AddCommand(sub)
	}
	return c
}

func changeKeys(c *cobra.Command, verb string, args []string, force bool) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	fab, err := openFabric(c)
	if err != nil {
		return err
	}
	k, unlock, err := fab.ChangeKeys(c.Context())
	if err != nil {
		return err
	}
	defer unlock()
	k.Force = force
	var bar *screen.Progress
	last := ""
	k.Progress = func(step string, done, total int) {
		if bar == nil || last != step {
			last = step
			bar = screen.NewProgress(c.ErrOrStderr(), step, total)
		}
		if bar.Set(done); done == total {
			bar.Stop()
		}
	}
	k.Failed = func(step string, err error) { fmt.Fprintf(c.ErrOrStderr(), "%s: %v\n", step, err) }
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	err = changeKey(c, k, verb, arg)
	if f == "json" {
		return errors.Join(printJSON(c, append([]fabric.KeyRow{}, k.Rows...)), err)
	}
	printKeys(c, k)
	return err
}

// changeKey carries out the command below 'gossip keys' that the argument "verb" names.
func changeKey(c *cobra.Command, k *fabric.KeyChange, verb, arg string) error {
	ctx := c.Context()
	switch verb {
	case "list":
		return k.List(ctx)
	case "rotate":
		return k.Rotate(ctx)
	case "install":
		key, err := folder.ReadKey(ctx, c.InOrStdin(), "key", arg)
		if err != nil {
			return err
		}
		return k.Install(ctx, key)
	}
	id, err := keyID(c, k, arg)
	if err != nil {
		return err
	}
	if verb == "use" {
		return k.Use(ctx, id)
	}
	return k.Remove(ctx, id)
}

// keyID returns the id of a key of the fabric. arg is the key's id, the name of a file
// that holds the key, or "-" for the key on stdin. If the fabric does not have the key,
// keyID returns an error.
func keyID(c *cobra.Command, k *fabric.KeyChange, arg string) (string, error) {
	var ids []string
	for _, b := range k.Keys {
		ids = append(ids, keyring.ID(b))
	}
	if slices.Contains(ids, arg) {
		return arg, nil
	}
	if _, err := os.Stat(arg); err == nil || arg == "-" {
		key, err := folder.ReadKey(c.Context(), c.InOrStdin(), "key", arg)
		if err != nil {
			return "", err
		}
		if id := keyring.ID(key); slices.Contains(ids, id) {
			return id, nil
		}
	}
	return "", spec.Usagef("key %q: no such key is installed; want one of the ids %s, or a file that holds one of these keys", arg, strings.Join(ids, ", "))
}

func printKeys(c *cobra.Command, k *fabric.KeyChange) {
	tw := newTable(c, "Chip", "Step", "Key in use", "Others", "Result")
	tw.Least("Others")
	for _, r := range k.Rows {
		result := "ok"
		if r.Error != "" {
			result = r.Error
		}
		used, others := "-", "-"
		if len(r.Keys) > 0 {
			used, others = keyWords(r.Keys[:1]), keyWords(r.Keys[1:])
		}
		tw.AppendRow(table.Row{r.Chip, strings.TrimSpace(r.Action + " " + r.Key), used, others, result})
	}
	tw.Render()
	for _, n := range k.Absent() {
		fmt.Fprintf(c.ErrOrStderr(), "chip %s is not running; at its next start, the chip reads the keys from the run folder\n", n)
	}
	fmt.Fprintf(c.ErrOrStderr(), "Chips that start after this moment use key %s.\n", keyring.ID(k.Keys[0]))
}

// keyWords returns the ids and lengths of keys in words, or "-" if there are no keys.
func keyWords(ks []api.KeyView) string {
	var out []string
	for _, k := range ks {
		out = append(out, fmt.Sprintf("%s (AES-%d)", k.ID, k.Bits))
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, " ")
}
