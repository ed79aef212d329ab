package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// reader acts as somebody who types the commands of a document into a shell. Each command
// runs in a bash process of its own. The process begins with the folder and the
// environment in which the command before ended.
type reader struct {
	t    *testing.T
	name string   // path of the document
	dir  string   // folder in which the first command runs
	hold string   // folder for files of the test, such as the environment between two commands
	env  []string // environment of the first command
	into []string // beginning of the command line that enters a network namespace; empty: no namespace
}

// machinesOf maps the path of a document to the addresses of machines that its commands
// need. The commands run in a network namespace that has these addresses on its loopback.
var machinesOf = map[string][]string{
	"docker/machines.md": {"10.0.1.2", "10.0.2.2"},
}

// prelude is the beginning of each bash script. prelude restores the folder and environment in
// which the command before ended. If a line has several commands, each must succeed.
const prelude = `set -eo pipefail; cd "$(cat "$SESSION/cwd")"; . "$SESSION/env"; trap 'export -p >"$SESSION/env"; pwd >"$SESSION/cwd"' EXIT
`

// goWrapper is the script that replaces the command go. The reader's folder is no module.
// If a document calls go in the reader's folder, the script calls go in the checkout. A file that
// -o names still goes to the reader's folder.
const goWrapper = `#!/bin/bash
here=$PWD args=() last=
if [ "$here" = "$READER" ]; then cd "$CHECKOUT"; else cd "$(pwd -P)"; fi
for a in "$@"; do
	if [ "$last" = -o ]; then [[ $a == /* ]] || a=$here/$a; fi
	args+=("$a") last=$a
done
exec "$REAL_GO" "${args[@]}"
`

// newReader makes the folders of a reader. The argument "program" names the folder with the
// built ttfabric. If program is empty, the document builds ttfabric itself.
func newReader(t *testing.T, name, program string) *reader {
	s := &reader{t: t, name: name, dir: t.TempDir(), hold: t.TempDir()}
	s.link(checkout, func(e os.DirEntry) bool { return e.Name() != "ttfabric" && e.Name() != "go.mod" })
	s.link(filepath.Dir(filepath.Join(checkout, name)), func(e os.DirEntry) bool { return !e.IsDir() }) // folders are left out, because a command may make a folder with the same name
	for _, d := range []string{"bin", "home", "run"} {
		if err := os.Mkdir(filepath.Join(s.hold, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.write("bin/go", goWrapper)
	s.write("cwd", s.dir+"\n")
	s.write("env", "")
	s.environment(program)
	s.namespace(machinesOf[name])
	t.Cleanup(func() {
		if printed, code := s.bash("if command -v ttfabric >/dev/null; then ttfabric down --all; fi", time.Minute); code != 0 {
			t.Errorf("down: %s", printed)
		}
	})
	return s
}

// containersOf is the name of fabrics of containers that a document starts without
// --name. The name is not "default", because another user of the machine may have a
// fabric with that name.
var containersOf = "docs-" + strconv.Itoa(os.Getpid())

// link makes symbolic links in the reader's folder. link links each entry of the folder "from" that
// the function "want" accepts, except hidden entries. A name that exists already stays unchanged.
func (s *reader) link(from string, want func(os.DirEntry) bool) {
	entries, err := os.ReadDir(from)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name()[0] == '.' || !want(e) {
			continue
		}
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(s.dir, e.Name())); err != nil && !errors.Is(err, os.ErrExist) {
			s.t.Fatal(err)
		}
	}
}

func (s *reader) environment(program string) {
	realGo, err := exec.LookPath("go")
	if err != nil {
		s.t.Fatal(err)
	}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPATH").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	c := strings.Split(string(caches), "\n")
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TTFABRIC_") {
			s.env = append(s.env, e)
		}
	}
	path := []string{s.hold + "/bin", s.hold + "/home/bin", s.dir}
	if program != "" {
		path = append(path, program)
	}
	s.env = append(s.env, "PYTHONDONTWRITEBYTECODE=1", "SESSION="+s.hold, "READER="+s.dir, "CHECKOUT="+checkout, "REAL_GO="+realGo,
		"XDG_RUNTIME_DIR="+s.hold+"/run", "HOME="+s.hold+"/home", "GOCACHE="+c[0], "GOMODCACHE="+c[1], "GOPATH="+c[2],
		"PATH="+strings.Join(append(path, os.Getenv("PATH")), ":"))
	if s.name == "docker/README.md" {
		s.env = append(s.env, "TTFABRIC_NAME="+containersOf)
	}
	if !strings.HasPrefix(s.name, "docker/") {
		s.env = append(s.env, "DOCKER_HOST=unix://"+s.hold+"/no-engine.sock") // hides the containers of this machine
	}
}

// namespace makes a network namespace that has the addresses on its loopback. If
// addresses is nil, namespace does nothing.
func (s *reader) namespace(addresses []string) {
	if addresses == nil {
		return
	}
	holder := exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && for a in "+strings.Join(addresses, " ")+"; do ip addr add $a/16 dev lo || exit; done; echo ready; exec sleep infinity")
	out, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { holder.Process.Kill(); holder.Wait() })
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		s.t.Fatal("no network namespace; see scripts/prove-docs")
	}
	s.into = []string{"nsenter", "--net=/proc/" + strconv.Itoa(holder.Process.Pid) + "/ns/net"}
}

