// Package pki makes and checks the certificates of a fabric. A fabric has one certificate
// authority, and one certificate for each chip. A chip's certificate names the fabric and the chip
// in a URI.
//
// A folder of certificates holds
//
//	ca.pem, ca.key        the authority; only a program that makes certificates needs ca.key
//	M0D3.pem, M0D3.key    a chip's certificate and key
//
// A chip needs ca.pem and its own two files. Keys are ECDSA on P-256, in PKCS #8. The package
// refuses a key file whose mode gives any permission to others than the owner, except in [Mounted].
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ttfabric/wire"
)

// Mounted is the folder in which container engines put files that only one container sees. The
// owners and modes of these files come from another machine or from the engine. The modes therefore
// do not show who can read the files.
const Mounted = "/run/secrets"

// Scheme is the scheme of the URI in a chip's certificate: ttfabric://FABRIC/M0D3.
const Scheme = "ttfabric"

// Limits of certificates.
const (
	DefaultValidity = 365 * 24 * time.Hour      // default validity of a chip's certificate
	AuthorityFor    = 10 * 365 * 24 * time.Hour // validity of an authority
	MaxValidity     = AuthorityFor              // longest validity of a chip's certificate
	backdate        = 5 * time.Minute           // time by which a certificate's validity begins before the certificate is made, because the clocks of two machines may differ
	maxFile         = 64 << 10                  // largest file that the package reads, in bytes
)

// Identity names the chip that owns a certificate, and the chip's fabric.
type Identity struct {
	Fabric string
	Chip   wire.FabricNodeID
}

// URI returns the identity as a URI, such as ttfabric://lab/M0D3.
func (i Identity) URI() string { return Scheme + "://" + i.Fabric + "/" + i.Chip.String() }

// String returns the identity in the form: chip M0D3 of fabric "lab".
func (i Identity) String() string { return fmt.Sprintf("chip %s of fabric %q", i.Chip, i.Fabric) }

// ParseIdentity reads an identity in the form that URI returns.
func ParseIdentity(uri string) (Identity, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != Scheme || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Identity{}, fmt.Errorf("%q is not the URI of a chip: want %s://FABRIC/M0D3", uri, Scheme)
	}
	n, err := wire.ParseFabricNodeID(strings.TrimPrefix(u.Path, "/"))
	if err != nil {
		return Identity{}, fmt.Errorf("%q is not the URI of a chip: %w", uri, err)
	}
	i := Identity{u.Host, n}
	if i.URI() != uri {
		return Identity{}, fmt.Errorf("%q is not the URI of a chip: want %s", uri, i.URI())
	}
	return i, nil
}

// IdentityOf returns the identity that the URI in a certificate names.
func IdentityOf(c *x509.Certificate) (Identity, error) {
	if len(c.URIs) != 1 {
		return Identity{}, fmt.Errorf("the certificate %q names no chip: want one URI, %s://FABRIC/M0D3", c.Subject.CommonName, Scheme)
	}
	return ParseIdentity(c.URIs[0].String())
}

// Authority is a certificate authority, which signs the certificates of chips.
type Authority struct {
	Cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority makes the authority of a fabric, valid from now on.
func NewAuthority(fabric string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: "ttfabric authority of " + fabric},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(AuthorityFor), IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	return &Authority{c, key}, err
}

// Issue makes a key for a chip, and a certificate that is valid from now on. Issue returns both in
// PEM. The certificate ends no later than the authority's certificate.
func (a *Authority) Issue(id Identity, now time.Time, valid time.Duration) (cert, key []byte, err error) {
	if valid <= 0 || valid > MaxValidity {
		return nil, nil, fmt.Errorf("a certificate for %v: want more than 0 and at most %v", valid, MaxValidity)
	}
	u, err := url.Parse(id.URI())
	if err != nil {
		return nil, nil, fmt.Errorf("fabric name %q does not fit a URI: %w", id.Fabric, err)
	}
	if _, err := ParseIdentity(id.URI()); err != nil {
		return nil, nil, err
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	end := now.Add(valid)
	if end.After(a.Cert.NotAfter) {
		end = a.Cert.NotAfter
	}
	t := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: id.Chip.String(), Organization: []string{id.Fabric}},
		NotBefore: now.Add(-backdate), NotAfter: end, URIs: []*url.URL{u}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, t, a.Cert, k.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	if _, err := x509.ParseCertificate(der); err != nil {
		return nil, nil, fmt.Errorf("fabric name %q does not fit a certificate; choose one of letters, digits and '-': %w", id.Fabric, err)
	}
	key, err = keyPEM(k)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key, err
}

