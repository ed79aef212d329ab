package quicport_test

import (
	"crypto/tls"
	"path/filepath"
	"testing"

	"ttfabric/ttlink/transport/pki"
	"ttfabric/wire"
)

func pairOf(t *testing.T, dir string, n wire.FabricNodeID) tls.Certificate {
	t.Helper()
	p, err := tls.LoadX509KeyPair(filepath.Join(dir, n.String()+".pem"), filepath.Join(dir, n.String()+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// trusting returns chip 1 with the certificate from the folder dir. The chip trusts the authorities
// of both folders.
func trusting(t *testing.T, dir, also string) *pki.Chip {
	t.Helper()
	c := chip(t, dir, "lab", chip1)
	ca, err := pki.LoadCertificate(filepath.Join(also, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c.Roots.AddCert(ca)
	return c
}
