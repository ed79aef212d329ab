package container

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
)

// Keys says where a fabric's keys come from, and which folder gets the keys and
// certificates that containers mount.
type Keys struct {
	Gossip string // file with the gossip keys, or the word "generate" for a new key; "": gossip is not encrypted
	Folder string // folder that [Keys.Write] is to make; "": named as the compose or stack file, with the ending .secrets
	Made   string // folder that [Keys.Write] has made; "": Write has made no folder
}

// Write makes the folder of a fabric's keys and certificates, if the fabric has keys or
// certificates. The parameter "file" is the path of the compose or stack file, or "" for
// standard output. The result "named" is the text that names the folder in this file: the
// variable [secretsEnv] with the folder's path as the default. A relative path starts from
// the folder of the compose or stack file. If there are no keys and certificates, named is
// "".
func (k *Keys) Write(ctx context.Context, in io.Reader, m *spec.Spec, t *topo.Topology, file string) (named string, err error) {
	files := map[string][]byte{}
	if k.Gossip != "" {
		keys, err := folder.ReadKeys(ctx, in, "--gossip-key", k.Gossip)
		if err != nil {
			return "", err
		}
		m.Keyed = true
		files[folder.KeysFile] = folder.KeyList(keys)
	}
	if m.Auth == spec.MTLS && m.PKI == "" {
		return "", spec.Usagef("--transport quic: the chips need certificates; name their folder with --pki; 'ttfabric pki make %s --name %s' makes such a folder", t.Name, m.Name)
	}
	if m.Auth == spec.MTLS {
		if err := folder.CheckCertificates(m, t); err != nil {
			return "", err
		}
	}
	if m.Auth == spec.PSK {
		key, err := folder.NewPSK(ctx, in, m)
		if err != nil {
			return "", err
		}
		files[folder.PSKFile] = folder.PSKText(key)
	}
	if err := certificates(m, t, m.PKI, files); err != nil {
		return "", err
	}
	if len(files) == 0 {
		if k.Folder != "" {
			return "", spec.Usagef("--secrets %s: this fabric has no keys or certificates; leave out --secrets, or add --auth psk, --transport quic or --gossip-key", k.Folder)
		}
		return "", nil
	}
	return k.place(file, files)
}

// Told returns the end of a message that says which folder holds the keys, or "" if there
// are no keys.
func (k *Keys) Told() string {
	if k.Made == "" {
		return ""
	}
	return ", whose keys are in " + k.Made
}

// place makes the folder with the given files. The result is the text that names the
// folder in the compose or stack file; see [Keys.Write].
func (k *Keys) place(file string, files map[string][]byte) (string, error) {
	dir := k.Folder
	if dir == "" {
		if file == "" {
			return "", spec.Usagef("no flag names a folder for the containers' keys; want --secrets with a folder, or --file with the file to write")
		}
		dir = strings.TrimSuffix(file, filepath.Ext(file)) + ".secrets"
	}
	if strings.ContainsAny(dir, "}\n") {
		return "", spec.Usagef("--secrets %q: a compose file cannot contain this name; want a name without '}' and line feed", dir)
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, os.ErrExist) {
		return "", spec.Usagef("--secrets: the folder %s exists already; remove the folder, or choose another folder with --secrets", dir)
	} else if err != nil {
		return "", spec.Usagef("--secrets: cannot make the folder: %w", err)
	}
	files[".gitignore"] = []byte("*\n") // git ignores the whole folder, so that nobody commits the keys by accident
	if err := writeSecrets(dir, files); err != nil {
		return "", err
	}
	k.Made = dir
	named := dir
	if !filepath.IsAbs(dir) {
		from, err := filepath.Abs(filepath.Dir(file))
		if err != nil {
			return "", err
		}
		to, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		if named, err = filepath.Rel(from, to); err != nil {
			return "", err
		}
		if !strings.HasPrefix(named, "..") {
			named = "./" + named
		}
	}
	return "${" + secretsEnv + ":-" + strings.ReplaceAll(named, "$", "$$") + "}", nil
}
