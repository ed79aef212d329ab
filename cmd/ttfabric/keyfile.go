package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"ttfabric/membership/gossip"
)

// keysFile holds the keys of a fabric's gossip in its run folder, as serf's
// keyring file does: a JSON list of base64 texts, the primary key first.
const keysFile = "gossip-keys.json"

// defaultKeyBytes is the length of a key that is made: AES-256.
const defaultKeyBytes = 32

// keysPath is where a fabric has the keys of its gossip.
func (m *spec.Spec) keysPath(d runDir) string { return cmp.Or(m.GossipKeys, d.path(keysFile)) }

// gossipKeys reads the keys of a file of a fabric.
func gossipKeys(path string) (keys [][]byte, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the gossip keys cannot be read: %w; take the fabric down and up again", err)
	}
	if keys, err = parseKeyList(b); err != nil {
		return nil, fmt.Errorf("the gossip keys in %s are damaged: %w; take the fabric down and up again", path, err)
	}
	return keys, nil
}

// parseKeyList reads what keyList writes.
func parseKeyList(b []byte) (keys [][]byte, err error) {
	var texts []string
	if json.Unmarshal(b, &texts) != nil {
		return nil, errors.New("no JSON list of keys in base64")
	}
	if len(texts) == 0 || len(texts) > gossip.MaxKeys {
		return nil, fmt.Errorf("%d keys: want 1 to %d", len(texts), gossip.MaxKeys)
	}
	for _, t := range texts {
		k, err := gossip.ParseKey(t)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// keyList is keys as they are in a file.
func keyList(keys [][]byte) []byte {
	var texts []string
	for _, k := range keys {
		texts = append(texts, gossip.KeyText(k))
	}
	b, err := json.Marshal(texts)
	if err != nil {
		panic(err) // texts always marshal
	}
	return b
}

// readKey reads the one key of a file, see readKeys.
func readKey(c *cobra.Command, what, arg string) ([]byte, error) {
	keys, err := readKeys(c, what, arg)
	if err != nil {
		return nil, err
	}
	if len(keys) > 1 {
		return nil, spec.Usagef("%s %s: holds %d keys; want one", what, arg, len(keys))
	}
	return keys[0], nil
}

// readKeys reads a key from a file, or several as a fabric keeps them, the one
// in use first. It makes one for "generate", and reads "-" from standard input.
// A key itself is refused: what is on a command line, others can read.
func readKeys(c *cobra.Command, what, arg string) ([][]byte, error) {
	if arg == "generate" {
		k, err := gossip.NewKey(defaultKeyBytes)
		return [][]byte{k}, err
	}
	var b []byte
	var err error
	if arg == "-" {
		b, err = within(c.Context(), func() ([]byte, error) { return io.ReadAll(io.LimitReader(c.InOrStdin(), 1<<10)) })
	} else {
		b, err = readFile(c.Context(), arg, maxKeyFile)
	}
	if err != nil {
		if _, isKey := gossip.ParseKey(arg); isKey == nil {
			return nil, spec.Usagef("%s: want a file that holds the key, not the key: others can read command lines", what)
		}
		return nil, spec.Usagef("%s: %w; want a file with a key, as 'ttfabric gossip keygen -f FILE' writes it, or generate", what, err)
	}
	var keys [][]byte
	if b = bytes.TrimSpace(b); bytes.HasPrefix(b, []byte("[")) {
		keys, err = parseKeyList(b)
	} else {
		var k []byte
		k, err = gossip.ParseKey(string(b))
		keys = append(keys, k)
	}
	if err != nil {
		return nil, spec.Usagef("%s %s: %w", what, arg, err)
	}
	return keys, nil
}
