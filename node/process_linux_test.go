package node

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestConfigureProcess checks that all threads of a chip's process get the batch policy, also
// threads that begin later. The threads must keep their nice value; 0 stands for the test's own
// nice value. After the undo, the threads must have the normal policy again. If the user chose
// another policy, the threads must keep the user's policy.
func TestConfigureProcess(t *testing.T) {
	if how := os.Getenv("TTFABRIC_TEST_PROCESS"); how != "" {
		configured(how)
		return
	}
	if own, err := unix.SchedGetAttr(0, 0); err != nil || own.Policy != unix.SCHED_NORMAL {
		t.Skip("this process has a policy of its own")
	}
	for how, want := range map[string]string{
		"plain": fmt.Sprintf("policy %d nice 0 processors 1", unix.SCHED_BATCH),
		"nice":  fmt.Sprintf("policy %d nice 5 processors 1", unix.SCHED_BATCH),
		"idle":  fmt.Sprintf("policy %d nice 0 processors 1", unix.SCHED_IDLE),
		"kept":  fmt.Sprintf("policy %d nice 0 processors 3", unix.SCHED_BATCH),
		"undo":  fmt.Sprintf("policy %d nice 0 processors 3", unix.SCHED_NORMAL),
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestConfigureProcess$")
		cmd.Env = append(os.Environ(), "TTFABRIC_TEST_PROCESS="+how, "GOMAXPROCS=")
		out, err := cmd.CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil || strings.Count(string(out), "policy") < 4 {
			t.Fatalf("%s: %v: %s", how, err, out)
		}
		for _, l := range lines {
			if strings.HasPrefix(l, "policy") && l != want {
				t.Errorf("%s: a thread has %s, want %s", how, l, want)
			}
		}
	}
}

// configured runs in a process of its own. configured calls ConfigureProcess, and prints the policy
// of each thread.
func configured(how string) {
	runtime.GOMAXPROCS(3)
	was, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		fmt.Println("policy", err)
		return
	}
	tasks := func() []os.DirEntry {
		d, _ := os.ReadDir("/proc/self/task")
		return d
	}
	want := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: was.Policy, Nice: was.Nice}
	switch how {
	case "nice":
		want.Nice += 5
	case "idle":
		want.Policy = unix.SCHED_IDLE
	case "kept":
		want.Policy = unix.SCHED_BATCH
	}
	for all := false; !all; { // a thread that starts during a pass may have the policy of a thread that the pass has not changed yet
		all = true
		for _, task := range tasks() {
			id, _ := strconv.Atoi(task.Name())
			if a, err := unix.SchedGetAttr(id, 0); err == nil && (a.Policy != want.Policy || a.Nice != want.Nice) {
				all = false
				if err := unix.SchedSetAttr(id, &want, 0); err != nil {
					fmt.Println("policy", err)
					return
				}
			}
		}
	}
	undo := ConfigureProcess()
	if how == "undo" || how == "kept" {
		undo()
	}
	ready, stop := make(chan bool), make(chan bool)
	for range 3 { // each goroutine holds a thread of its own
		go func() {
			runtime.LockOSThread()
			ready <- true
			<-stop
		}()
		<-ready
	}
	for _, task := range tasks() {
		id, _ := strconv.Atoi(task.Name())
		a, err := unix.SchedGetAttr(id, 0)
		if err != nil {
			fmt.Println("policy", err)
			continue
		}
		fmt.Printf("policy %d nice %d processors %d\n", a.Policy, a.Nice-was.Nice, runtime.GOMAXPROCS(0))
	}
	close(stop)
}
