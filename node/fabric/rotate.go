package fabric

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"ttfabric/membership/gossip"
	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/container"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// KeyChange changes the keys of a fabric's encrypted gossip. While it is open, no chip starts.
type KeyChange struct {
	Keys  [][]byte // that chips have which start from now on; the first is in use
	Rows  []KeyRow // what the chips did, by step
	Force bool     // go on without chips that do not answer
	// Progress, if not nil, is told how many chips have done a step, of how many.
	Progress func(step string, done, total int)
	// Failed, if not nil, is told of a step that failed and that Force goes beyond.
	Failed func(step string, err error)

	f     *Fabric
	chips *Chips
}

// KeyRow is what one chip did.
type KeyRow struct {
	Chip   wire.FabricNodeID `json:"chip"`
	Action string            `json:"action"`
	Key    string            `json:"key,omitempty"`
	Keys   []api.KeyView     `json:"keys"`
	Error  string            `json:"error,omitempty"`
}

// ChangeKeys begins a change of the gossip's keys; unlock ends it.
func (f *Fabric) ChangeKeys(ctx context.Context) (k *KeyChange, unlock func(), err error) {
	if f.Attached() {
		return nil, nil, spec.Usagef("fabric %q is attached: its chips have their keys from 'node --gossip-key' where they run, and a chip that is started again would have the old ones; 'ttfabric gossip show' says which key each uses", f.Spec.Name)
	}
	if !f.Spec.Keyed {
		return nil, nil, fmt.Errorf("the gossip of fabric %q is not encrypted; 'ttfabric up --gossip-key generate' starts one whose is", f.Spec.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if unlock, err = folder.Lock(ctx, string(f.Dir)); err != nil { // no chip is to start in between with half of the change
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

// Absent are the chips that do not run.
func (k *KeyChange) Absent() (out []wire.FabricNodeID) {
	for _, n := range k.f.Topology.Nodes() {
		if k.chips.Client(n) == nil {
			out = append(out, n)
		}
	}
	return out
}

// List asks all chips which keys they have. The error names those that have other keys than the fabric.
func (k *KeyChange) List(ctx context.Context) error {
	return k.tell(ctx, "list", "", func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		ks, err := cl.GossipKeys(ctx)
		if err == nil {
			err = k.differs(cl.Self(), ks)
		}
		return ks, err
	})
}

// write keeps the keys for chips that start later.
func (k *KeyChange) write() error {
	if k.f.Spec.GossipKeys != "" { // of containers, whose file has the mode that they need
		return folder.WriteFileAs(k.f.Spec.GossipKeys, folder.KeyList(k.Keys), container.SecretMode)
	}
	if err := folder.WriteFile(k.f.Dir.Path(folder.KeysFile), folder.KeyList(k.Keys)); err != nil || k.f.Spec.Runtime != spec.Docker {
		return err
	}
	return container.Share(k.f.Dir, &k.f.Spec, k.f.Topology)
}

// Install gives all chips another key, without using the key yet.
func (k *KeyChange) Install(ctx context.Context, key []byte) error {
	id := gossip.KeyID(key)
	if !slices.ContainsFunc(k.Keys, func(b []byte) bool { return gossip.KeyID(b) == id }) {
		if len(k.Keys) >= gossip.MaxKeys {
			return fmt.Errorf("%d gossip keys are installed, as many as there may be; 'ttfabric gossip keys remove' takes one away", len(k.Keys))
		}
		k.Keys = append(k.Keys, key)
	}
	if err := k.write(); err != nil { // a chip that starts later is to have it, too
		return err
	}
	return k.tell(ctx, "install", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "install", Key: key})
	})
}

// Use turns to another key, if all chips that run can read what is encrypted with it.
func (k *KeyChange) Use(ctx context.Context, id string) error {
	err := k.tell(ctx, "ask", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		ks, err := cl.GossipKeys(ctx)
		if err == nil && !slices.ContainsFunc(ks, func(v api.KeyView) bool { return v.ID == id }) {
			err = fmt.Errorf("chip %s does not have key %s; install it again", cl.Self(), id)
		}
		return ks, err
	})
	if err != nil && !k.Force {
		return fmt.Errorf("key %s is not used yet: %w", id, err)
	}
	k.Rows = nil
	i := slices.IndexFunc(k.Keys, func(b []byte) bool { return gossip.KeyID(b) == id })
	k.Keys = slices.Concat(k.Keys[i:i+1], k.Keys[:i], k.Keys[i+1:])
	if err := k.write(); err != nil {
		return err
	}
	return k.tell(ctx, "use", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "use", ID: id})
	})
}

// Remove takes a key away that no chip encrypts with.
func (k *KeyChange) Remove(ctx context.Context, id string) error {
	if gossip.KeyID(k.Keys[0]) == id {
		return fmt.Errorf("key %s is in use and cannot be removed: 'ttfabric gossip keys use' turns to another one first", id)
	}
	err := k.tell(ctx, "ask", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		ks, err := cl.GossipKeys(ctx)
		if err == nil && slices.ContainsFunc(ks, func(v api.KeyView) bool { return v.ID == id && v.Primary }) {
			err = fmt.Errorf("chip %s uses key %s; let it use another one first", cl.Self(), id)
		}
		return ks, err
	})
	if err != nil && !k.Force {
		return fmt.Errorf("key %s is not removed: %w", id, err)
	}
	k.Rows = nil
	k.Keys = slices.DeleteFunc(slices.Clone(k.Keys), func(b []byte) bool { return gossip.KeyID(b) == id })
	if err := k.write(); err != nil {
		return err
	}
	return k.tell(ctx, "remove", id, func(ctx context.Context, cl *api.Client) ([]api.KeyView, error) {
		return setKeys(ctx, cl, api.KeyBody{Action: "remove", ID: id})
	})
}

// Rotate is all three with a new key. Rotate stops where a step is not done everywhere, unless it is forced to go on.
func (k *KeyChange) Rotate(ctx context.Context) error {
	key, err := gossip.NewKey(folder.KeyBytes)
	if err != nil {
		return err
	}
	var old []string
	for _, b := range k.Keys {
		old = append(old, gossip.KeyID(b))
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
	if err := step("use", k.Use(ctx, gossip.KeyID(key))); err != nil {
		return err
	}
	for _, id := range old {
		if err := step("remove", k.Remove(ctx, id)); err != nil {
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
func (k *KeyChange) differs(n wire.FabricNodeID, ks []api.KeyView) error {
	same := len(ks) == len(k.Keys)
	for i := 0; same && i < len(ks); i++ {
		same = slices.ContainsFunc(k.Keys, func(b []byte) bool { return gossip.KeyID(b) == ks[i].ID }) && (ks[i].Primary == (ks[i].ID == gossip.KeyID(k.Keys[0])))
	}
	if same {
		return nil
	}
	return fmt.Errorf("chip %s has other keys than the fabric; 'ttfabric chip restart %s' gives it those", n, n)
}

// tell asks all chips that run, and notes what each of them did. The error names those that did not.
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
	return fmt.Errorf("%s of %d: %s; resume or restart what is paused or has missed a change ('ttfabric chip --help'), and try again", topo.Count(len(bad), "chip"), len(rows), strings.Join(bad, "; "))
}
