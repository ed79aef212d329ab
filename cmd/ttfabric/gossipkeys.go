package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/membership/gossip"
	"ttfabric/node/admin/api"
	"ttfabric/wire"
)

func newGossipKeygen() *cobra.Command {
	var file string
	var bits int
	c := &cobra.Command{Use: "keygen", Short: "Make a key for encrypted gossip", Args: cobra.NoArgs,
		Long:    "keygen writes a random key in base64, as 'consul keygen' and 'serf keygen' do, to standard output or to a file that only you can read.",
		Example: "  ttfabric gossip keygen -f key\n  ttfabric up --gossip-key key",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			k, err := gossip.NewKey(bits / 8)
			if err != nil || bits%8 != 0 {
				return coded(exitUsage, "--bits %d: want 128, 192 or 256", bits)
			}
			about := map[string]any{"id": gossip.KeyID(k), "bits": bits}
			if file != "" {
				about["file"] = file
				if err := os.WriteFile(file, []byte(gossip.KeyText(k)+"\n"), 0o600); err != nil {
					return fmt.Errorf("cannot write the key: %w", err)
				}
				if err := os.Chmod(file, 0o600); err != nil {
					return fmt.Errorf("cannot keep the key to you: %w", err)
				}
				fmt.Fprintf(c.ErrOrStderr(), "Wrote key %s to %s.\n", gossip.KeyID(k), file)
			} else {
				about["key"] = gossip.KeyText(k)
			}
			if f == "json" {
				return printJSON(c, about)
			}
			if file == "" {
				fmt.Fprintln(c.OutOrStdout(), gossip.KeyText(k))
			}
			return nil
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "file to write (default: standard output)")
	c.Flags().IntVar(&bits, "bits", defaultKeyBytes*8, "128, 192 or 256, for AES")
	return c
}

func newGossipKeys() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "Show and change the keys of encrypted gossip",
		Long: `keys changes the keys of a fabric that was started with 'up --gossip-key', in
three steps, so that no chip is lost on the way: install a new key at all chips,
use it, remove the old one. 'keys rotate' does all three. Chips that are started
later have the keys of the run folder, or containers the file that compose
gives them, which are changed too; one that was paused through a change can
read nothing when it is resumed, says so in its log and events, and has the
keys after 'ttfabric chip restart'.

A key is named by its id, the first digits of its hash, or by a file that holds it.`}
	for _, x := range []struct{ use, short, example string }{
		{"list", "Show which keys the chips have", "  ttfabric gossip keys list"},
		{"install FILE|generate", "Give all chips another key, without using it yet", "  ttfabric gossip keys install generate\n  ttfabric gossip keys install key"},
		{"use KEY", "Let all chips encrypt with a key that is installed", "  ttfabric gossip keys use 3f2a90c1"},
		{"remove KEY", "Take a key that is not in use away from all chips", "  ttfabric gossip keys remove 3f2a90c1"},
		{"rotate", "Install a new key, use it, and remove all others", "  ttfabric gossip keys rotate"},
	} {
		verb, arg, _ := strings.Cut(x.use, " ")
		force := false
		sub := &cobra.Command{Use: x.use, Short: x.short, Example: x.example, Args: cobra.ExactArgs(len(strings.Fields(arg))),
			RunE: func(c *cobra.Command, args []string) error { return changeKeys(c, verb, args, force) }}
		if verb != "list" && verb != "install" {
			sub.Flags().BoolVar(&force, "force", false, "go on without chips that do not answer: they will be able to read nothing until 'ttfabric chip restart'")
		}
		c.AddCommand(sub)
	}
	return c
}

// keyChange changes the keys of one fabric.
type keyChange struct {
	c     *cobra.Command
	dir   runDir
	mesh  meshFile
	chips *chipSet
	keys  [][]byte // of the run folder
	force bool
	rows  []keyRow
}

// keyRow is what one chip did.
type keyRow struct {
	Chip   wire.FabricNodeID `json:"chip"`
	Action string            `json:"action"`
	Key    string            `json:"key,omitempty"`
	Keys   []api.KeyView     `json:"keys"`
	Error  string            `json:"error,omitempty"`
}

