package gossip

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/memberlist"

	"ttfabric/membership"
)

// MaxKeys is how many keys a chip has at most: the one in use, and others while keys are changed.
const MaxKeys = 8

// KeySizes are the lengths of a key, in bytes: AES-128, AES-192 and AES-256.
var KeySizes = []int{16, 24, 32}

// keyIDLen is the length of a key's name, in bytes of its hash.
const keyIDLen = 4

// Keys are the keys that encrypt a chip's gossip. The chip encrypts what it sends with the first
// key, and decrypts what it receives with any of them. Keys are safe for concurrent use.
type Keys struct {
	mu   sync.Mutex
	ring *memberlist.Keyring
}

// NewKeys returns a keyring. The first key is the primary one. The error names what is wrong.
func NewKeys(keys [][]byte) (*Keys, error) {
	if len(keys) == 0 || len(keys) > MaxKeys {
		return nil, fmt.Errorf("%d gossip keys: want 1 to %d", len(keys), MaxKeys)
	}
	for _, k := range keys {
		if err := checkKey(k); err != nil {
			return nil, err
		}
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	return &Keys{ring: ring}, err
}

func checkKey(k []byte) error {
	if !slices.Contains(KeySizes, len(k)) {
		return fmt.Errorf("gossip key of %d bytes: want 16, 24 or 32", len(k))
	}
	return nil
}

// ParseKey reads a key as consul and serf write it: base64 of 16, 24 or 32
// bytes. The error says what is wrong and does not repeat the text.
func ParseKey(text string) ([]byte, error) {
	k, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("gossip key: not base64; 'ttfabric gossip keygen' makes one")
	}
	return k, checkKey(k)
}

// KeyText is the text that [ParseKey] reads.
func KeyText(k []byte) string { return base64.StdEncoding.EncodeToString(k) }

// NewKey draws a random key of n bytes, one of [KeySizes].
func NewKey(n int) ([]byte, error) {
	k := make([]byte, n)
	rand.Read(k)
	return k, checkKey(k)
}

// KeyID names a key: the first 8 hexadecimal digits of its SHA-256.
func KeyID(k []byte) string {
	h := sha256.Sum256(k)
	return hex.EncodeToString(h[:keyIDLen])
}

// List returns the keys, the primary one first.
func (k *Keys) List() []membership.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []membership.Key
	for i, b := range k.ring.GetKeys() {
		out = append(out, membership.Key{ID: KeyID(b), Bits: len(b) * 8, Primary: i == 0})
	}
	return out
}

// Install adds a key with which received gossip may be encrypted. A key that is already installed
// stays.
func (k *Keys) Install(key []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := checkKey(key); err != nil {
		return err
	}
	have := k.ring.GetKeys()
	if len(have) >= MaxKeys && !slices.ContainsFunc(have, func(b []byte) bool { return bytes.Equal(b, key) }) {
		return fmt.Errorf("%d gossip keys are installed, as many as there may be; remove one first", len(have))
	}
	return k.ring.AddKey(bytes.Clone(key))
}

// Use makes an installed key the one that encrypts what is sent.
func (k *Keys) Use(id string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, _, err := k.find(id)
	if err != nil {
		return err
	}
	return k.ring.UseKey(key)
}

// Remove removes a key. Remove refuses to remove the key in use. Removing a key that is not
// installed is no error.
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
	// Using the primary key again makes a new list of keys. So the removal does not change the list
	// that concurrent readers hold.
	if err := k.ring.UseKey(k.ring.GetPrimaryKey()); err != nil {
		return err
	}
	return k.ring.RemoveKey(key)
}

func (k *Keys) find(id string) (key []byte, primary bool, err error) {
	for i, b := range k.ring.GetKeys() {
		if KeyID(b) == id {
			return b, i == 0, nil
		}
	}
	return nil, false, fmt.Errorf("gossip key %s is not installed", id)
}
