package main

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

	"github.com/spf13/cobra"

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
	secretsName = "secrets" // of the folder, in a run folder
	secretMode  = 0o444     // of its files
	secretsEnv  = envPrefix + "SECRETS"
	secretsUser = 65532 // of the image, see docker/Dockerfile
	caCert      = "ca.pem"
)

// secret is a file that containers see below pki.Mounted.
type secret struct{ name, file string }

// commonSecrets are those that the containers of all chips see.
func commonSecrets(m *spec.Spec) (out []secret) {
	if m.Keyed {
		out = append(out, secret{"gossip-keys", keysFile})
	}
	switch m.Auth {
	case spec.PSK:
		out = append(out, secret{"psk", pskFile})
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
	return []secret{{serviceName(n) + "-cert", n.String() + ".pem"}, {serviceName(n) + "-key", n.String() + ".key"}}
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
		out = append(out, "--gossip-key", pki.Mounted+"/"+keysFile)
	}
	if m.Transport != spec.UDP || m.Auth != spec.None || t.Transport != "" || t.Auth != "" {
		out = append(out, "--transport", m.Transport, "--auth", m.Auth)
	}
	switch m.Auth {
	case spec.PSK:
		out = append(out, "--psk-file", pki.Mounted+"/"+pskFile)
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
		if s.file == keysFile {
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
		if err := writeFileAs(filepath.Join(dir, name), files[name], secretMode); err != nil {
			return fmt.Errorf("the containers' keys cannot be written: %w", err)
		}
	}
	return nil
}

// share brings what containers see of the run folder's keys and certificates
// up to date. A container sees what is there when it starts.
func (d runDir) share(m *spec.Spec, t *topo.Topology) error {
	files := map[string][]byte{}
	for name, there := range map[string]bool{keysFile: m.Keyed, pskFile: m.Auth == spec.PSK} {
		if !there {
			continue
		}
		b, err := os.ReadFile(d.path(name))
		if err != nil {
			return fmt.Errorf("a key of the containers: %w; take the fabric down and up again", err)
		}
		files[name] = b
	}
	dir := m.PKI
	if dir == "" {
		dir = d.path(pkiDir)
	}
	if err := certificates(m, t, dir, files); err != nil || len(files) == 0 {
		return err
	}
	return writeSecrets(d.path(secretsName), files)
}

// certify brings what chips see up to date before they start: of a run folder
// all, of a compose file of the user's own the certificates that 'pki renew' may
// have made since. Where their folder is gone, those that they had remain.
func (h containers) certify(ctx context.Context, ns []wire.FabricNodeID, there map[wire.FabricNodeID]container) error {
	if _, err := os.Stat(h.dir.path(composeName)); err == nil { // it is for this program to say what they see
		_, t, _, err := h.dir.mesh()
		if err != nil {
			return err
		}
		return h.dir.share(&h.m, t)
	}
	if h.m.Auth != spec.MTLS || h.m.PKI == "" {
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
			err = renewed(&h.m, n, mounts)
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
				err = writeFileAs(x.Source, b, secretMode)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keyFlags say where 'compose' and 'stack' have keys from, and where they put what containers are to see of them.
type keyFlags struct {
	gossip, folder string
	made           string // the folder that was written
}

func (k *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&k.gossip, "gossip-key", "", "encrypt gossip: a file with a key, as 'gossip keygen' writes it, or generate")
	c.Flags().StringVar(&k.folder, "secrets", "", "folder to make for the keys and certificates that containers see (default: that of --file, with the ending .secrets)")
}

// write makes the folder of a fabric's keys and certificates, where the flags or
// the topology ask for any, and returns what the file has to say of them. file is the one
// that is about to be written, "" for standard output: it names the folder from where it is itself.
func (k *keyFlags) write(c *cobra.Command, m *spec.Spec, t *topo.Topology, f *secureFlags, file string) (folder string, err error) {
	files := map[string][]byte{}
	if k.gossip != "" {
		keys, err := readKeys(c, "--gossip-key", k.gossip)
		if err != nil {
			return "", err
		}
		m.Keyed = true
		files[keysFile] = keyList(keys)
	}
	if m.Auth == spec.MTLS && m.PKI == "" {
		return "", spec.Usagef("--transport quic: name the folder of the chips' certificates with --pki; 'ttfabric pki make %s --name %s' makes one", t.Name, m.Name)
	}
	if m.Auth == spec.MTLS {
		if _, err := f.secrets(c, t, m); err != nil { // whether they are this fabric's
			return "", err
		}
	}
	if m.Auth == spec.PSK {
		key, err := f.psk(c)
		if err != nil {
			return "", err
		}
		files[pskFile] = pskText(key)
	}
	if err := certificates(m, t, m.PKI, files); err != nil {
		return "", err
	}
	if len(files) == 0 {
		if k.folder != "" {
			return "", spec.Usagef("--secrets: there are none; --auth psk, --transport quic and --gossip-key bring some")
		}
		return "", nil
	}
	return k.place(file, files)
}

// told says where the keys are, after what else was written.
func (k *keyFlags) told() string {
	if k.made == "" {
		return ""
	}
	return ", whose keys are in " + k.made
}

// place writes the folder, and says how the file names it.
func (k *keyFlags) place(file string, files map[string][]byte) (string, error) {
	dir := k.folder
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
	k.made = dir
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
