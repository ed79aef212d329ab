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

// Keys holds the keys that encrypt a chip's gossip. The chip encrypts with the primary key. The
// chip decrypts gossip that was encrypted with any of the keys. Keys is safe for concurrent use.
type Keys struct {
	mu   sync.Mutex
	ring *memberlist.Keyring
}

// NewKeys returns Keys with the given keys. The first key is the primary key. NewKeys returns an
// error if the number of keys is not 1 to [keyring.Max], or if a key's length is not allowed.
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

// List describes the keys, the primary key first.
func (k *Keys) List() []membership.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []membership.Key
	for i, b := range k.ring.GetKeys() {
		out = append(out, membership.Key{ID: keyring.ID(b), Bits: len(b) * 8, Primary: i == 0})
	}
	return out
}

// Install adds a key for decryption. If the key is already installed, Install changes nothing. If
// [keyring.Max] other keys are installed, or if the key's length is not allowed, Install returns an
// error.
func (k *Keys) Install(key []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := keyring.Check(key); err != nil {
		return err
	}
	have := k.ring.GetKeys()
	if len(have) >= keyring.Max && !slices.ContainsFunc(have, func(b []byte) bool { return bytes.Equal(b, key) }) {
		return fmt.Errorf("%d gossip keys are installed, which is the largest number; remove a key first", len(have))
	}
	return k.ring.AddKey(bytes.Clone(key))
}

// Use makes the installed key with the name id (see [keyring.ID]) the primary key. If the key is
// not installed, Use returns an error.
func (k *Keys) Use(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, _, err := k.find(id)
	if err != nil {
		return err
	}
	return k.ring.UseKey(key)
}

// Remove removes the key with the name id. If the key is the primary key, Remove returns an error.
// If the key is not installed, Remove does nothing.
func (k *Keys) Remove(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, primary, err := k.find(id)
	switch {
	case err != nil:
		return nil
	case primary:
		return fmt.Errorf("gossip key %s is the key in use; use another key before you remove this key", id)
	}
	// RemoveKey changes the keyring's list of keys in place, and other goroutines may be reading
	// this list. UseKey replaces the list by a copy. RemoveKey then changes only the copy.
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