func changeKeys(c *cobra.Command, verb string, args []string, force bool) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	dir, err := dirOf(c)
	if err != nil {
		return err
	}
	m, _, _, err := dir.mesh()
	if err != nil {
		return err
	}
	if m.Runtime == runtimeElsewhere {
		return coded(exitUsage, "fabric %q is attached: its chips have their keys from 'node --gossip-key' where they run, and a chip that is started again would have the old ones; 'ttfabric gossip show' says which key each uses", m.Name)
	}
	if !m.Keyed {
		return fmt.Errorf("the gossip of fabric %q is not encrypted; 'ttfabric up --gossip-key generate' starts one whose is", m.Name)
	}
	ctx, cancel := context.WithTimeout(c.Context(), startTime)
	defer cancel()
	unlock, err := lockFolder(ctx, string(dir)) // no chip is to start in between with half of the change
	if err != nil {
		return err
	}
	defer unlock()
	k := &keyChange{c: c, dir: dir, mesh: m, force: force}
	if k.keys, err = gossipKeys(m.keysPath(dir)); err != nil {
		return err
	}
	if k.chips, err = openChips(dir); err != nil {
		return err
	}
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	err = k.do(verb, arg)
	if f == "json" {
		return errors.Join(printJSON(c, append([]keyRow{}, k.rows...)), err)
	}
	k.print()
	return err
}

func (k *keyChange) do(verb, arg string) error {
	switch verb {
	case "list":
		return k.tell("list", "", func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
			ks, err := cl.GossipKeys(ctx)
			if err == nil {
				err = k.differs(cl.Self(), ks)
			}
			return ks, err
		})
	case "install":
		key, err := readKey(k.c, "key", arg)
		if err != nil {
			return err
		}
		return k.install(key)
	case "rotate":
		return k.rotate()
	}
	id, err := k.id(arg)
	if err != nil {
		return err
	}
	if verb == "use" {
		return k.use(id)
	}
	return k.remove(id)
}

// id finds a key of the run folder by its id or its file.
func (k *keyChange) id(arg string) (string, error) {
	var ids []string
	for _, b := range k.keys {
		ids = append(ids, gossip.KeyID(b))
	}
	if slices.Contains(ids, arg) {
		return arg, nil
	}
	if _, err := os.Stat(arg); err == nil || arg == "-" {
		key, err := readKey(k.c, "key", arg)
		if err != nil {
			return "", err
		}
		if id := gossip.KeyID(key); slices.Contains(ids, id) {
			return id, nil
		}
	}
	return "", coded(exitUsage, "no such key is installed: want one of %s, or a file that holds it", strings.Join(ids, ", "))
}

// write keeps the keys for chips that start later.
func (k *keyChange) write() error {
	if k.mesh.GossipKeys != "" { // of containers, whose file has the mode that they need
		return writeFileAs(k.mesh.GossipKeys, keyList(k.keys), secretMode)
	}
	if err := writeFile(k.dir.path(keysFile), keyList(k.keys)); err != nil || k.mesh.Runtime != runtimeDocker {
		return err
	}
	return k.dir.share(&k.mesh, k.chips.t)
}

func (k *keyChange) install(key []byte) error {
	id := gossip.KeyID(key)
	if !slices.ContainsFunc(k.keys, func(b []byte) bool { return gossip.KeyID(b) == id }) {
		if len(k.keys) >= gossip.MaxKeys {
			return fmt.Errorf("%d gossip keys are installed, as many as there may be; 'ttfabric gossip keys remove' takes one away", len(k.keys))
		}
		k.keys = append(k.keys, key)
	}
	if err := k.write(); err != nil { // a chip that starts later is to have it, too
		return err
	}
	return k.tell("install", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "install", Key: key})
	})
}

// use turns to another key, if all chips that run can read what is encrypted with it.
func (k *keyChange) use(id string) error {
	err := k.tell("ask", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		ks, err := cl.GossipKeys(ctx)
		if err == nil && !slices.ContainsFunc(ks, func(v api.KeyView) bool { return v.ID == id }) {
			err = fmt.Errorf("chip %s does not have key %s; install it again", cl.Self(), id)
		}
		return ks, err
	})
	if err != nil && !k.force {
		return fmt.Errorf("key %s is not used yet: %w", id, err)
	}
	k.rows = nil
	i := slices.IndexFunc(k.keys, func(b []byte) bool { return gossip.KeyID(b) == id })
	k.keys = slices.Concat(k.keys[i:i+1], k.keys[:i], k.keys[i+1:])
	if err := k.write(); err != nil {
		return err
	}
	return k.tell("use", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "use", ID: id})
	})
}

