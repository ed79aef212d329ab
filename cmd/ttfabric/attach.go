package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node/admin/api"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// An attached fabric is one whose chips run on other machines. Its run folder
// holds no process of this one: mesh.json names the APIs that were given, and a
// chip file is where a chip was found last. Each command asks there again who
// runs, since gossip knows who came, went or moved (roster.go).

// Times of attaching.
const (
	attachFirst = 5 * time.Second        // until a chip answers, unless --wait is longer
	attachRetry = 250 * time.Millisecond // between two tries
)

type attachFlags struct {
	apis  []string
	token string
	wait  time.Duration
	stay  bool
}

func newAttach() *cobra.Command {
	var f attachFlags
	c := &cobra.Command{
		Use: "attach", Short: "Steer a fabric whose chips run on other machines", Args: cobra.NoArgs,
		Long: `attach makes a run folder for a fabric whose chips were started elsewhere, with
'ttfabric node --api ADDRESS', so that every other command finds it by --name as
if it ran here. The API of one chip is enough: it says what the fabric is, and
gossip knows where the others' are. A chip whose API is not at the address where
it gossips, as behind a forwarded port, has to be named itself. Without --name
the fabric keeps the name that its chips have.

Commands look for the chips anew each time: one that was started again at
another address is found through the others. The token goes to every address
that the chips name, unencrypted, so the network between has to be trusted.

What needs a chip's process, 'up' and chip start, kill, pause, resume, restart
and remove, is to be done where it runs. 'down' forgets the fabric; its chips
run on.`,
		Example: `  ttfabric attach --api 10.0.1.1:8474 --token-file token --name lab
  ttfabric attach --api tasks.m0d0,tasks.m0d1 --wait 60s
  ttfabric inspect --name lab`,
		RunE: func(c *cobra.Command, _ []string) error { return runAttach(c, f) },
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.apis, "api", nil, "where APIs of chips are, as HOST[:PORT],...; one is enough, more are safer")
	fl.StringVar(&f.token, "token-file", "", "file with the token of the APIs (default: the environment variable TTFABRIC_TOKEN)")
	fl.DurationVar(&f.wait, "wait", 0, "wait until all links are up, so long at most; 0: do not")
	fl.BoolVar(&f.stay, "stay", false, "stay until Ctrl-C, and forget the fabric then; a chip's first answer is waited for, too")
	c.MarkFlagRequired("api")
	return c
}

