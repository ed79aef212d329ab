package transport

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// inSandbox is the environment variable that is set in the process under the filter.
const inSandbox = "TTFABRIC_TEST_SANDBOX"

// TestFallbackInASandbox runs itself in a second process, and installs a filter there that refuses
// sendmmsg and recvmmsg. Some sandboxes have such filters. The test checks that a port detects the
// refusal when it is opened, and then moves one message per call.
func TestFallbackInASandbox(t *testing.T) {
	if os.Getenv(inSandbox) == "" {
		c := exec.Command(os.Args[0], "-test.run=^TestFallbackInASandbox$", "-test.v")
		c.Env = append(os.Environ(), inSandbox+"=1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	before, _ := joinedLinux(t, Options{})
	if !before.Stats().Batching {
		t.Fatalf("without a filter: %+v", before.Stats())
	}
	refuse(t, unix.SYS_SENDMMSG, unix.SYS_RECVMMSG)
	a, b := joinedLinux(t, Options{GSO: Off, GRO: Off})
	if s := a.Stats(); s.Batching {
		t.Fatalf("the port uses calls that the filter refuses: %+v", s)
	}
	if _, err := a.Send(make([]byte, 1000), 100); err != nil {
		t.Fatal(err)
	}
	gather(t, b, 10)
	if s := a.Stats(); s.Sent != 10 || s.SendCalls != 10 {
		t.Errorf("%+v", s)
	}
}

// refuse makes the kernel return ENOSYS for the given system calls, in all threads of the process
// (seccomp(2)).
func refuse(t *testing.T, calls ...uint32) {
	const nr = 0 // offset of the system call's number in struct seccomp_data
	prog := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr}}
	for _, c := range calls {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: c},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(syscall.ENOSYS)})
	}
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Skip("no filters here:", err)
	}
	f := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&f))); e != 0 {
		t.Skip("no filters here:", e)
	}
}
