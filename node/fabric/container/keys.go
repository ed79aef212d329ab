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

// Keys say where compose and stack files have keys from, and where they put
// what containers are to see of the keys.
type Keys struct {
	Gossip string // file with the keys of encrypted gossip, or "generate"; "": plain gossip
	Folder string // folder to make; "": that of the file, with the ending .secrets
	Made   string // the folder that was written
}

// Write makes the folder of a fabric's keys and certificates, where the flags or
// the topology ask for any, and returns what the file has to say of them. file is the one
// that is about to be written, "" for standard output: it names the folder from where it is itself.
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
		return "", spec.Usagef("--transport quic: name the folder of the chips' certificates with --pki; 'ttfabric pki make %s --name %s' makes one", t.Name, m.Name)
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
			return "", spec.Usagef("--secrets: there are none; --auth psk, --transport quic and --gossip-key bring some")
		}
		return "", nil
	}
	return k.place(file, files)
}

// Told says where the keys are, after what else was written.
func (k *Keys) Told() string {
	if k.Made == "" {
		return ""
	}
	return ", whose keys are in " + k.Made
}

// place writes the folder, and says how the file names it.
func (k *Keys) place(file string, files map[string][]byte) (string, error) {
	dir := k.Folder
	if dir == "" {
		if file == "" {
			return "", spec.Usagef("name a folder for the containers' keys with --secrets, or a file to write with --file")
		}
		dir = strings.TrimSuffix(file, filepath.Ext(file)) + ".secrets"
	}
	if strings.ContainsAny(dir, "}\n") {
		return "", spec.Usagef("--secrets %q: a compose file cannot name it", dir)
	}
	if err := os.Mkdir(dir, 0o700); errors.Is(err, os.ErrExist) {
		return "", spec.Usagef("%s is there already, and is not overwritten; take it away, or choose another folder with --secrets", dir)
	} else if err != nil {
		return "", spec.Usagef("--secrets: %w", err)
	}
	files[".gitignore"] = []byte("*\n") // so that they get into no repository by accident
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
