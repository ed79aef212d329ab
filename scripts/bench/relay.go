package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ttfabric/ttlink/fault"
	"ttfabric/wire/mono"
)

// Limits of the relay, and the paths that it uses.
const (
	maxMTU     = 9000
	relayBatch = 64              // largest number of packets that are read under one lock
	relayWait  = time.Second     // longest wait for a packet, if no packet is under way
	relayFull  = 256 << 20       // largest number of bytes that may be under way in one direction; the relay drops further packets
	slackOff   = time.Nanosecond // timer slack of the thread; the default of 50 µs is half of the shortest delay
	netnsDir   = "/run/netns"    // folder in which ip-netns(8) keeps the names
	tunDevice  = "/dev/net/tun"  // Documentation/networking/tuntap.rst
	seedThere  = 1               // seed of the random numbers of the two directions
	seedBack   = 2
)

// relay is the wire between two network namespaces. relay moves IP packets between their TUN
// devices through the fault model of package fault, and each system call reads or writes one
// packet. The parameter "task" names the namespaces and the device. Each line of standard input is
// a command. A line with a delay and a loss from 0 to 1 sets delay and loss, and relay answers when
// they are in force. The line "used" asks for the number of packets moved so far, and for the CPU
// time used so far in nanoseconds.
func relay(task string) error {
	var names [2]string
	var device string
	if _, err := fmt.Sscan(task, &names[0], &names[1], &device); err != nil {
		return fmt.Errorf("relay: task %q: want two namespaces and a device", task)
	}
	var fds [2]int
	for i, name := range names {
		var err error
		if fds[i], err = openTUN(name, device); err != nil {
			return err
		}
	}
	start := time.Now()
	var dirs [2]*direction
	failed := make(chan error, len(dirs))
	for i := range dirs {
		m, err := fault.New([]uint64{seedThere, seedBack}[i], fault.Options{})
		if err != nil {
			return err
		}
		dirs[i] = &direction{start: start, in: fds[i], out: fds[1-i], model: m}
		go func() { failed <- dirs[i].run() }()
	}
	done := make(chan error, 1)
	go func() { done <- obey(dirs[:]) }()
	fmt.Println("ready")
	select {
	case err := <-failed:
		return err
	case err := <-done:
		return err
	}
}

// obey performs the commands from standard input until standard input ends.
func obey(dirs []*direction) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "used" {
			var u unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
				return fmt.Errorf("relay: getrusage: %w", err)
			}
			fmt.Println(dirs[0].packets()+dirs[1].packets(), u.Utime.Nano()+u.Stime.Nano())
			continue
		}
		var delay string
		var loss float64
		_, err := fmt.Sscan(in.Text(), &delay, &loss)
		o := fault.Options{Loss: loss}
		if err == nil {
			o.Delay, err = time.ParseDuration(delay)
		}
		for _, d := range dirs {
			if err == nil {
				err = d.set(o)
			}
		}
		if err != nil {
			return fmt.Errorf("relay: %q: %w; want a delay and a loss", in.Text(), err)
		}
		fmt.Println("ok")
	}
	return in.Err()
}

// openTUN attaches to the TUN device of a namespace.
func openTUN(netns, device string) (fd int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread stays in the namespace, and ends with this goroutine
		fd, err = openTUNHere(netns, device)
	}()
	<-done
	return fd, err
}

func openTUNHere(netns, device string) (int, error) {
	path := filepath.Join(netnsDir, netns)
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("%s: %w; scripts/bench/wan makes the namespaces", path, err)
	}
	defer unix.Close(ns)
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("entering %s: %w; this needs root", path, err)
	}
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("%s: %w; load the module tun", tunDevice, err)
	}
	req, err := unix.NewIfreq(device)
	if err != nil {
		return 0, fmt.Errorf("device %q: %w", device, err)
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return 0, fmt.Errorf("attaching to device %s in %s: %w; another relay may use the device", device, netns, err)
	}
	return fd, nil
}

