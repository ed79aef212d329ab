package pki

import (
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"ttfabric/wire"
)

// Chip holds one chip's certificate and key, and the authority that the chip trusts.
type Chip struct {
	Self  Identity
	Pair  tls.Certificate
	Roots *x509.CertPool
}

// Load reads the authority's certificate, and the certificate and key of the chip "self", from a
// folder. Load checks that the chip's certificate names self, comes from the authority, and is
// valid now. The error names the file and the reason.
func Load(dir string, self Identity) (*Chip, error) {
	ca, err := LoadCertificate(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	c := &Chip{Self: self, Roots: x509.NewCertPool()}
	c.Roots.AddCert(ca)
	if c.Pair, err = loadPair(dir, self.Chip.String()); err != nil {
		return nil, err
	}
	if c.Pair.Leaf == nil {
		if c.Pair.Leaf, err = x509.ParseCertificate(c.Pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	if err := c.Check([]*x509.Certificate{c.Pair.Leaf}, self, time.Now()); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, self.Chip.String()+".pem"), err)
	}
	return c, nil
}

// Check checks that certs, the certificates of a peer, name the chip "want". The first certificate
// is the peer's own. Check returns an error if that certificate names another chip or fabric, comes
// from another authority, or is not valid at the time now.
func (c *Chip) Check(certs []*x509.Certificate, want Identity, now time.Time) error {
	if len(certs) == 0 {
		return errors.New("the peer shows no certificate")
	}
	leaf := certs[0]
	got, err := IdentityOf(leaf)
	if err != nil {
		return err
	}
	inter := x509.NewCertPool()
	for _, x := range certs[1:] {
		inter.AddCert(x)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: c.Roots, Intermediates: inter, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.Before(leaf.NotBefore):
		return fmt.Errorf("the certificate of %s is valid from %s only; look at the clocks", got, leaf.NotBefore.UTC().Format(time.RFC3339))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the certificate of %s expired at %s; 'ttfabric pki renew' makes another", got, leaf.NotAfter.UTC().Format(time.RFC3339))
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s comes from another authority", got)
	case err != nil:
		return fmt.Errorf("the certificate of %s: %w", got, err)
	case got.Fabric != want.Fabric:
		return fmt.Errorf("the certificate is of %s, not of fabric %q", got, want.Fabric)
	case got.Chip != want.Chip:
		return fmt.Errorf("the certificate is of %s, not of chip %s", got, want.Chip)
	}
	return nil
}

// Secret derives 32 secret bytes for one purpose from the chip's private key. Every incarnation of
// the chip gets the same bytes. Only a program that has the private key can derive the bytes.
func (c *Chip) Secret(purpose string) (s [32]byte, err error) {
	k, ok := c.Pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return s, fmt.Errorf("the key of %s is not an ECDSA key", c.Self)
	}
	d, err := k.Bytes()
	if err != nil {
		return s, err
	}
	b, err := hkdf.Key(sha256.New, d, nil, "ttfabric "+purpose, len(s))
	copy(s[:], b)
	return s, err
}

// Make makes an authority, and a certificate for each chip. Make saves the authority and the
// certificates in an existing folder that has no authority yet.
func Make(dir, fabric string, chips []wire.FabricNodeID, now time.Time, valid time.Duration) error {
	a, err := NewAuthority(fabric, now)
	if err != nil {
		return err
	}
	// Make makes all certificates before it writes the first file. If the fabric's name is bad,
	// Make therefore writes no file.
	type pair struct{ cert, key []byte }
	made := make([]pair, len(chips))
	for i, c := range chips {
		if made[i].cert, made[i].key, err = a.Issue(Identity{fabric, c}, now, valid); err != nil {
			return err
		}
	}
	if err := a.Save(dir); err != nil {
		return err
	}
	for i, c := range chips {
		if err := SaveChip(dir, c, made[i].cert, made[i].key, false); err != nil {
			return err
		}
	}
	return nil
}