// remove takes a key away that no chip encrypts with.
func (k *keyChange) remove(id string) error {
	if gossip.KeyID(k.keys[0]) == id {
		return fmt.Errorf("key %s is in use and cannot be removed: 'ttfabric gossip keys use' turns to another one first", id)
	}
	err := k.tell("ask", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		ks, err := cl.GossipKeys(ctx)
		if err == nil && slices.ContainsFunc(ks, func(v api.KeyView) bool { return v.ID == id && v.Primary }) {
			err = fmt.Errorf("chip %s uses key %s; let it use another one first", cl.Self(), id)
		}
		return ks, err
	})
	if err != nil && !k.force {
		return fmt.Errorf("key %s is not removed: %w", id, err)
	}
	k.rows = nil
	k.keys = slices.DeleteFunc(slices.Clone(k.keys), func(b []byte) bool { return gossip.KeyID(b) == id })
	if err := k.write(); err != nil {
		return err
	}
	return k.tell("remove", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "remove", ID: id})
	})
}

// rotate is all three. It stops where a step is not done everywhere, unless it is forced to go on.
func (k *keyChange) rotate() error {
	key, err := gossip.NewKey(defaultKeyBytes)
	if err != nil {
		return err
	}
	var old []string
	for _, b := range k.keys {
		old = append(old, gossip.KeyID(b))
	}
	var all []keyRow
	step := func(name string, err error) error {
		all = append(all, k.rows...)
		k.rows = nil
		if err != nil && k.force {
			fmt.Fprintf(k.c.ErrOrStderr(), "%s: %v\n", name, err)
			return nil
		}
		return err
	}
	defer func() { k.rows = all }()
	if err := step("install", k.install(key)); err != nil {
		return err
	}
	if err := step("use", k.use(gossip.KeyID(key))); err != nil {
		return err
	}
	for _, id := range old {
		if err := step("remove", k.remove(id)); err != nil {
			return err
		}
	}
	return nil
}

// setKeys changes the keys of a chip, if it does so before nobody waits for it any more.
func setKeys(ctx context.Context, cl *api.Client, b api.KeyBody) ([]api.KeyView, error) {
	if d, ok := ctx.Deadline(); ok {
		b.Before = d.UnixMilli()
	}
	return cl.SetGossipKeys(ctx, b)
}

// differs reports that a chip has other keys than the run folder.
func (k *keyChange) differs(n wire.FabricNodeID, ks []api.KeyView) error {
	same := len(ks) == len(k.keys)
	for i := 0; same && i < len(ks); i++ {
		same = slices.ContainsFunc(k.keys, func(b []byte) bool { return gossip.KeyID(b) == ks[i].ID }) && (ks[i].Primary == (ks[i].ID == gossip.KeyID(k.keys[0])))
	}
	if same {
		return nil
	}
	return fmt.Errorf("chip %s has other keys than the fabric; 'ttfabric chip restart %s' gives it those", n, n)
}

// tell asks all chips that run, and notes what each of them did. The error names those that did not.
func (k *keyChange) tell(action, id string, do func(context.Context, *api.Client) ([]api.KeyView, error)) error {
	var mu sync.Mutex
	bar := newProgress(k.c.ErrOrStderr(), action+" "+id, len(k.chips.clients))
	defer bar.stop()
	var rows []keyRow
	_ = k.chips.each(k.c, k.chips.all(), func(ctx context.Context, cl *api.Client) error {
		keys, err := do(ctx, cl)
		mu.Lock()
		defer mu.Unlock()
		row := keyRow{Chip: cl.Self(), Action: action, Key: id, Keys: append([]api.KeyView{}, keys...)}
		if err != nil {
			row.Error = err.Error()
		}
		rows = append(rows, row)
		bar.set(len(rows))
		return nil
	})
	slices.SortFunc(rows, func(a, b keyRow) int {
		return chipIndex(k.chips.t.Chips, a.Chip) - chipIndex(k.chips.t.Chips, b.Chip)
	})
	k.rows = append(k.rows, rows...)
	var bad []string
	for _, r := range rows {
		if r.Error != "" {
			bad = append(bad, r.Error)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d: %s; resume or restart what is paused or has missed a change ('ttfabric chip --help'), and try again", counted(len(bad), "chip"), len(rows), strings.Join(bad, "; "))
}

func (k *keyChange) print() {
	tw := newTable(k.c, "Chip", "Step", "Key in use", "Others", "Result")
	for _, r := range k.rows {
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
	for _, c := range k.chips.t.Chips {
		if k.chips.clients[c.Node] == nil {
			fmt.Fprintf(k.c.ErrOrStderr(), "chip %s is not running; it takes the keys of the run folder when it is started\n", c.Node)
		}
	}
	fmt.Fprintf(k.c.ErrOrStderr(), "Chips that are started have key %s in use.\n", gossip.KeyID(k.keys[0]))
}

// keyWords names keys.
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
