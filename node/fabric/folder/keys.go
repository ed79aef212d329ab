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

	"ttfabric/membership/keyring"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport/pki"
)

// Names of files with secrets, in a run folder and in containers.
const (
	KeysFile = "gossip-keys.json" // a JSON list of keys in base64, with the key in use first; the format of serf's keyring file
	PSKFile  = "psk.key"          // pre-shared key in base64; mode 0600 in a run folder
	pkiDir   = "pki"              // folder of the certificates that 'up' made for the fabric
)

// KeyBytes is the length of a new key in bytes, the length that AES-256 needs.
const KeyBytes = 32

// MinToken is the smallest length of the bearer token of the chips' APIs, in bytes.
const MinToken = 16

// maxKeyFile is the largest size of a key file, in bytes.
const maxKeyFile = 64 << 10

// KeysPath returns the path of the file with a fabric's gossip keys.
func (d Dir) KeysPath(s *spec.Spec) string { return cmp.Or(s.GossipKeys, d.Path(KeysFile)) }

// PKI returns the path of the folder with a fabric's certificates.
func (d Dir) PKI(s *spec.Spec) string { return cmp.Or(s.PKI, d.Path(pkiDir)) }

// GossipKeys reads the keys of a fabric's gossip from the file named path.
func GossipKeys(path string) (keys [][]byte, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the gossip keys cannot be read: %w; take the fabric down with 'ttfabric down', and bring it up again with 'ttfabric up'", err)
	}
	if keys, err = parseKeyList(b); err != nil {
		return nil, fmt.Errorf("the gossip keys in %s are damaged: %w; take the fabric down with 'ttfabric down', and bring it up again with 'ttfabric up'", path, err)
	}
	return keys, nil
}

// PSK reads the pre-shared key of the fabric's links.
func (d Dir) PSK() ([]byte, error) {
	b, err := ReadPlain(d.Path(PSKFile))
	if err != nil {
		return nil, fmt.Errorf("the pre-shared key cannot be read: %w; take the fabric down with 'ttfabric down', and bring it up again with 'ttfabric up'", err)
	}
	key, err := keyring.Parse(string(bytes.TrimSpace(b)))
	if err != nil {
		return nil, fmt.Errorf("the pre-shared key in %s is damaged; take the fabric down with 'ttfabric down', and bring it up again with 'ttfabric up'", d.Path(PSKFile))
	}
	return key, nil
}

// WriteGossipKeys returns a function for [Dir.Create] that writes the gossip keys to a file
// in the folder.
func WriteGossipKeys(keys [][]byte) func(Dir) error {
	return func(d Dir) error { return WriteFile(d.Path(KeysFile), KeyList(keys)) }
}

// WritePSK returns a function for [Dir.Create] that writes the pre-shared key of the links
// to a file in the folder.
func WritePSK(key []byte) func(Dir) error {
	return func(d Dir) error { return WriteFile(d.Path(PSKFile), PSKText(key)) }
}

// MakeCertificates returns a function for [Dir.Create]. The function makes a folder with a
// certificate for each chip.
func MakeCertificates(s *spec.Spec, t *topo.Topology) func(Dir) error {
	return func(d Dir) error {
		if err := os.Mkdir(d.Path(pkiDir), 0o700); err != nil {
			return fmt.Errorf("cannot make the certificates: %w", err)
		}
		return pki.Make(d.Path(pkiDir), s.Name, t.Nodes(), time.Now(), pki.DefaultValidity)
	}
}

// CheckCertificates returns an error of kind [spec.Usage] if a chip of the fabric has no
// valid certificate in the folder s.PKI.
func CheckCertificates(s *spec.Spec, t *topo.Topology) error {
	for _, n := range t.Nodes() {
		if _, err := pki.Load(s.PKI, pki.Identity{Fabric: s.Name, Chip: n}); err != nil {
			return spec.Usagef("--pki: %w", err)
		}
	}
	return nil
}

// NewPSK reads the pre-shared key from the file s.PSKFile, or from in if s.PSKFile is "-". If
// s.PSKFile is "" or "generate", NewPSK makes a new key.
func NewPSK(ctx context.Context, in io.Reader, s *spec.Spec) ([]byte, error) {
	if s.PSKFile == "" {
		return keyring.New(KeyBytes)
	}
	return ReadKey(ctx, in, "--psk-file", s.PSKFile)
}

// PSKText returns the content of a file with a pre-shared key.
func PSKText(key []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(key) + "\n") }

