package server_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/admin"
	"ttfabric/router"
	"ttfabric/wire"
)

// TestPython runs the tests of the client in Python against two chips.
func TestPython(t *testing.T) { python(t, "test_ttfabric", "test_socket") }

// TestPythonCollectives runs the tests of collective operations in Python against two chips.
func TestPythonCollectives(t *testing.T) { python(t, "test_collective") }

// python runs tests in Python against two chips.
func python(t *testing.T, modules ...string) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	l := start(t, "n300", "")
	cmd := exec.CommandContext(l.ctx, "python3", append([]string{"-B", "-m", "unittest", "-v"}, modules...)...)
	cmd.Dir = "../../../../scripts/python"
	cmd.Env = append(os.Environ(), "TTFABRIC_TEST_SOCKETS="+strings.Join(l.paths, ":"), "TTFABRIC_TEST_APIS="+strings.Join(l.serveHTTP(t), " "), "TTFABRIC_TEST_TOKEN="+token)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "skipped") {
		t.Errorf("%v\n%s", err, out)
	}
}

// token is the token of the chips' APIs in the tests.
const token = "the token of the tests"

// serveHTTP serves the APIs of all chips, and returns their addresses.
func (l *live) serveHTTP(t *testing.T) (addrs []string) {
	t.Helper()
	for _, n := range l.nodes {
		s := admin.NewServer(n, token)
		at, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(at) }()
		t.Cleanup(func() { s.Close() })
		addrs = append(addrs, at.Addr().String())
	}
	return addrs
}

// TestPythonEvents reads events in Python, over the socket and over HTTP, while the link goes down again and again.
func TestPythonEvents(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	l := start(t, "n300", "")
	const program = `import sys, threading, ttfabric
def show(name, events):
    for e in events:
        if e["kind"] == "link down":
            sys.stdout.write(f"{name}: {e['port']['Node']} {e['peer']['Node']} {type(e['port']['Channel'])} {e['reason'] != ''} {'time' in e}\n")
            break
t = threading.Thread(target=show, args=("HTTP", ttfabric.HTTPChip(sys.argv[2], sys.argv[3]).events()))
t.start()
show("socket", ttfabric.Chip(sys.argv[1]).events())
t.join()
`
	cmd := exec.CommandContext(l.ctx, "python3", "-B", "-c", program, l.paths[0], l.serveHTTP(t)[0], token)
	cmd.Dir = "../../../../scripts/python"
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	for done := false; !done; { // a request for events may still be under way, so the link goes down until the program has ended
		if bad := l.nodes[0].Command([]wire.Channel{8}, router.CommandRetrain); bad != nil {
			t.Fatal(bad)
		}
		select {
		case err = <-ended:
			done = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	for _, way := range []string{"socket", "HTTP"} {
		if err != nil || !strings.Contains(out.String(), way+": M0D0 M0D1 <class 'int'> True True\n") {
			t.Errorf("%s: %v: %s", way, err, &out)
		}
	}
}

// TestPythonSurvivesAChip performs all-reduce on four ranks in Python, over and over, while a chip ends. The operation
// ends on each other rank with an error that names the chip, and the ranks that are left go on.
func TestPythonSurvivesAChip(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	l := start(t, "ring:4", "")
	const program = `import array, sys, threading, ttfabric, ttfabric_collective as collective
chips = [ttfabric.Chip(path) for path in sys.argv[1:]]
meeting = threading.Barrier(4)
def rank(r):
    c = collective.Communicator(chips[r], chips=[c.chip for c in chips], meet=meeting.wait)
    try:
        while True:
            data = array.array("i", [1] * 5000)
            c.all_reduce(data)
            if list(data) != [4] * 5000:
                print("wrong", flush=True)
            if r == 0:
                sys.stdout.write(".\n")
                sys.stdout.flush()
    except collective.ChipDead as e:
        c = c.shrink()
        data = array.array("i", [r])
        c.all_reduce(data)
        sys.stdout.write(f"rank {r}: chip of rank {e.rank} is dead: {str(e)[:14]}; {c.rank} of {c.size}: {data[0]}\n")
    except (OSError, ttfabric.FabricError) as e:
        sys.stdout.write(f"rank {r} has lost its chip\n" if r == 3 else f"rank {r}: {e!r}\n")
threads = [threading.Thread(target=rank, args=(r,)) for r in range(4)]
for t in threads: t.start()
for t in threads: t.join()
`
	cmd := exec.CommandContext(l.ctx, "python3", append([]string{"-B", "-c", program}, l.paths...)...)
	cmd.Dir = "../../../../scripts/python"
	var errs strings.Builder
	cmd.Stderr = &errs
	stdout, err := cmd.StdoutPipe()
	check(t, err, cmd.Start())
	var lines []string
	dots := 0
	for s := bufio.NewScanner(stdout); s.Scan(); {
		if s.Text() != "." {
			lines = append(lines, s.Text())
		} else if dots++; dots == 20 {
			go func() {
				l.nodes[3].Close()
				l.servers[3].Close()
			}()
		}
	}
	slices.Sort(lines)
	want := []string{"rank 0: chip of rank 3 is dead: chip M0D3 of r; 0 of 3: 3", "rank 1: chip of rank 3 is dead: chip M0D3 of r; 1 of 3: 3", "rank 2: chip of rank 3 is dead: chip M0D3 of r; 2 of 3: 3", "rank 3 has lost its chip"}
	if err := cmd.Wait(); err != nil || !slices.Equal(lines, want) {
		t.Errorf("%v, %d operations:\n%s\n%s", err, dots, strings.Join(lines, "\n"), errs.String())
	}
}
