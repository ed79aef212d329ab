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

// The keys and certificates of a fabric's containers are files in one folder. This file calls them
// secrets. Compose mounts the files read-only. Compose mounts a chip's own certificate and key only
// in the container of the chip. No image, environment, command line or compose file contains a key
// or certificate. The program in a container runs as the user secretsUser, who does not own the
// files. The files therefore have mode 0444. On this machine, the mode of the folder keeps other
// users out.
const (
	SecretsName = "secrets"          // name of the folder with the secrets; the folder lies in the run folder of the fabric
	SecretMode  = 0o444              // mode of the files with secrets
	secretsEnv  = "TTFABRIC_SECRETS" // environment variable with the folder of the secrets
	secretsUser = 65532              // user id of the program in a container, see docker/Dockerfile
	caCert      = "ca.pem"           // file name of the CA certificate
)

// The type "secret" describes a file that compose mounts in the folder [pki.Mounted] of containers.
// The field "name" is the name of the secret in the compose file, and "file" is the name of the
// file.
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

// allSecrets returns the secrets of all chips of a fabric. Each secret is in the result once.
func allSecrets(m *spec.Spec, t *topo.Topology) []secret {
	out := commonSecrets(m)
	for _, c := range t.Chips {
		out = append(out, ownSecrets(m, c.Node)...)
	}
	return out
}

// secretsKey returns the text ", secrets: […]" for the service of chip n in a compose or stack
// file. The list in the text begins with the names in the parameter "more". Then the list has an
// entry for each secret of the chip. Each of these entries ends with the text in the parameter
// "owner". If the chip has no secrets, secretsKey returns "".
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
// "folder" is the path of the folder of the secrets, as the lines give the path.
func secretFiles(m *spec.Spec, t *topo.Topology, folder string) string {
	var b strings.Builder
	for _, s := range allSecrets(m, t) {
		fmt.Fprintf(&b, "  %s: {file: %s}\n", s.name, quoted(folder+"/"+s.file))
	}
	return b.String()
}

// secureArguments returns the flags of the command 'node' for the keys, the transport and the auth
// of a fabric of containers.
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

// The function "certificates" reads the CA certificate, and the certificates and private keys of
// all chips, from the folder dir. The function stores the content of each file in the map "into",
// under the name of the file. If the links do not use mutual TLS (mtls), the function does nothing.
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
			return fmt.Errorf("cannot read a certificate or private key for the containers: %w", err)
		}
		into[s.file] = b
	}
	return nil
}

// writeSecrets writes files with keys and certificates into the folder dir. The map "files" holds
// the content of each file, under the name of the file.
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

// Share copies the keys and certificates of a fabric to the folder [SecretsName] in the run folder.
// Compose mounts the files of this folder in the containers. A container uses the content that the
// files have when the container starts. If the fabric has no keys and certificates, Share does
// nothing.
func Share(d folder.Dir, m *spec.Spec, t *topo.Topology) error {
	files := map[string][]byte{}
	for name, there := range map[string]bool{folder.KeysFile: m.Keyed, folder.PSKFile: m.Auth == spec.PSK} {
		if !there {
			continue
		}
		b, err := os.ReadFile(d.Path(name))
		if err != nil {
			return fmt.Errorf("cannot read a key for the containers: %w; take the fabric down with 'ttfabric down', and bring it up again with 'ttfabric up'", err)
		}
		files[name] = b
	}
	if err := certificates(m, t, d.PKI(m), files); err != nil || len(files) == 0 {
		return err
	}
	return writeSecrets(d.Path(SecretsName), files)
}

// The method "certify" updates the keys and certificates of the chips ns before the chips start. If
// the run folder has a compose file, the method calls [Share]. Otherwise, the user brought up the
// fabric with another compose file. If the links of this fabric use mutual TLS (mtls), the method
// copies the CA certificate, and the certificates and private keys of the chips. The command 'pki
// renew' may have replaced these files. If the folder h.Spec.PKI with these files does not exist
// any more, the chips keep their old certificates and private keys. The map "there" has the
// containers of the fabric. The method passes over chips that have no container in this map.
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
			return fmt.Errorf("chip %s: cannot update the certificates and the private key in the chip's container: %w", n, err)
		}
	}
	return nil
}

// The type "mount" describes a file of this machine that a container mounts. Source is the path on
// this machine, and Destination is the path in the container.
type mount struct{ Source, Destination string }

// The function "renewed" copies three files from the folder m.PKI: the certificate of chip n, the
// private key of the chip, and the CA certificate. The function writes them to the files of this
// machine that the container of the chip mounts. The function passes over a file that is missing in
// m.PKI, and over a file whose content has not changed.
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