// direction carries the packets from one device to the other.
type direction struct {
	start   time.Time
	in, out int

	mu    sync.Mutex
	model *fault.Model
	ready []held // packets under way, in order of time, since all packets have the same delay
	first int    // index in ready of the first packet under way
	bytes int    // number of bytes under way
	moved uint64 // number of packets that left at the other end
	free  [][]byte
}

// held is a packet that waits for its time.
type held struct {
	at   mono.Time
	data []byte // bytes of the packet; the capacity is a whole buffer
}

// set changes the delay and loss of the wire. Packets under way are lost.
func (d *direction) set(o fault.Options) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.first < len(d.ready) {
		d.pop()
	}
	return d.model.Set(o)
}

// run moves packets until the device fails. run has a thread of its own, which waits with a
// precision of a microsecond. Go's timers are less precise.
func (d *direction) run() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slackOff), 0, 0, 0); err != nil {
		return fmt.Errorf("relay: timer slack: %w", err)
	}
	fds := []unix.PollFd{{Fd: int32(d.in), Events: unix.POLLIN}}
	for {
		more, wait, err := d.pass()
		if err != nil {
			return err
		}
		if more {
			continue
		}
		t := unix.NsecToTimespec(int64(wait))
		if _, err := unix.Ppoll(fds, &t, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("relay: ppoll: %w", err)
		}
	}
}

func (d *direction) now() mono.Time { return mono.Time(time.Since(d.start)) }

// pass moves a batch of packets: packets that are due go out, and packets that have arrived come
// in. The result "more" is true if further packets may be ready at once. If "more" is false, wait
// is the time until the next packet is due, or relayWait if no packet is under way.
func (d *direction) pass() (more bool, wait time.Duration, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for range relayBatch {
		now := d.now()
		for d.first < len(d.ready) && !now.Before(d.ready[d.first].at) {
			d.write(d.ready[d.first].data)
			d.pop()
		}
		buf := d.take()
		n, err := unix.Read(d.in, buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			d.free = append(d.free, buf)
			if d.first == len(d.ready) {
				return false, relayWait, nil
			}
			return false, max(d.ready[d.first].at.Sub(d.now()), 0), nil
		case errors.Is(err, unix.EINTR):
			d.free = append(d.free, buf)
			continue
		case err != nil:
			return false, 0, fmt.Errorf("relay: reading the device: %w", err)
		}
		d.carry(now, buf, n)
	}
	return true, 0, nil
}

// carry applies the fault model's delay and loss to one packet. The model would copy the bytes of
// the packet, but delay and loss do not depend on the bytes. So carry gives the model only the
// length, and keeps the packet itself. If more than relayFull bytes would be under way, carry drops
// the packet.
func (d *direction) carry(now mono.Time, buf []byte, n int) {
	var token [2]byte
	binary.LittleEndian.PutUint16(token[:], uint16(n))
	out := d.model.Apply(now, token[:])
	switch {
	case len(out) == 0 || d.bytes+n > relayFull:
		d.free = append(d.free, buf)
	case out[0].At.After(now):
		d.ready = append(d.ready, held{out[0].At, buf[:n]})
		d.bytes += n
	default:
		d.write(buf[:n])
		d.free = append(d.free, buf)
	}
}

// write hands a packet to the device. If the device does not take the packet, the packet is lost,
// as on a wire whose end is down.
func (d *direction) write(b []byte) {
	if _, err := unix.Write(d.out, b); err == nil {
		d.moved++
	}
}

func (d *direction) packets() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.moved
}

// pop removes the first packet under way.
func (d *direction) pop() {
	h := &d.ready[d.first]
	d.bytes -= len(h.data)
	d.free = append(d.free, h.data[:maxMTU])
	*h = held{}
	if d.first++; d.first == len(d.ready) {
		d.ready, d.first = d.ready[:0], 0
	} else if d.first >= 4096 && d.first*2 >= len(d.ready) {
		d.ready = append(d.ready[:0], d.ready[d.first:]...)
		d.first = 0
	}
}

func (d *direction) take() []byte {
	if n := len(d.free); n > 0 {
		b := d.free[n-1]
		d.free = d.free[:n-1]
		return b
	}
	return make([]byte, maxMTU)
}
