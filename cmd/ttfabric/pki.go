package main

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/ttlink/transport/pki"
	"ttfabric/wire"
)

func newPKI() *cobra.Command {
	c := &cobra.Command{Use: "pki", Short: "Make and show the certificates of chips, for links over QUIC",
		Long: `The commands below pki keep a folder with a certificate authority, and a certificate
for each chip of a fabric. A certificate names the chip and the fabric (--name) in a
URI, such as ttfabric://FABRIC/M0D3. A link over QUIC accepts only the chip at the
other end of the link's cable.

A chip on a machine of its own needs ca.pem and two files of the chip, such as
M0D3.pem and M0D3.key. Copy these files to a folder on that machine, and give this
folder to 'ttfabric node' with --pki. Keep ca.key on another machine, because whoever
has ca.key can pose as any chip. Chips refuse key files that other users can read.

Links over sealed UDP (--auth psk) need no certificates, but one key for all chips.
'ttfabric gossip keygen -f FILE' makes the key.`}
	var dir string
	c.PersistentFlags().StringVarP(&dir, "dir", "d", "pki", "folder with the certificates")
	c.AddCommand(newPKIMake(&dir), newPKIShow(&dir), newPKIRenew(&dir))
	return c
}

// validity returns an error if d, the time for which certificates are valid, is out of
// range. The flag --valid gives d.
func validity(d time.Duration) error {
	if d <= 0 || d > pki.MaxValidity {
		return spec.Usagef("--valid %v: want more than 0 and at most %v", d, pki.MaxValidity)
	}
	return nil
}

func newPKIMake(dir *string) *cobra.Command {
	var valid time.Duration
	c := &cobra.Command{Use: "make [TOPOLOGY]", Short: "Make an authority and a certificate for each chip", Args: cobra.MaximumNArgs(1),
		Long: `The command writes a new authority, and a certificate for each chip of a topology,
into a folder. TOPOLOGY is a topology as for 'up' (default: t3000). The command
overwrites no file.`,
		Example:           "  ttfabric pki make t3000 -d pki --name lab\n  ttfabric up t3000 --name lab --transport quic --pki pki",
		ValidArgsFunction: completeTopology,
		RunE: func(c *cobra.Command, args []string) error {
			name, _ := c.Flags().GetString("name")
			if err := spec.CheckName(name); err != nil {
				return err
			}
			if err := validity(valid); err != nil {
				return err
			}
			t, err := folder.LoadTopology(c.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			chips := t.Nodes()
			if err := os.MkdirAll(*dir, 0o700); err != nil {
				return fmt.Errorf("cannot make the folder: %w", err)
			}
			if err := pki.Make(*dir, name, chips, time.Now(), valid); errors.Is(err, fs.ErrExist) {
				return spec.Usagef("%w; 'pki make' overwrites no file; choose another --dir, or let 'ttfabric pki renew' make new certificates of the same authority", err)
			} else if err != nil {
				return err
			}
			return showPKI(c, *dir)
		}}
	c.Flags().DurationVar(&valid, "valid", pki.DefaultValidity, "time for which the chips' certificates are valid; the authority is valid for ten years")
	return c
}

func newPKIShow(dir *string) *cobra.Command {
	return &cobra.Command{Use: "show", Short: "Show the certificates of a folder", Args: cobra.NoArgs,
		Long: `The command lists the certificates of a folder.

Exit code 1 if a certificate is of another authority, is not valid at this time, or has
no key file. A key file that other users can read also gives exit code 1.`,
		Example: "  ttfabric pki show -d pki",
		RunE:    func(c *cobra.Command, _ []string) error { return showPKI(c, *dir) }}
}

func newPKIRenew(dir *string) *cobra.Command {
	var valid time.Duration
	c := &cobra.Command{Use: "renew [CHIP...]", Short: "Replace the certificates and keys of chips",
		Long: `The command replaces the certificates and keys of the named chips, or of all chips
in the folder. A chip uses the new certificate from the chip's next start on. Chips
with old and with new certificates accept each other, because one authority issued all
of these certificates.`,
		Example: "  ttfabric pki renew M0D3 -d pki\n  ttfabric chip restart M0D3",
		RunE: func(c *cobra.Command, args []string) error {
			if err := validity(valid); err != nil {
				return err
			}
			a, err := pki.LoadAuthority(*dir)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				if args, err = pkiChips(*dir); err != nil {
					return err
				}
			}
			for _, s := range args {
				n, err := wire.ParseFabricNodeID(s)
				if err != nil {
					return spec.Usagef("%w", err)
				}
				old, err := pki.LoadCertificate(filepath.Join(*dir, n.String()+".pem"))
				if err != nil {
					return err
				}
				id, err := pki.IdentityOf(old)
				if err != nil {
					return err
				}
				cert, key, err := a.Issue(id, time.Now(), valid)
				if err == nil {
					err = pki.SaveChip(*dir, n, cert, key, true)
				}
				if err != nil {
					return err
				}
			}
			return showPKI(c, *dir)
		}}
	c.Flags().DurationVar(&valid, "valid", pki.DefaultValidity, "time for which the new certificates are valid")
	return c
}

