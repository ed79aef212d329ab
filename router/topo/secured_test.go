package topo

import (
	"reflect"
	"strings"
	"testing"
)

// secured is a file with the keys transport and auth.
const secured = `ttfabric: 1
name: lab
arch: wormhole_b0
transport: udp
auth: psk
meshes:
    - {id: 0, rows: 1, cols: 2}
chips:
    - chip: M0D0
    - chip: M0D1
cables:
    - {a: M0D0/8, b: M0D1/0}
`

func TestSecuredLinks(t *testing.T) {
	m, err := Load("lab.yaml", []byte(secured))
	if err != nil || m.Transport != "udp" || m.Auth != "psk" {
		t.Fatalf("%+v, %v", m, err)
	}
	again, err := Load("lab.yaml", m.Encode())
	if err != nil || !reflect.DeepEqual(again, m) {
		t.Errorf("read back as %+v, %v", again, err)
	}
	plain, err := Load("lab.yaml", []byte(strings.NewReplacer("transport: udp\n", "", "auth: psk\n", "").Replace(secured)))
	if err != nil || plain.Transport != "" || plain.Auth != "" || plain.Hash() != m.Hash() || plain.SameNotes(m) {
		t.Errorf("without the keys: %+v, %v", plain, err)
	}
	if _, err := m.EncodeClusterDescriptor(); err == nil || !strings.Contains(err.Error(), "cannot") {
		t.Errorf("a cluster descriptor is written without what secures the links: %v", err)
	}
	for _, c := range []struct{ what, with, want string }{
		{"transport: udp", "transport: tcp", `f:4: transport "tcp": want udp or quic`},
		{"transport: udp", "transport: [udp]", `f:4: transport: want a plain value, not a list`},
		{"auth: psk", "auth: PSK", `f:5: auth "PSK": want none, psk or mtls`},
		{"auth: psk", "auth:", `f:5: auth "": want none, psk or mtls`},
		{"auth: psk", "auth: off", `f:5: auth "off": want none, psk or mtls`},
		{"auth: psk", "auth: psk\nauth: none", `f:6: file: key "auth" occurs already on line 5`},
		{"auth: psk", "auth: psk\npsk: x", `f:6: unknown key "psk" in version 1 of ttfabric's topology file format`},
	} {
		if _, err := Load("f", []byte(strings.Replace(secured, c.what, c.with, 1))); err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", c.with, err, c.want)
		}
	}
	m.Auth = "x"
	if err := m.Validate(); err == nil || !strings.Contains(err.Error(), `auth "x"`) {
		t.Errorf("auth x: %v", err)
	}
}

// TestDescriptorsAreNotSecured finds that Load refuses the keys transport and auth in descriptors,
// although Load ignores other unknown keys. Ignoring these keys would leave links without
// encryption.
func TestDescriptorsAreNotSecured(t *testing.T) {
	m := mustName(t, "n300")
	umd, err := m.EncodeClusterDescriptor()
	if err != nil {
		t.Fatal(err)
	}
	mgd := "ChipSpec: {arch: wormhole_b0, ethernet_ports: {N: 2, E: 2, S: 2, W: 2}}\nBoard: [{name: b, type: Mesh, topology: [1, 2]}]\nMesh: [{id: 0, board: b, device_topology: [1, 2]}]\n"
	for _, text := range []string{string(umd), mgd} {
		if _, err := Load("f", []byte(text+"other: psk\n")); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"auth", "transport"} {
			if _, err := Load("f", []byte(text+key+": psk\n")); err == nil || !strings.Contains(err.Error(), "key "+key+": a descriptor has no such key; use the flag --"+key+", or use 'ttfabric generate FILE'") {
				t.Errorf("%s in a descriptor: %v", key, err)
			}
		}
	}
}
