package quicport_test

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ttfabric/ttlink/transport"
	"ttfabric/ttlink/transport/quicport"
	"ttfabric/wire"
)

// asPeer is the environment variable that makes TestPeerProcess a port's peer. The variable holds
// the folder of the certificates, the peer's address, and the port's address. The variable also
// says which end of the cable the peer is.
const asPeer = "TTFABRIC_TEST_PEER"

// TestPeerProcess is the second process of TestKilledPeer.
func TestPeerProcess(t *testing.T) {
	args := strings.Fields(os.Getenv(asPeer))
	if len(args) != 4 {
		t.Skip("another test starts this one in a process")
	}
	p := endOf(t, args[0], args[1], args[3] == "lower")
	if err := p.SetPeer(netip.MustParseAddrPort(args[2])); err != nil {
		t.Fatal(err)
	}
	fmt.Println("peer at", p.LocalAddr())
	var b transport.Batch
	for p.Recv(&b) == nil {
	}
}

// endOf opens the port at one end of the cable.
func endOf(t *testing.T, dir, local string, isLower bool) transport.Keyed {
	t.Helper()
	from, to := upper, lower
	if isLower {
		from, to = lower, upper
	}
	p, err := quicport.Listen(quicport.Options{Local: netip.MustParseAddrPort(local), Chip: chip(t, dir, "lab", from.Node),
		Cable: transport.Cable{Fabric: "lab", From: from, To: to, Incarnation: wire.Incarnation(os.Getpid())}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p.(transport.Keyed)
}

// startPeer starts a process with the peer of the port p, and returns the peer's address. The function
// kill kills the process.
func startPeer(t *testing.T, dir, local string, p transport.Keyed, isLower bool) (kill func(), at string) {
	t.Helper()
	end := map[bool]string{true: "lower", false: "upper"}[isLower]
	cmd := exec.Command(os.Args[0], "-test.run=^TestPeerProcess$")
	cmd.Env = append(os.Environ(), asPeer+"="+strings.Join([]string{dir, local, p.LocalAddr().String(), end}, " "))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	line, _ := bufio.NewReader(out).ReadString('\n')
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "peer at ")
	if !ok {
		t.Fatalf("the peer's process printed %q", line)
	}
	return kill, at
}

// TestReplacedConnection restarts a peer before the port has noticed that the old connection is dead.
// The port must count the new connection.
func TestReplacedConnection(t *testing.T) {
	t.Parallel()
	dir := papers(t, "lab", time.Now(), time.Hour)
	p := endOf(t, dir, "127.0.0.1:0", false)
	kill, at := startPeer(t, dir, "127.0.0.1:0", p, true)
	if err := p.SetPeer(netip.MustParseAddrPort(at)); err != nil {
		t.Fatal(err)
	}
	until(t, "the ends are connected", p.Ready)
	kill()
	startPeer(t, dir, at, p, true)
	until(t, "the port has counted the new connection", func() bool { return p.Stats().Auth.Keyings == 2 && p.Ready() })
}

// TestKilledPeer kills the process of a peer, so that the peer cannot close its connection. The port
// must count refusals, without an error of Send. After the peer's restart at the same address, the port
// must have a connection again.
func TestKilledPeer(t *testing.T) {
	dir := papers(t, "lab", time.Now(), time.Hour)
	for name, c := range map[string]struct {
		local   string
		isLower bool
	}{"dialer": {"127.0.0.1:0", true}, "acceptor": {"127.0.0.1:0", false}, "dialer, IPv6": {"[::1]:0", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := endOf(t, dir, c.local, c.isLower)
			kill, at := startPeer(t, dir, c.local, p, !c.isLower)
			if err := p.SetPeer(netip.MustParseAddrPort(at)); err != nil {
				t.Fatal(err)
			}
			until(t, "the ends are connected", p.Ready)
			kill()
			before := p.Refusals()
			until(t, "the port counts refusals", func() bool {
				if _, err := p.Send(make([]byte, 100), 100); err != nil {
					t.Fatal(err)
				}
				return p.Refusals() > before
			})
			if s := p.Stats(); s.Refused == 0 || s.Auth.Keyings != 1 { // QUIC itself has not noticed yet, or has ended the connection
				t.Errorf("%+v", s)
			}
			for range 3 { // QUIC sends fewer and fewer packets, but each datagram tells of the refusal
				n := p.Refusals()
				if _, err := p.Send(make([]byte, 150), 100); err != nil || p.Refusals() < n+2 {
					t.Errorf("%d refusals after %d and two more datagrams, error %v", p.Refusals(), n, err)
				}
			}
			startPeer(t, dir, at, p, !c.isLower)
			until(t, "the ends are connected again", func() bool {
				_, _ = p.Send(make([]byte, 100), 100)
				return p.Stats().Auth.Keyings >= 2 && p.Ready()
			})
			until(t, "refusals have ended", func() bool {
				n := p.Refusals()
				_, _ = p.Send(make([]byte, 100), 100)
				return p.Refusals() == n
			})
		})
	}
}
