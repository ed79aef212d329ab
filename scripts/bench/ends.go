package main

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/ttlink/transport"
)

// conv is one transport that can carry a stream of messages to another process and back.
type conv interface {
	addr() string
	dial(peer string) error
	pump(size int, d time.Duration) error // sends messages; called at the near end
	drain() (bytes func() uint64)         // receives in the background, and counts the bytes; called at the far end
	echo()                                // sends back every message that arrives, in the background; called at the far end
	pingpong(size, n int) ([]time.Duration, error)
	close()
}

// kinds lists the transports, ours and the peers. If the field "apart" is true, goodputs measures
// the transport only if -kinds names it, and latencies leaves it out.
var kinds = []struct {
	name  string
	apart bool
	open  func(far bool) (conv, error)
}{
	{"ttlink-fast", false, func(far bool) (conv, error) { return newLink(far, "fast", transport.Auto, fault.Options{}) }},
	{"ttlink-spec", false, func(far bool) (conv, error) { return newLink(far, "spec", transport.Auto, fault.Options{}) }},
	{"ttlink-nogso", false, func(far bool) (conv, error) { return newLink(far, "fast", transport.Off, fault.Options{}) }},
	{"udp-gso", false, func(bool) (conv, error) { return newRaw(transport.Auto) }},
	{"udp-mmsg", false, func(bool) (conv, error) { return newRaw(transport.Off) }},
	{"udp", false, newUDP},
	{"tcp", false, func(far bool) (conv, error) { return newTCP(far, "") }},
	{"quic", false, newQUIC},
	{"kcp", !haveKCP, newKCP},
	{"tcp-cubic", true, func(far bool) (conv, error) { return newTCP(far, "cubic") }},
	{"ttlink-impaired-1", true, func(far bool) (conv, error) {
		return newLink(far, "fast", transport.Auto, fault.Options{Loss: 0.01})
	}},
	{"ttlink-impaired-5", true, func(far bool) (conv, error) {
		return newLink(far, "fast", transport.Auto, fault.Options{Loss: 0.05})
	}},
}

func open(name string, far bool) (conv, error) {
	for _, k := range kinds {
		if k.name == name {
			return k.open(far)
		}
	}
	return nil, fmt.Errorf("transport %q is not known", name)
}

// place says where an end of a transport runs.
type place struct {
	near, far netip.Addr // address of the end itself, and address of the other end
	netns     string     // network namespace of the spawned end; empty: the namespace of this process
	container string     // docker container in which the spawned end runs; empty: none
}

var where = place{near: loopback, far: loopback}

var loopback = netip.MustParseAddr("127.0.0.1")

// anyPort returns this process's address with port 0, for which the kernel chooses a free port.
func anyPort() netip.AddrPort { return netip.AddrPortFrom(where.near, 0) }

// endTime is the time within which the far end must end by itself. Then the near end kills the far
// end.
const endTime = 2 * time.Second

// farEnd runs in the other process. For a transport, farEnd prints its own address, reads the
// address of the peer, connects, and prints "ready". Then farEnd answers each line of standard
// input until standard input ends. With the task "drain", the answer is the number of bytes that
// farEnd has counted so far. With the task "pump", farEnd sends for the time in the line, and
// answers "done".
func farEnd(kind, task string) error {
	switch kind {
	case "chip":
		return farChip(task)
	case "socket-chip":
		return socketChip(task)
	case "udp-forward":
		return udpForward(task)
	case "tcp-answer":
		return tcpAnswer(task)
	case "relay":
		return relay(task)
	case "hold":
		return hold()
	}
	size := 0
	_, err := fmt.Sscanf(task, "pump %d", &size)
	pumps := err == nil // whether this end sends messages; an end that sends is opened like a near end
	c, err := open(kind, !pumps)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Println(c.addr())
	in := bufio.NewScanner(os.Stdin)
	if !in.Scan() {
		return in.Err()
	}
	if err := c.dial(in.Text()); err != nil {
		return err
	}
	var count func() uint64
	if task == "drain" {
		count = c.drain()
	} else if !pumps {
		c.echo()
	}
	fmt.Println("ready")
	for in.Scan() {
		if pumps {
			if err := pumpFor(c, size, in.Text()); err != nil {
				return err
			}
		}
		if count != nil {
			fmt.Println(count())
		}
	}
	return nil
}

// pumpFor sends for the time in text, and prints "done" when this time is over.
func pumpFor(c conv, size int, text string) error {
	d, err := time.ParseDuration(text)
	if err == nil {
		err = c.pump(size, d)
	}
	if err == nil {
		fmt.Println("done")
	}
	return err
}

// hold does nothing until standard input ends. A container runs hold as its first process, because
// the container must exist before and after the measurements.
func hold() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// The type "other" is the process of the far end, as the near end controls it.
type other struct {
	cmd *exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Scanner
	end func()
}

// spawn starts this program again, as a far end on loopback, in the namespace of this process.
func spawn(kind, task string) (*other, error) { return spawnAt(place{near: loopback}, kind, task) }

// spawnAt starts this program again, as a far end with the address p.near.
func spawnAt(p place, kind, task string) (*other, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{exe, "-far", kind, "-task", task, "-listen", p.near.String(), "-core", strconv.Itoa(sitting.far)}
	if p.container != "" {
		args = append([]string{"docker", "exec", "-i", p.container, "/bench"}, args[1:]...)
	} else if p.netns != "" {
		args = append([]string{"ip", "netns", "exec", p.netns}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &other{cmd, in, bufio.NewScanner(out), func() {
		in.Close()
		late := time.AfterFunc(endTime, func() { cmd.Process.Kill() })
		cmd.Wait()
		late.Stop()
	}}, nil
}

func (o *other) ask(line string) (string, error) {
	if line != "" {
		if _, err := fmt.Fprintln(o.in, line); err != nil {
			return "", err
		}
	}
	if !o.out.Scan() {
		return "", fmt.Errorf("the far end has died: %v", o.out.Err())
	}
	return o.out.Text(), nil
}

// meet starts the far end of a transport as a process, opens the near end here, and connects the
// two.
func meet(kind, task string) (conv, *other, error) {
	o, err := spawnAt(place{near: where.far, netns: where.netns}, kind, task)
	if err != nil {
		return nil, nil, err
	}
	addr, err := o.ask("")
	if err != nil {
		o.end()
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	c, err := open(kind, false)
	if err != nil {
		o.end()
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	if _, err = fmt.Fprintln(o.in, c.addr()); err == nil {
		err = c.dial(addr)
	}
	if err == nil {
		_, err = o.ask("")
	}
	if err != nil {
		c.close()
		o.end()
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	return c, o, nil
}