func (s *reader) write(name, text string) {
	if err := os.WriteFile(filepath.Join(s.hold, name), []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// start runs a command in a process group of its own. The output goes to a file. With a
// pipe, the test would wait for background processes, which keep the pipe open.
func (s *reader) start(command string) (cmd *exec.Cmd, out *os.File) {
	out, err := os.CreateTemp(s.hold, "printed")
	if err != nil {
		s.t.Fatal(err)
	}
	args := append(slices.Clone(s.into), "bash", "-c", prelude+command)
	cmd = exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	return cmd, out
}

func (s *reader) printed(out *os.File) string {
	text, err := os.ReadFile(out.Name())
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// bash runs a command. If the command has not ended after the time "most", bash kills it.
func (s *reader) bash(command string, most time.Duration) (printed string, code int) {
	cmd, out := s.start(command)
	defer out.Close()
	stuck := time.AfterFunc(most, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer stuck.Stop()
	cmd.Wait()
	return s.printed(out), cmd.ProcessState.ExitCode()
}

var wasStarved = regexp.MustCompile(`^M\d+D\d+ was starved for `)

var promisedCode = regexp.MustCompile(`exit code (\d+)`)

// run runs a step and compares its exit code. If "compare" is true, run also compares the
// output with the lines that the document shows. A step whose command is a key of the
// map "elsewhere" does not run.
func (s *reader) run(st step, compare bool) {
	key := s.name + ": " + st.command
	if reason, listed := elsewhere[key]; listed {
		s.t.Logf("not run: %s: %s", st.command, reason)
		return
	}
	command := st.command
	if other, ok := replaced[key]; ok {
		command = other
	}
	command = strings.NewReplacer("/path/to/ttfabric", checkout, "ttfabric.fabric=default", "ttfabric.fabric="+containersOf).Replace(command)
	begin := time.Now()
	var printed string
	code, want := 0, 0
	if until, stays := staying[key]; stays {
		printed = s.stay(command, until)
	} else {
		printed, code = s.bash(command, 5*time.Minute)
		if m := promisedCode.FindStringSubmatch(st.comment); m != nil {
			want, _ = strconv.Atoi(m[1])
		}
	}
	s.t.Logf("%5.1f s: %s", time.Since(begin).Seconds(), command)
	if code != want {
		s.t.Fatalf("%s: %s\nexit code %d, want %d:\n%s", s.name, command, code, want, printed)
	}
	// On a busy machine, a command also names the chips that were starved.
	got := slices.DeleteFunc(linesOf(printed), func(l string) bool { return wasStarved.MatchString(l) && !slices.Contains(st.shown, l) })
	if compare && !matches(st.shown, got) {
		s.t.Fatalf("%s: %s\nprints\n\t%s\nand the document shows\n\t%s", s.name, command, strings.Join(got, "\n\t"), strings.Join(st.shown, "\n\t"))
	}
}

// stay starts a command that runs until somebody interrupts it, and waits until the
// command has printed the awaited text. Then stay interrupts the command, as Ctrl-C does.
// If until.background is true, the command runs until the document ends.
func (s *reader) stay(command string, until awaited) string {
	cmd, out := s.start(command)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	ended := make(chan struct{})
	go func() { cmd.Wait(); out.Close(); close(ended) }()
	interrupt := func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-ended:
		case <-ctx.Done():
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			s.t.Errorf("%s: %s does not end on Ctrl-C:\n%s", s.name, command, s.printed(out))
		}
		cancel()
	}
	for !strings.Contains(s.printed(out), until.text) {
		select {
		case <-ended:
			s.t.Fatalf("%s: %s ended by itself:\n%s", s.name, command, s.printed(out))
		case <-ctx.Done():
			s.t.Fatalf("%s: %s has not printed %q within two minutes:\n%s", s.name, command, until.text, s.printed(out))
		case <-time.After(20 * time.Millisecond):
		}
	}
	select {
	case <-ended:
		s.t.Fatalf("%s: %s ended by itself:\n%s", s.name, command, s.printed(out))
	default:
	}
	if until.background {
		s.t.Cleanup(interrupt)
	} else {
		interrupt()
	}
	return s.printed(out)
}

// snippetHead and snippetEnd make a Go file of a block of code without a package clause. The two
// constants add the imports and the end that such a block leaves out. The file has no function
// main, because linking takes time.
const (
	snippetHead = `package snippet

import (
	"context"

	"ttfabric/node/fabric"
	"ttfabric/wire"
)

func Snippet(ctx context.Context) error {
`
	snippetEnd = `	return err
}
`
)

// programs writes a Go file for each Go block of a document. A block with a package
// clause becomes the file hello/hello.go in the reader's folder. Any other block becomes
// the body of a function, which programs also builds.
func (s *reader) programs(text string) {
	for i, lines := range codeOf(text, "go") {
		code, folder := strings.Join(lines, "\n")+"\n", filepath.Join(s.dir, "hello")
		if !strings.HasPrefix(code, "package ") {
			folder = filepath.Join(s.hold, fmt.Sprintf("snippet%d", i))
			code = snippetHead + code + snippetEnd
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "hello.go"), []byte(code), 0o644); err != nil {
			s.t.Fatal(err)
		}
		if folder == filepath.Join(s.dir, "hello") {
			continue // the commands of the document build this program
		}
		build := "cd " + folder + " && go mod init example.com/snippet && go mod edit -require ttfabric@v0.0.0 -replace ttfabric=" + checkout + " && cp " + checkout + "/go.sum . && go build -mod=mod && cd -"
		if printed, code := s.bash(build, 5*time.Minute); code != 0 {
			s.t.Fatalf("%s: a Go block does not build:\n%s", s.name, printed)
		}
	}
}
