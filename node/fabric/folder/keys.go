package folder

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ttfabric/membership/gossip"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport/pki"
)

// Files with secrets, in a run folder and in what containers see.
const (
	KeysFile = "gossip-keys.json" // as serf's keyring file: a JSON list of base64 texts, the key in use first
	PSKFile  = "psk.key"          // pre-shared key in base64, mode 0600
	pkiDir   = "pki"              // certificates that the fabric made itself
)

// KeyBytes is the length of a key that is made: AES-256.
const KeyBytes = 32

// MinToken is the least length of the API's token, in bytes.
const MinToken = 16

// maxKeyFile is the largest file with keys that is read, in bytes.
const maxKeyFile = 64 << 10

// KeysPath is where a fabric has the keys of its gossip.
func (d Dir) KeysPath(s *spec.Spec) string { return cmp.Or(s.GossipKeys, d.Path(KeysFile)) }

// PKI is where a fabric has its certificates.
func (d Dir) PKI(s *spec.Spec) string { return cmp.Or(s.PKI, d.Path(pkiDir)) }

// GossipKeys reads the keys of a fabric's gossip from their file.
func GossipKeys(path string) (keys [][]byte, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the gossip keys cannot be read: %w; take the fabric down and up again", err)
	}
	if keys, err = parseKeyList(b); err != nil {
		return nil, fmt.Errorf("the gossip keys in %s are damaged: %w; take the fabric down and up again", path, err)
	}
	return keys, nil
}

// PSK reads the pre-shared key of the fabric's links.
func (d Dir) PSK() ([]byte, error) {
	b, err := os.ReadFile(d.Path(PSKFile))
	if err != nil {
		return nil, fmt.Errorf("the pre-shared key cannot be read: %w; take the fabric down and up again", err)
	}
	key, err := gossip.ParseKey(string(bytes.TrimSpace(b)))
	if err != nil {
		return nil, fmt.Errorf("the pre-shared key in %s is damaged; take the fabric down and up again", d.Path(PSKFile))
	}
	return key, nil
}

// WriteGossipKeys adds the keys of encrypted gossip to a folder.
func WriteGossipKeys(keys [][]byte) func(Dir) error {
	return func(d Dir) error { return WriteFile(d.Path(KeysFile), KeyList(keys)) }
}

// WritePSK adds the pre-shared key of the links to a folder.
func WritePSK(key []byte) func(Dir) error {
	return func(d Dir) error { return WriteFile(d.Path(PSKFile), PSKText(key)) }
}

// MakeCertificates adds a certificate for each chip to a folder.
func MakeCertificates(s *spec.Spec, t *topo.Topology) func(Dir) error {
	return func(d Dir) error {
		if err := os.Mkdir(d.Path(pkiDir), 0o700); err != nil {
			return fmt.Errorf("cannot make the certificates: %w", err)
		}
		return pki.Make(d.Path(pkiDir), s.Name, t.Nodes(), time.Now(), pki.DefaultValidity)
	}
}

// CheckCertificates refuses a folder of certificates that lacks one of the fabric's chips.
func CheckCertificates(s *spec.Spec, t *topo.Topology) error {
	for _, n := range t.Nodes() {
		if _, err := pki.Load(s.PKI, pki.Identity{Fabric: s.Name, Chip: n}); err != nil {
			return spec.Usagef("--pki: %w", err)
		}
	}
	return nil
}

// NewPSK reads the pre-shared key that the spec names, and makes one where the spec names none.
func NewPSK(ctx context.Context, in io.Reader, s *spec.Spec) ([]byte, error) {
	if s.PSKFile == "" {
		return gossip.NewKey(KeyBytes)
	}
	return ReadKey(ctx, in, "--psk-file", s.PSKFile)
}

// PSKText is a pre-shared key as it stands in a file.
func PSKText(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key) + "\n") }

// parseKeyList reads what [KeyList] writes.
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

// KeyList is keys as they stand in a file.
func KeyList(keys [][]byte) []byte {
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

// ReadKey reads the one key of a file, see [ReadKeys].
func ReadKey(ctx context.Context, in io.Reader, what, arg string) ([]byte, error) {
	keys, err := ReadKeys(ctx, in, what, arg)
	if err != nil {
		return nil, err
	}
	if len(keys) > 1 {
		return nil, spec.Usagef("%s %s: holds %d keys; want one", what, arg, len(keys))
	}
	return keys[0], nil
}

// ReadKeys reads a key from a file that a user names, or several as a fabric
// keeps them, the key in use first. ReadKeys makes a key for "generate", and reads
// "-" from in. A key itself is refused: others can read command lines. what is
// the option, for errors.
func ReadKeys(ctx context.Context, in io.Reader, what, arg string) ([][]byte, error) {
	if arg == "generate" {
		k, err := gossip.NewKey(KeyBytes)
		return [][]byte{k}, err
	}
	var b []byte
	var err error
	if arg == "-" {
		b, err = Within(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, 1<<10)) })
	} else {
		b, err = ReadFile(ctx, arg, maxKeyFile)
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

// ReadToken finds the token of the APIs of chips that run elsewhere: in a file or,
// without one, in the environment variable TTFABRIC_TOKEN.
func ReadToken(file string) (string, error) {
	if file == "" {
		if token := os.Getenv("TTFABRIC_TOKEN"); token != "" {
			return token, nil
		}
		return "", spec.Usagef("the chips' APIs ask for the token that the chips were started with: name its file with --token-file, or set TTFABRIC_TOKEN")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", spec.Usagef("--token-file: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// NewToken draws a token of the API.
func NewToken() string {
	var b [MinToken]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// MakeToken writes a random token where there is no file of that name. Of
// several processes that do so at once, as containers of one volume, one wins.
func MakeToken(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(NewToken() + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}
