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

// Keys and certificates of containers are files in one folder, which no other user
// may enter. Compose mounts the files read-only, and mounts each chip's own files
// only in its container. No image, environment, command line or compose file holds
// them. The files have mode 0444, because the image's user is no user of this
// machine. On this machine the folder protects the files, and a container has no
// other user.
const (
	SecretsName = "secrets" // name of the folder in a run folder
	SecretMode  = 0o444     // mode of the files in the folder
	secretsEnv  = "TTFABRIC_SECRETS"
	secretsUser = 65532 // number of the image's user, see docker/Dockerfile
	caCert      = "ca.pem"
)

// secret is a file that compose mounts in containers, in the folder [pki.Mounted].
type secret struct{ name, file string }

// commonSecrets returns the secrets that are mounted in the containers of all chips.
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

// ownSecrets returns the secrets that are mounted only in the container of chip n.
func ownSecrets(m *spec.Spec, n wire.FabricNodeID) []secret {
	if m.Auth != spec.MTLS {
		return nil
	}
	return []secret{{ServiceName(n) + "-cert", n.String() + ".pem"}, {ServiceName(n) + "-key", n.String() + ".key"}}
}

// allSecrets returns the secrets of all chips, each once.
func allSecrets(m *spec.Spec, t *topo.Topology) []secret {
	out := commonSecrets(m)
	for _, c := range t.Chips {
		out = append(out, ownSecrets(m, c.Node)...)
	}
	return out
}

// secretsKey returns the key "secrets" of a chip's service, as the end of a YAML map in
// one line. secretsKey returns "" if the chip has no secrets. The names in the
// parameter "more" come first in the list. The parameter "owner" is the text at the end
// of each secret's entry.
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

// secretFiles returns the entries of the secrets in a compose or stack file. The
// parameter "folder" is the folder of the secrets, as the compose or stack file names
// this folder.
func secretFiles(m *spec.Spec, t *topo.Topology, folder string) string {
	var b strings.Builder
	for _, s := range allSecrets(m, t) {
		fmt.Fprintf(&b, "  %s: {file: %s}\n", s.name, quoted(folder+"/"+s.file))
	}
	return b.String()
}

// secureArguments returns the flags of 'node' for the keys, transport and auth of a fabric of containers.
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

// certificates reads the certificates and keys of a fabric's chips from the folder dir.
// certificates stores the content of these files in the map "into", by file name.
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
			return fmt.Errorf("cannot read a certificate for the containers: %w", err)
		}
		into[s.file] = b
	}
	return nil
}

// writeSecrets writes files with secrets for containers into the folder dir.
func writeSecrets(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder for the containers' keys: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := folder.WriteFileAs(filepath.Join(dir, name), files[name], SecretMode); err != nil {
			return fmt.Errorf("the containers' keys cannot be written: %w", err)
		}
	}
	return nil
}

// Share copies the run folder's keys and certificates to the folder that containers
// mount. A container uses the files that the folder holds at the start of the
// container.
func Share(d folder.Dir, m *spec.Spec, t *topo.Topology) error {
	files := map[string][]byte{}
	for name, there := range map[string]bool{folder.KeysFile: m.Keyed, folder.PSKFile: m.Auth == spec.PSK} {
		if !there {
			continue
		}
		b, err := os.ReadFile(d.Path(name))
		if err != nil {
			return fmt.Errorf("cannot read a key for the containers: %w; take the fabric down with 'ttfabric down', and up again", err)
		}
		files[name] = b
	}
	if err := certificates(m, t, d.PKI(m), files); err != nil || len(files) == 0 {
		return err
	}
	return writeSecrets(d.Path(SecretsName), files)
}

// certify brings the secrets of chips ns up to date before the chips start. If the
// run folder has a compose file, certify copies all keys and certificates.
// Otherwise the user wrote the compose file, and certify copies only certificates,
// which 'pki renew' may have replaced. If the folder of the certificates is gone,
// the chips keep their old certificates.
func (h Host) certify(ctx context.Context, ns []wire.FabricNodeID, there map[wire.FabricNodeID]container) error {
	if _, err := os.Stat(h.Dir.Path(ComposeName)); err == nil { // this program wrote the compose file
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
			return fmt.Errorf("chip %s: cannot bring its certificate up to date: %w", n, err)
		}
	}
	return nil
}

// mount is a file of this machine (Source) that a container mounts as Destination.
type mount struct{ Source, Destination string }

// renewed copies a chip's certificates from the folder m.PKI to the files that its container mounts.
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
