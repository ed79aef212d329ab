// Package keyring reads, writes and names the keys that encrypt gossip and seal
// links. A program that only handles keys needs no gossip library.
package keyring

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Max is the largest number of keys of a chip: the key in use, and further keys while somebody
// changes keys.
const Max = 8

// Sizes are the lengths of a key, in bytes: AES-128, AES-192 and AES-256.
var Sizes = []int{16, 24, 32}

// idLen is how many bytes of a key's hash form the key's name.
const idLen = 4

// Check returns an error for a key whose length is not in [Sizes].
func Check(k []byte) error {
	if !slices.Contains(Sizes, len(k)) {
		return fmt.Errorf("gossip key of %d bytes: want 16, 24 or 32", len(k))
	}
	return nil
}

// Parse reads a key in the form in which consul and serf write it: base64 of 16, 24 or 32 bytes.
// The error says what is wrong and does not repeat the text.
func Parse(text string) ([]byte, error) {
	k, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("gossip key: not base64; 'ttfabric gossip keygen' makes one")
	}
	return k, Check(k)
}

// Text returns the key in the form that [Parse] reads.
func Text(k []byte) string { return base64.StdEncoding.EncodeToString(k) }

// New returns a random key of n bytes. The number n must be in [Sizes].
func New(n int) ([]byte, error) {
	k := make([]byte, n)
	rand.Read(k)
	return k, Check(k)
}

// ID returns the name of a key: the first 8 hexadecimal digits of the key's SHA-256.
func ID(k []byte) string {
	h := sha256.Sum256(k)
	return hex.EncodeToString(h[:idLen])
}
