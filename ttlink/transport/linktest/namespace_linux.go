package linktest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// namespaceEnv is the environment variable that InNamespace sets in the process that it starts.
const namespaceEnv = "TTFABRIC_TEST_NAMESPACE"

// InNamespace runs the calling test a second time, in a new process with a new network namespace.
// In that process, InNamespace calls f with the function setMTU, which sets the MTU of the
// process's loopback interface. If this process may not make namespaces, InNamespace skips the
// test.
func InNamespace(t *testing.T, f func(setMTU func(int))) {
	if os.Getenv(namespaceEnv) != "" {
		f(loopback(t))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if _, ran := err.(*exec.ExitError); err != nil && !ran {
		t.Skip("this process may not make a network namespace:", err)
	}
	t.Logf("output of the process in the new network namespace:\n%s", out)
	if err != nil {
		t.Error(err)
	}
}

// loopback brings the loopback interface up and returns a function that sets its MTU.
func loopback(t *testing.T) (setMTU func(int)) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	request := func(op uint, set func(*unix.Ifreq)) {
		r, err := unix.NewIfreq("lo")
		if err == nil {
			set(r)
			err = unix.IoctlIfreq(fd, op, r)
		}
		if err != nil {
			t.Fatal(os.NewSyscallError("ioctl", err))
		}
	}
	request(unix.SIOCSIFFLAGS, func(r *unix.Ifreq) { r.SetUint16(unix.IFF_UP) })
	return func(n int) { request(unix.SIOCSIFMTU, func(r *unix.Ifreq) { r.SetUint32(uint32(n)) }) }
}
