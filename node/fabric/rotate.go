package fabric

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ttfabric/membership/keyring"
	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// KeyChange changes the keys of a fabric's encrypted gossip. No chip of the fabric can
// start between [Fabric.ChangeKeys] and the call of unlock.
type KeyChange struct {
	Keys  [][]byte // the fabric's keys, which chips get when they start; the first key is in use
	Rows  []KeyRow // results of the steps, one row for each step on each running chip; the step "ask" adds rows only if a failure of this step ends the change
	Force bool     // continue although a chip has not done a step
	// Progress is called each time a step has succeeded or failed on a chip. The parameter "done"
	// is the number of chips on which the step has succeeded or failed. The parameter "total" is
	// the number of running chips. Progress may be nil.
	Progress func(step string, done, total int)
	// Failed is called for each failed step that [KeyChange.Rotate] ignores because of
	// Force. Failed may be nil.
	Failed func(step string, err error)

	f     *Fabric
	chips *Chips
}

// KeyRow is the result of one step on one chip.
type KeyRow struct {
	Chip   wire.FabricNodeID `json:"chip"`            // chip at which the step was performed
	Action string            `json:"action"`          // name of the step: list, ask, install, use or remove
	Key    string            `json:"key,omitempty"`   // id of the key of the step; "": list
	Keys   []api.KeyView     `json:"keys"`            // keys of the chip after the step
	Error  string            `json:"error,omitempty"` // why the step failed; "": the step succeeded
}

// ChangeKeys begins a change of the gossip's keys. The caller ends the change by a call of
// unlock. If the fabric is attached, ChangeKeys returns an error of kind [spec.Usage].
// ChangeKeys also returns an error if the gossip is not encrypted, or if no chip runs.
func (f *Fabric) ChangeKeys(ctx context.Context) (k *KeyChange, unlock func(), err error) {
	if f.Attached() {
		return nil, nil, spec.Usagef("fabric %q is attached: each chip reads its keys from the file of 'node --gossip-key' on the chip's own machine, so a restarted chip would have the old keys; change the key files on these machines; 'ttfabric gossip show' shows which key each chip uses", f.Spec.Name)
	}
	if !f.Spec.Keyed {
		return nil, nil, fmt.Errorf("the gossip of fabric %q is not encrypted; 'ttfabric up --gossip-key generate' starts a fabric with encrypted gossip", f.Spec.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if unlock, err = folder.Lock(ctx, string(f.Dir)); err != nil { // no chip can start during the change
		return nil, nil, err
	}
	k = &KeyChange{f: f}
	if k.Keys, err = folder.GossipKeys(f.Dir.KeysPath(&f.Spec)); err == nil {
		k.chips, err = f.Chips()
	}
	if err != nil {
		unlock()
		return nil, nil, err
	}
	return k, unlock, nil
}

// Absent lists the chips that do not run.
func (k *KeyChange) Absent() (out []wire.FabricNodeID) {
	for _, n := range k.f.Topology.Nodes() {
		if k.chips.Client(n) == nil {
			out = append(out, n)
		}
	}
	return out
}

// List asks all running chips for their keys. The error names the chips that do not
// answer, and the chips whose keys differ from the fabric's keys.
func (k *KeyChange) List(ctx context.Context) error {
	return k.tell(ctx, "list", "", func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		ks, err := cl.GossipKeys(ctx)
		if err == nil {
			err = k.differs(cl.Self(), ks)
		}
		return ks, err
	})
}

// write writes the fabric's keys to the file from which chips read keys when they start.
func (k *KeyChange) write() error {
	if k.f.Spec.GossipKeys != "" { // containers mount this file and must be able to read the file
		return folder.WriteFileAs(k.f.Spec.GossipKeys, folder.KeyList(k.Keys), container.SecretMode)
	}
	if err := folder.WriteFile(k.f.Dir.Path(folder.KeysFile), folder.KeyList(k.Keys)); err != nil || k.f.Spec.Runtime != spec.Docker {
		return err
	}
	return container.Share(k.f.Dir, &k.f.Spec, k.f.Topology)
}

// Install adds a key to the fabric's keys, and to the keys of all running chips. The chips
// can then decrypt with the key, but do not encrypt with the key yet.
func (k *KeyChange) Install(ctx context.Context, key []byte) error {
	id := keyring.ID(key)
	if !slices.ContainsFunc(k.Keys, func(b []byte) bool { return keyring.ID(b) == id }) {
		if len(k.Keys) >= keyring.Max {
			return fmt.Errorf("%d gossip keys are installed, which is the largest number; remove a key with 'ttfabric gossip keys remove' first", len(k.Keys))
		}
		k.Keys = append(k.Keys, key)
	}
	if err := k.write(); err != nil { // a chip that starts later then also has the key
		return err
	}
	return k.tell(ctx, "install", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "install", Key: key})
	})
}