// parseKeyList reads the text that [KeyList] writes.
func parseKeyList(b []byte) (keys [][]byte, err error) {
	var texts []string
	if json.Unmarshal(b, &texts) != nil {
		return nil, errors.New("want a JSON list of keys in base64")
	}
	if len(texts) == 0 || len(texts) > keyring.Max {
		return nil, fmt.Errorf("the file holds %d keys; want 1 to %d", len(texts), keyring.Max)
	}
	for _, t := range texts {
		k, err := keyring.Parse(t)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// KeyList returns the content of a file with gossip keys: a JSON list of keys in base64.
func KeyList(keys [][]byte) []byte {
	var texts []string
	for _, k := range keys {
		texts = append(texts, keyring.Text(k))
	}
	b, err := json.Marshal(texts)
	if err != nil {
		panic(err) // a list of texts always has a JSON form
	}
	return b
}

// ReadKey reads a key as [ReadKeys] does. ReadKey returns an error if the file has more
// than one key.
func ReadKey(ctx context.Context, in io.Reader, what, arg string) ([]byte, error) {
	keys, err := ReadKeys(ctx, in, what, arg)
	if err != nil {
		return nil, err
	}
	if len(keys) > 1 {
		return nil, spec.Usagef("%s %s: the file holds %d keys; want a file with one key", what, arg, len(keys))
	}
	return keys[0], nil
}

// ReadKeys reads keys from the file that a user names in arg. The file holds one key, or a JSON
// list of keys with the key in use first. If arg is "generate", ReadKeys makes a key. If arg is
// "-", ReadKeys reads at most 1,024 bytes from in. ReadKeys refuses an arg that is itself a key,
// because other users of the machine can read command lines. ReadKeys also refuses a file that other
// users may read or write. The parameter "what" is the name of the option, for errors.
func ReadKeys(ctx context.Context, in io.Reader, what, arg string) ([][]byte, error) {
	if arg == "generate" {
		k, err := keyring.New(KeyBytes)
		return [][]byte{k}, err
	}
	var b []byte
	var err error
	if arg == "-" {
		b, err = Within(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(in, 1<<10)) })
	} else if err = secret(arg); err == nil {
		b, err = ReadFile(ctx, arg, maxKeyFile)
	}
	if err != nil {
		if _, isKey := keyring.Parse(arg); isKey == nil {
			return nil, spec.Usagef("%s: want a file that holds the key, not the key itself, because other users of the machine can read command lines", what)
		}
		return nil, spec.Usagef("%s: %w; want a file with a key, which 'ttfabric gossip keygen -f FILE' writes, or the word generate", what, err)
	}
	var keys [][]byte
	if b = bytes.TrimSpace(b); bytes.HasPrefix(b, []byte("[")) {
		keys, err = parseKeyList(b)
	} else {
		var k []byte
		k, err = keyring.Parse(string(b))
		keys = append(keys, k)
	}
	if err != nil {
		return nil, spec.Usagef("%s %s: %w", what, arg, err)
	}
	return keys, nil
}

// secretsMount is the folder at which container engines mount secrets. The engines give the files
// mode 0444 (Docker, "Manage sensitive data with Docker secrets"). No other user has processes in
// the container.
const secretsMount = "/run/secrets/"

// secret returns an error if other users may read or write a file with a key.
func secret(path string) error {
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || strings.HasPrefix(filepath.Clean(path), secretsMount) {
		return nil // ReadFile says what is wrong with a missing file; a pipe has no readers but this command
	}
	if mode := fi.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o, so other users can use the key; run 'chmod 600 %s'", path, mode, path)
	}
	return nil
}

// ReadToken reads the bearer token for the APIs of chips on other machines from a file. If
// file is "", ReadToken takes the token from the environment variable TTFABRIC_TOKEN.
func ReadToken(file string) (string, error) {
	if file == "" {
		if token := os.Getenv("TTFABRIC_TOKEN"); token != "" {
			return token, nil
		}
		return "", spec.Usagef("the chips' APIs need the token with which the chips were started; name its file with --token-file, or set TTFABRIC_TOKEN")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", spec.Usagef("--token-file: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// NewToken returns a random bearer token for the chips' APIs.
func NewToken() string {
	var b [MinToken]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// MakeToken writes a random token to the file named "path" if the file does not exist.
// Several processes may call MakeToken for one file at once, such as containers that share
// a volume. The file then holds the token of one of these processes.
func MakeToken(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // the new file has mode 0600
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