func serial() *big.Int {
	var b [16]byte
	rand.Read(b[:])
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}

func keyPEM(k crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// Save writes the authority into a folder. If a file exists already, Save keeps the file and
// returns an error that matches fs.ErrExist.
func (a *Authority) Save(dir string) error {
	key, err := keyPEM(a.key)
	if err != nil {
		return err
	}
	return saveNew(dir, "ca", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw}), key)
}

// SaveChip writes a chip's certificate and key into a folder. If "replace" is true, SaveChip
// overwrites existing files. If "replace" is false and a file exists, SaveChip returns an error
// that matches fs.ErrExist.
func SaveChip(dir string, chip wire.FabricNodeID, cert, key []byte, replace bool) error {
	if !replace {
		return saveNew(dir, chip.String(), cert, key)
	}
	// SaveChip renames the two new files one after the other. A chip that starts between the two
	// renames finds a key and a certificate that do not belong together, and reports an error.
	for _, f := range []struct {
		ext  string
		b    []byte
		mode os.FileMode
	}{{".key", key, 0o600}, {".pem", cert, 0o644}} {
		path := filepath.Join(dir, chip.String()+f.ext)
		tmp := path + ".new"
		os.Remove(tmp)
		if err := create(tmp, f.b, f.mode); err != nil {
			return err
		}
		if err := os.Rename(tmp, path); err != nil {
			os.Remove(tmp)
			return fmt.Errorf("cannot write %s: %w", path, err)
		}
	}
	return nil
}

func saveNew(dir, name string, cert, key []byte) error {
	path := filepath.Join(dir, name)
	if err := create(path+".key", key, 0o600); err != nil {
		return err
	}
	if err := create(path+".pem", cert, 0o644); err != nil {
		os.Remove(path + ".key")
		return err
	}
	return nil
}

// create writes a new file. If the file exists already, the error matches fs.ErrExist.
func create(path string, b []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: %w", path, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		os.Remove(path)
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return nil
}

// LoadAuthority reads the authority's certificate and key from a folder.
func LoadAuthority(dir string) (*Authority, error) {
	c, err := LoadCertificate(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, err
	}
	pair, err := loadPair(dir, "ca")
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !c.IsCA {
		return nil, fmt.Errorf("%s is not an authority that can sign", filepath.Join(dir, "ca.pem"))
	}
	return &Authority{c, key}, nil
}

// LoadCertificate reads the first block of a PEM file, which must be a certificate.
func LoadCertificate(path string) (*x509.Certificate, error) {
	b, err := readFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s holds no certificate in PEM", path)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func readFile(path string) ([]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w; 'ttfabric pki make' makes the certificates of a fabric", err)
	}
	if fi.Size() > maxFile || !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes", path, maxFile)
	}
	return os.ReadFile(path)
}

// exposed reports whether users other than the owner have any permission on a key file with the
// mode m in the folder dir. For the folder [Mounted], exposed returns false.
func exposed(dir string, m fs.FileMode) bool {
	return m.Perm()&0o077 != 0 && filepath.Clean(dir) != Mounted
}

// loadPair reads a certificate and its key. If others have any permission on the key's file (see
// exposed), loadPair returns an error.
func loadPair(dir, name string) (p tls.Certificate, err error) {
	path := filepath.Join(dir, name)
	cert, err := readFile(path + ".pem")
	if err != nil {
		return p, err
	}
	key, err := readFile(path + ".key")
	if err != nil {
		return p, err
	}
	if fi, err := os.Stat(path + ".key"); err == nil && exposed(dir, fi.Mode()) {
		return p, fmt.Errorf("%s.key can be read by others (mode %04o); run 'chmod 600 %s.key' to make the key readable only by you", path, fi.Mode().Perm(), path)
	}
	if p, err = tls.X509KeyPair(cert, key); err != nil {
		return p, fmt.Errorf("%s.pem and .key: %w", path, err)
	}
	return p, nil
}
