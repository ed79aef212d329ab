package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/wire"
)

// Keys and certificates of containers are files of one folder that nobody else
// may enter, which compose mounts read-only, each chip's in its own container.
// They are in no image, environment, command line or compose file. Their mode
// is 0444, as the user of the image is nobody of this machine: it is the folder
// that keeps them here, and in the container there is no other user.
const (
	SecretsName = "secrets" // of the folder, in a run folder
	SecretMode  = 0o444     // of its files
	secretsEnv  = "TTFABRIC_SECRETS"
	secretsUser = 65532 // of the image, see docker/Dockerfile
	caCert      = "ca.pem"
)

// secret is a file that containers see below pki.Mounted.
type secret struct{ name, file string }

// commonSecrets are those that the containers of all chips see.
func commonSecrets(m *spec.Spec) (out []secret) {
	if m.Keyed {
		out = append(out, secret{"gossip-keys", folder.KeysFile})
	}
	switch m.Auth {
	case spec.PSK:
		out = append(out, secret{"psk", folder.PSKFile})
	case spec.MTLS:
		out = append(out, secret{"ca", caCert})
	}
	return out
}

// ownSecrets are those that the container of one chip sees beside them.
func ownSecrets(m *spec.Spec, n wire.FabricNodeID) []secret {
	if m.Auth != spec.MTLS {
		return nil
	}
	return []secret{{ServiceName(n) + "-cert", n.String() + ".pem"}, {ServiceName(n) + "-key", n.String() + ".key"}}
}

// allSecrets are those of all chips, each once.
func allSecrets(m *spec.Spec, t *topo.Topology) []secret {
	out := commonSecrets(m)
	for _, c := range t.Chips {
		out = append(out, ownSecrets(m, c.Node)...)
	}
	return out
}

// secretsKey is the key secrets of a chip's service, as it follows others of a
// map in one line; "" for none. What is in more comes first, and owner is what
// else each of them has.
func secretsKey(m *spec.Spec, n wire.FabricNodeID, owner string, more ...string) string {
	list := slices.Clone(more)
	for _, s := range slices.Concat(commonSecrets(m), ownSecrets(m, n)) {
		list = append(list, fmt.Sprintf("{source: %s, target: %s%s}", s.name, s.file, owner))
	}
	if len(list) == len(more) {
		return ""
	}
	return ", secrets: [" + strings.Join(list, ", ") + "]"
}

// secretFiles are the entries of a file's list of secrets, from the folder as the file names it.
func secretFiles(m *spec.Spec, t *topo.Topology, folder string) string {
	var b strings.Builder
	for _, s := range allSecrets(m, t) {
		fmt.Fprintf(&b, "  %s: {file: %s}\n", s.name, quoted(folder+"/"+s.file))
	}
	return b.String()
}

// secureArguments are the flags of 'node' that say how a fabric of containers is secured.
func secureArguments(m *spec.Spec, t *topo.Topology) (out []string) {
	if m.Keyed {
		out = append(out, "--gossip-key", pki.Mounted+"/"+folder.KeysFile)
	}
	if m.Transport != spec.UDP || m.Auth != spec.None || t.Transport != "" || t.Auth != "" {
		out = append(out, "--transport", m.Transport, "--auth", m.Auth)
	}
	switch m.Auth {
	case spec.PSK:
		out = append(out, "--psk-file", pki.Mounted+"/"+folder.PSKFile)
	case spec.MTLS:
		out = append(out, "--pki", pki.Mounted)
	}
	return out
}

// certificates reads what the chips of a fabric need of a folder of certificates, by file names.
func certificates(m *spec.Spec, t *topo.Topology, dir string, into map[string][]byte) error {
	if m.Auth != spec.MTLS {
		return nil
	}
	for _, s := range allSecrets(m, t) {
		if s.file == folder.KeysFile {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, s.file))
		if err != nil {
			return fmt.Errorf("a certificate of the containers: %w", err)
		}
		into[s.file] = b
	}
	return nil
}

// writeSecrets writes files that containers see.
func writeSecrets(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the containers' keys cannot be written: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := folder.WriteFileAs(filepath.Join(dir, name), files[name], SecretMode); err != nil {
			return fmt.Errorf("the containers' keys cannot be written: %w", err)
		}
	}
	return nil
}

// Share brings what containers see of the run folder's keys and certificates
// up to date. A container sees what is there when it starts.
func Share(d folder.Dir, m *spec.Spec, t *topo.Topology) error {
	files := map[string][]byte{}
	for name, there := range map[string]bool{folder.KeysFile: m.Keyed, folder.PSKFile: m.Auth == spec.PSK} {
		if !there {
			continue
		}
		b, err := os.ReadFile(d.Path(name))
		if err != nil {
			return fmt.Errorf("a key of the containers: %w; take the fabric down and up again", err)
		}
		files[name] = b
	}
	if err := certificates(m, t, d.PKI(m), files); err != nil || len(files) == 0 {
		return err
	}
	return writeSecrets(d.Path(SecretsName), files)
}

// certify brings what chips see up to date before they start: of a run folder
// all, of a compose file of the user's own the certificates that 'pki renew' may
// have made since. Where their folder is gone, those that they had remain.
func (h Host) certify(ctx context.Context, ns []wire.FabricNodeID, there map[wire.FabricNodeID]container) error {
	if _, err := os.Stat(h.Dir.Path(ComposeName)); err == nil { // it is for this program to say what they see
		t, err := h.Dir.Topology()
		if err != nil {
			return err
		}
		return Share(h.Dir, &h.Spec, t)
	}
	if h.Spec.Auth != spec.MTLS || h.Spec.PKI == "" {
		return nil
	}
	for _, n := range ns {
		c, ok := there[n]
		if !ok {
			continue
		}
		out, err := docker(ctx, "inspect", "--type", "container", "--format", "{{json .Mounts}}", c.id)
		var mounts []mount
		if err == nil {
			err = json.Unmarshal(out, &mounts)
		}
		if err == nil {
			err = renewed(&h.Spec, n, mounts)
		}
		if err != nil {
			return fmt.Errorf("chip %s: its certificate cannot be brought up to date: %w", n, err)
		}
	}
	return nil
}

// mount is a file of this machine that a container sees.
type mount struct{ Source, Destination string }

// renewed copies a chip's certificates from their folder to where its container has them from.
func renewed(m *spec.Spec, n wire.FabricNodeID, mounts []mount) error {
	for _, s := range append(ownSecrets(m, n), secret{"ca", caCert}) {
		b, err := os.ReadFile(filepath.Join(m.PKI, s.file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for _, x := range mounts {
			if err != nil || x.Destination != pki.Mounted+"/"+s.file {
				continue
			}
			if has, _ := os.ReadFile(x.Source); !bytes.Equal(has, b) {
				err = folder.WriteFileAs(x.Source, b, SecretMode)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