func runAttach(c *cobra.Command, f attachFlags) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	token, err := f.readToken()
	if err != nil {
		return err
	}
	apis, err := apiAddresses(f.apis)
	if err != nil {
		return err
	}
	begin := time.Now()
	ctx, cancel := c.Context(), context.CancelFunc(func() {})
	if !f.stay || f.wait > 0 { // one that stays may as well have come first
		ctx, cancel = context.WithTimeout(ctx, max(f.wait, attachFirst))
	}
	defer cancel()
	m, t, err := describe(ctx, apis, token)
	if err != nil {
		return err
	}
	if name := c.Flag("name"); name.Changed {
		m.Name = name.Value.String()
	}
	dir, err := attachFolder(ctx, m, t, apis, token)
	if err != nil {
		return err
	}
	if f.wait > 0 {
		s := &supervisor{dir: dir, t: t, out: c.ErrOrStderr(), exits: make(chan exit)}
		views, err := s.waitUp(ctx)
		if err != nil {
			return err
		}
		err = printUp(c, t, views, time.Since(begin))
		if err != nil {
			return err
		}
	} else {
		cs, missing, _, err := dir.clients()
		if err != nil {
			return err
		}
		views, silent := ask(c.Context(), cs)
		if out == "json" {
			err = printJSON(c, map[string]any{"topology": t.Name, "chips": views, "not_running": append([]wire.FabricNodeID{}, missing...), "no_answer": append([]wire.FabricNodeID{}, silent...)})
		} else {
			printChips(c, views, missing, silent)
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(c.ErrOrStderr(), "Attached to %s as %q; 'ttfabric down --name %s' forgets it.\n", t, m.Name, m.Name)
	if !f.stay {
		return nil
	}
	<-c.Context().Done()
	_, err = removeFabric(dir, false, "")
	return err
}

// readToken finds the token of the APIs, in a file or in the environment.
func (f *attachFlags) readToken() (string, error) {
	if f.token == "" {
		if token := os.Getenv("TTFABRIC_TOKEN"); token != "" {
			return token, nil
		}
		return "", coded(exitUsage, "the chips' APIs ask for the token that the chips were started with: name its file with --token-file, or set TTFABRIC_TOKEN")
	}
	b, err := os.ReadFile(f.token)
	if err != nil {
		return "", coded(exitUsage, "--token-file: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// apiAddresses completes HOST[:PORT] with the usual port.
func apiAddresses(args []string) (out []string, err error) {
	for _, a := range args {
		if host, port, err := net.SplitHostPort(a); err == nil && host != "" && port != "" {
			out = append(out, a)
		} else if _, err := netip.ParseAddr(strings.Trim(a, "[]")); a != "" && (err == nil || !strings.Contains(a, ":")) {
			out = append(out, net.JoinHostPort(strings.Trim(a, "[]"), composeAPI))
		} else {
			return nil, coded(exitUsage, "--api %q: want HOST or HOST:PORT", a)
		}
	}
	if len(out) > maxSeeds {
		return nil, coded(exitUsage, "--api: %d addresses; at most %d, one is enough", len(out), maxSeeds)
	}
	return out, nil
}

// describe asks until one of the chips says what the fabric is.
func describe(ctx context.Context, apis []string, token string) (m meshFile, t *topo.Topology, err error) {
	for {
		views, errs := make([]fabricView, len(apis)), make([]error, len(apis))
		round, cancel := context.WithTimeout(ctx, pollPatience)
		var wg sync.WaitGroup
		for i, a := range apis {
			wg.Go(func() {
				cl := api.NewClient(a, token, wire.FabricNodeID{}, nil).At(a)
				defer cl.Close()
				if errs[i] = cl.Fabric(round, &views[i]); errs[i] == nil {
					cancel() // one is enough
				}
			})
		}
		wg.Wait()
		cancel()
		for i, v := range views {
			var refused *api.StatusError
			if errors.As(errs[i], &refused) { // it answers, and will not answer otherwise
				return m, nil, errs[i]
			} else if errs[i] != nil {
				continue
			}
			if t, err = topo.Load("the topology that "+apis[i]+" tells", []byte(v.Topology)); err != nil {
				return m, nil, err
			}
			// What only the chips' own machines have stays there.
			v.Mesh.Archive, v.Mesh.Record, v.Mesh.PortBase, v.Mesh.Project = "", "", 0, ""
			v.Mesh.Runtime, v.Mesh.Attached = runtimeElsewhere, apis
			return v.Mesh, t, nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return m, nil, ctx.Err()
			}
			return m, nil, coded(exitNotReady, "no chip answers: %w; is its --api an address that this machine reaches?", errors.Join(errs...))
		case <-time.After(attachRetry):
		}
	}
}

// attachFolder makes the run folder, or renews that of the same attached fabric.
func attachFolder(ctx context.Context, m meshFile, t *topo.Topology, apis []string, token string) (runDir, error) {
	dir, err := dirFor(m.Name)
	if err != nil {
		return "", err
	}
	if err := makeRoot(runRoot()); err != nil {
		return "", err
	}
	unlock, err := lockFolder(ctx, runRoot())
	if err != nil {
		return "", err
	}
	defer unlock()
	if old, err := dir.read(); err == nil && old.Runtime != runtimeElsewhere {
		return "", coded(exitUsage, "a fabric named %q runs on this machine; choose another --name", m.Name)
	}
	os.RemoveAll(string(dir)) // what was attached before, or what a crash left
	if err := dir.create(t, m, nil, nil); err != nil {
		return "", err
	}
	return dir, writeFile(dir.path("token"), []byte(token))
}

// told is the port of the API that others are told, 0 unless it listens where they reach this chip.
func (s *site) told(a net.Addr) uint16 {
	at := a.(*net.TCPAddr).AddrPort()
	reached := s.listen
	if s.advertise.IsValid() {
		reached = s.advertise
	}
	if ip := at.Addr().Unmap(); ip.IsUnspecified() || ip == reached || ip == s.listen {
		return at.Port()
	}
	return 0
}
