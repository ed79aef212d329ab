// Package keyring parses, formats and names the keys that encrypt gossip and links. The package
// does not import the gossip library. Programs that only handle keys therefore do not need that
// library.
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

// Max is the largest number of keys that a chip has at once. A chip encrypts with one key. Further
// keys are necessary while an operator changes the key of all chips.
const Max = 8

// Sizes lists the allowed lengths of a key, in bytes: for AES-128, AES-192 and AES-256.
var Sizes = []int{16, 24, 32}

// idLen is the number of bytes of a key's SHA-256 that form the key's name.
const idLen = 4

// Check returns an error if the length of the key k is not in [Sizes].
func Check(k []byte) error {
	if !slices.Contains(Sizes, len(k)) {
		return fmt.Errorf("gossip key of %d bytes: want 16, 24 or 32", len(k))
	}
	return nil
}

// Parse reads a key in the text form that consul and serf use: base64 of 16, 24 or 32 bytes. The
// error does not quote the text, because the text is secret.
func Parse(text string) ([]byte, error) {
	k, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("gossip key: not base64; 'ttfabric gossip keygen' makes a key")
	}
	return k, Check(k)
}

// Text returns the key in the text form that [Parse] reads.
func Text(k []byte) string { return base64.StdEncoding.EncodeToString(k) }

// New returns a random key of n bytes. If n is not in [Sizes], New returns an error.
func New(n int) ([]byte, error) {
	k := make([]byte, n)
	rand.Read(k)
	return k, Check(k)
}

// ID returns the name of the key k: the first 8 hexadecimal digits of the key's SHA-256. The name
// does not reveal the key.
func ID(k []byte) string {
	h := sha256.Sum256(k)
	return hex.EncodeToString(h[:idLen])
}