// Use makes all chips encrypt with the key that has the given id. If Keys does not contain this
// key, Use returns an error and changes nothing. Without Force, Use does the same if a running chip
// does not have the key or does not answer.
func (k *KeyChange) Use(ctx context.Context, id string) error {
	i := slices.IndexFunc(k.Keys, func(b []byte) bool { return keyring.ID(b) == id })
	if i < 0 {
		return fmt.Errorf("the fabric has no gossip key %s; 'ttfabric gossip keys' lists its keys", id)
	}
	err := k.tell(ctx, "ask", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		ks, err := cl.GossipKeys(ctx)
		if err == nil && !slices.ContainsFunc(ks, func(v api.KeyView) bool { return v.ID == id }) {
			err = fmt.Errorf("chip %s does not have key %s; install the key again with 'ttfabric gossip keys install FILE'", cl.Self(), id)
		}
		return ks, err
	})
	if err != nil && !k.Force {
		return fmt.Errorf("no chip uses key %s yet: %w", id, err)
	}
	k.Rows = nil
	k.Keys = slices.Concat(k.Keys[i:i+1], k.Keys[:i], k.Keys[i+1:])
	if err := k.write(); err != nil {
		return err
	}
	return k.tell(ctx, "use", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "use", ID: id})
	})
}

// Remove removes the key with the given id from all chips. Remove refuses to remove the
// first of the Keys, even if Force is set. If a running chip encrypts with the key or does
// not answer, and Force is not set, Remove returns an error and changes nothing.
func (k *KeyChange) Remove(ctx context.Context, id string) error {
	if keyring.ID(k.Keys[0]) == id {
		return fmt.Errorf("key %s is in use and cannot be removed; let the chips use another key first, with 'ttfabric gossip keys use'", id)
	}
	err := k.tell(ctx, "ask", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		ks, err := cl.GossipKeys(ctx)
		if err == nil && slices.ContainsFunc(ks, func(v api.KeyView) bool { return v.ID == id && v.Primary }) {
			err = fmt.Errorf("chip %s uses key %s; let the chips use another key first, with 'ttfabric gossip keys use'", cl.Self(), id)
		}
		return ks, err
	})
	if err != nil && !k.Force {
		return fmt.Errorf("key %s is not removed: %w", id, err)
	}
	k.Rows = nil
	k.Keys = slices.DeleteFunc(slices.Clone(k.Keys), func(b []byte) bool { return keyring.ID(b) == id })
	if err := k.write(); err != nil {
		return err
	}
	return k.tell(ctx, "remove", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "remove", ID: id})
	})
}

// Rotate installs a new key, makes all chips use the new key, and removes all other keys. If a chip
// does not carry out a step and Force is not set, Rotate stops and returns an error.
func (k *KeyChange) Rotate(ctx context.Context) error {
	key, err := keyring.New(folder.KeyBytes)
	if err != nil {
		return err
	}
	var old []string
	for _, b := range k.Keys {
		old = append(old, keyring.ID(b))
	}
	var all []KeyRow
	step := func(name string, err error) error {
		all = append(all, k.Rows...)
		k.Rows = nil
		if err != nil && k.Force {
			if k.Failed != nil {
				k.Failed(name, err)
			}
			return nil
		}
		return err
	}
	defer func() { k.Rows = all }()
	if err := step("install", k.Install(ctx, key)); err != nil {
		return err
	}
	if err := step("use", k.Use(ctx, keyring.ID(key))); err != nil {
		return err
	}
	for _, id := range old {
		if err := step("remove", k.Remove(ctx, id)); err != nil {
			return err
		}
	}
	return nil
}

// setKeys changes the keys of a chip. The request contains the deadline of ctx. The chip
// refuses a request that comes after the deadline.
func setKeys(ctx context.Context, cl *api.Client, b api.KeyBody) ([]api.KeyView, error) {
	if d, ok := ctx.Deadline(); ok {
		b.Before = d.UnixMilli()
	}
	return cl.SetGossipKeys(ctx, b)
}

// differs returns an error if ks, the keys of chip n, differ from the fabric's keys k.Keys.
func (k *KeyChange) differs(n wire.FabricNodeID, ks []api.KeyView) error {
	same := len(ks) == len(k.Keys)
	for i := 0; same && i < len(ks); i++ {
		same = slices.ContainsFunc(k.Keys, func(b []byte) bool { return keyring.ID(b) == ks[i].ID }) && (ks[i].Primary == (ks[i].ID == keyring.ID(k.Keys[0])))
	}
	if same {
		return nil
	}
	return fmt.Errorf("chip %s has other keys than the fabric; 'ttfabric chip restart %s' gives the chip the fabric's keys", n, n)
}

// tell calls the function "do" for each running chip, and adds the results to Rows. The error
// names the chips for which the function "do" failed.
func (k *KeyChange) tell(ctx context.Context, action, id string, do func(context.Context, *api.Client) ([]api.KeyView, error)) error {
	all := k.chips.All()
	var rows []KeyRow
	var mu sync.Mutex
	_, _ = k.chips.AtChips(ctx, all, func(ctx context.Context, cl *api.Client) error {
		keys, err := do(ctx, cl)
		row := KeyRow{Chip: cl.Self(), Action: action, Key: id, Keys: append([]api.KeyView{}, keys...)}
		if err != nil {
			row.Error = err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, row)
		if k.Progress != nil {
			k.Progress(strings.TrimSpace(action+" "+id), len(rows), len(all))
		}
		return nil
	})
	slices.SortFunc(rows, func(a, b KeyRow) int { return k.f.Topology.Index(a.Chip) - k.f.Topology.Index(b.Chip) })
	k.Rows = append(k.Rows, rows...)
	var bad []string
	for _, r := range rows {
		if r.Error != "" {
			bad = append(bad, r.Error)
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return fmt.Errorf("%s of %d: %s; resume chips that are paused, restart chips that have missed a change (see 'ttfabric chip --help'), and try again", topo.Count(len(bad), "chip"), len(rows), strings.Join(bad, "; "))
}
