package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Words that scripts/netem-vm looks for on the console.
const (
	passed = "netem-vm: passed"
	failed = "netem-vm: failed"
)

// runVM is the first process of a virtual machine. runVM runs the tests, prints the verdict, and
// restarts the machine. The root of this machine is an initramfs with this program, ttfabric, the
// test of node/netem, and kernel modules.
func runVM() {
	err := prepareVM()
	if err == nil {
		say("the modules are loaded; now the tests of node/netem run with qdiscs of every kind")
		err = stream("/netem.test", "-test.v", "-test.run", "TestPutBack|TestNetem|TestOnePortOnly|TestSplit")
	}
	if err == nil {
		var l *lab
		if l, err = newLab("/ttfabric", "lab"); err == nil {
			err = l.netem()
		}
		if err != nil {
			for i, b := range l.logs {
				fmt.Printf("-- log of chip %d\n%s", i, b)
			}
		}
		l.stop()
	}
	if err != nil {
		fmt.Printf("%s: %v\n", failed, err)
	} else {
		say(passed)
	}
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func stream(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	return cmd.Run()
}

// prepareVM mounts the file systems that programs expect, and loads the modules.
func prepareVM() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"}} {
		if err := errors.Join(os.MkdirAll(m[1], 0o755), unix.Mount(m[0], m[1], m[0], 0, "")); err != nil {
			return fmt.Errorf("cannot mount %s: %w", m[1], err)
		}
	}
	if err := os.MkdirAll("/run/netns", 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob("/modules/*.ko*")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.New("there are no modules in /modules")
	}
	// If a module needs another module, a later round loads the first module.
	for len(files) > 0 {
		var left, why []string
		for _, f := range files {
			if err := insert(f); err != nil {
				left, why = append(left, f), append(why, fmt.Sprintf("%s: %v", f, err))
			}
		}
		if len(left) == len(files) {
			return fmt.Errorf("cannot load %s", strings.Join(why, ", "))
		}
		files = left
	}
	return nil
}

func insert(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// printChecksumErrors prints how many datagrams the present namespace has dropped for a wrong
// checksum (/proc/net/snmp).
func printChecksumErrors() {
	b, _ := os.ReadFile("/proc/self/net/snmp")
	var names []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if f[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = f
			continue
		}
		for i, name := range names {
			if name == "InCsumErrors" {
				fmt.Println(f[i])
			}
		}
	}
}
