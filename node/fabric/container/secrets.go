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

// Keys and certificates of containers are files in one folder, which no other user may enter.
// Compose mounts the files read-only. Compose mounts a chip's own certificate and key only in the
// container of the chip. No image, environment, command line or compose file contains a key or
// certificate. The files have mode 0444, because the user in a container has no account on this
// machine. On this machine, the mode of the folder protects the files.
const (
	SecretsName = "secrets" // name of the folder with the secrets, in a run folder
	SecretMode  = 0o444     // mode of the files with secrets
	secretsEnv  = "TTFABRIC_SECRETS"
	secretsUser = 65532 // user id of the program in a container, see docker/Dockerfile
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

// allSecrets returns the secrets of all chips of a fabric, each secret once.
func allSecrets(m *spec.Spec, t *topo.Topology) []secret {
	out := commonSecrets(m)
	for _, c := range t.Chips {
		out = append(out, ownSecrets(m, c.Node)...)
	}
	return out
}

// secretsKey returns the text ", secrets: […]" for the service of chip n in a compose or
// stack file. secretsKey returns "" if the chip has no secrets. The list begins with the
// names in more. Each entry of a secret ends with the text "owner".
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

// secretFiles returns the lines of a compose or stack file that declare the secrets. The parameter
// "folder" is the folder of the secrets, as the compose or stack file names the folder.
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

// certificates reads the files with the certificates and keys of a fabric's chips from the folder
// dir. certificates stores the content of each file in the map named "into", by file name.
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

// writeSecrets writes files with keys and certificates into the folder dir. The map "files"
// has the content of each file, by file name.
func writeSecrets(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder for the keys of the containers: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := folder.WriteFileAs(filepath.Join(dir, name), files[name], SecretMode); err != nil {
			return fmt.Errorf("cannot write the keys of the containers: %w", err)
		}
	}
	return nil
}

// Share copies a fabric's keys and certificates to the folder [SecretsName] of the run folder.
// Containers mount the files of this folder. A container uses the content that the files have when
// the container starts.
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

// certify updates the keys and certificates of chips ns before the chips start. If the run
// folder has a compose file, certify calls [Share]. Otherwise the user brought up the
// fabric with another compose file. In this case, certify copies only certificates, which
// 'pki renew' may have replaced. If the folder of the certificates does not exist any more,
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
			return fmt.Errorf("chip %s: cannot update the chip's certificate: %w", n, err)
		}
	}
	return nil
}

// mount is a file of this machine that a container mounts. Source is the path on this
// machine, and Destination is the path in the container.
type mount struct{ Source, Destination string }

// renewed copies the certificates of chip n from the folder m.PKI to the files that the
// container of the chip mounts.
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
