package gossip

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/memberlist"

	"ttfabric/membership"
	"ttfabric/membership/keyring"
)

// Keys holds the keys that encrypt a chip's gossip. The chip encrypts the gossip that it sends with
// the first key. The chip decrypts the gossip that it receives with any of the keys. Keys is safe
// for concurrent use.
type Keys struct {
	mu   sync.Mutex
	ring *memberlist.Keyring
}

// NewKeys returns a keyring. The first key is the primary key. The error says which key is unfit
// and why.
func NewKeys(keys [][]byte) (*Keys, error) {
	if len(keys) == 0 || len(keys) > keyring.Max {
		return nil, fmt.Errorf("%d gossip keys: want 1 to %d", len(keys), keyring.Max)
	}
	for _, k := range keys {
		if err := keyring.Check(k); err != nil {
			return nil, err
		}
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	return &Keys{ring: ring}, err
}

// List returns the keys, the primary key first.
func (k *Keys) List() []membership.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []membership.Key
	for i, b := range k.ring.GetKeys() {
		out = append(out, membership.Key{ID: keyring.ID(b), Bits: len(b) * 8, Primary: i == 0})
	}
	return out
}

// Install adds a key with which received gossip may be encrypted. If the key is already installed,
// Install changes nothing.
func (k *Keys) Install(key []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := keyring.Check(key); err != nil {
		return err
	}
	have := k.ring.GetKeys()
	if len(have) >= keyring.Max && !slices.ContainsFunc(have, func(b []byte) bool { return bytes.Equal(b, key) }) {
		return fmt.Errorf("%d gossip keys are installed, as many as there may be; remove one first", len(have))
	}
	return k.ring.AddKey(bytes.Clone(key))
}

// Use makes an installed key the key that encrypts the gossip that the chip sends.
func (k *Keys) Use(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, _, err := k.find(id)
	if err != nil {
		return err
	}
	return k.ring.UseKey(key)
}

// Remove removes a key. Remove refuses to remove the key in use. If the key is not installed,
// Remove returns no error.
func (k *Keys) Remove(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, primary, err := k.find(id)
	switch {
	case err != nil:
		return nil
	case primary:
		return fmt.Errorf("gossip key %s is in use: use another one before it is removed", id)
	}
	// This call uses the primary key again and thereby makes a new list of keys. The removal
	// therefore does not change the list that concurrent readers hold.
	if err := k.ring.UseKey(k.ring.GetPrimaryKey()); err != nil {
		return err
	}
	return k.ring.RemoveKey(key)
}

func (k *Keys) find(id string) (key []byte, primary bool, err error) {
	for i, b := range k.ring.GetKeys() {
		if keyring.ID(b) == id {
			return b, i == 0, nil
		}
	}
	return nil, false, fmt.Errorf("gossip key %s is not installed", id)
}