// pkiChips returns the names of the chips with a certificate in a folder, in the order of
// mesh and chip numbers.
func pkiChips(dir string) (out []string, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "M*D*.pem"))
	for _, p := range names {
		s := strings.TrimSuffix(filepath.Base(p), ".pem")
		if _, err := wire.ParseFabricNodeID(s); err == nil {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		x, _ := wire.ParseFabricNodeID(a)
		y, _ := wire.ParseFabricNodeID(b)
		return (int(x.Mesh)-int(y.Mesh))<<16 + int(x.Chip) - int(y.Chip)
	})
	return out, err
}

// pkiRow is one certificate in the form that 'pki show' prints.
type pkiRow struct {
	Chip        string    `json:"chip,omitempty"`    // chip of the certificate; "": the certificate is the authority's
	Identity    string    `json:"identity"`          // name in the certificate
	From        time.Time `json:"valid_from"`        // time from which the certificate is valid
	Until       time.Time `json:"valid_until"`       // time until which the certificate is valid
	Fingerprint string    `json:"sha256"`            // SHA-256 of the certificate, in hexadecimal digits
	Problem     string    `json:"problem,omitempty"` // why the certificate cannot be used; absent if there is no problem
}

func newPKIRow(chip string, c *x509.Certificate) pkiRow {
	sum := sha256.Sum256(c.Raw)
	return pkiRow{Chip: chip, Identity: c.Subject.CommonName, From: c.NotBefore.UTC(), Until: c.NotAfter.UTC(), Fingerprint: hex.EncodeToString(sum[:])}
}

func showPKI(c *cobra.Command, dir string) error {
	f, err := format(c)
	if err != nil {
		return err
	}
	ca, err := pki.LoadCertificate(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return err
	}
	rows := []pkiRow{newPKIRow("", ca)}
	chips, err := pkiChips(dir)
	if err != nil {
		return err
	}
	bad := 0
	for _, s := range chips {
		cert, err := pki.LoadCertificate(filepath.Join(dir, s+".pem"))
		if err != nil {
			rows, bad = append(rows, pkiRow{Chip: s, Problem: err.Error()}), bad+1
			continue
		}
		row := newPKIRow(s, cert)
		id, err := pki.IdentityOf(cert)
		if err == nil {
			row.Identity = id.URI()
			n, _ := wire.ParseFabricNodeID(s)
			_, err = pki.Load(dir, pki.Identity{Fabric: id.Fabric, Chip: n})
		}
		if err != nil {
			row.Problem, bad = err.Error(), bad+1
		}
		rows = append(rows, row)
	}
	if f != "table" {
		err = printJSON(c, rows)
	} else {
		tw := newTable(c, "Chip", "Identity", "Valid until (UTC)", "SHA-256", "State")
		tw.Least("SHA-256", "Identity")
		for _, r := range rows {
			chip, state := r.Chip, "ok"
			if chip == "" {
				chip = "-"
			}
			if r.Problem != "" {
				state = r.Problem
			}
			tw.AppendRow(table.Row{chip, r.Identity, r.Until.Format(time.DateTime), r.Fingerprint[:min(16, len(r.Fingerprint))], state})
		}
		tw.Render()
	}
	if err == nil && bad > 0 {
		return fmt.Errorf("%s of %d cannot be used; the column State (in JSON and YAML: the field problem) gives the reason, and 'ttfabric pki renew CHIP' replaces a certificate", topo.Count(bad, "certificate"), len(chips))
	}
	return err
}
