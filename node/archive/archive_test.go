package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// writeInto is an environment variable. If the variable is set, the test program writes to the
// archive in the named folder until the program is killed.
const writeInto = "TTFABRIC_TEST_ARCHIVE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writeInto); dir != "" {
		writeForever(dir)
	}
	os.Exit(m.Run())
}

// entry is the content of a line in these tests. In TestKilled, Life is the process id of the writer.
type entry struct {
	Life int    `json:"life"`
	N    int    `json:"n"`
	Pad  string `json:"pad"`
}

func line(life, n, pad int) []byte {
	b, _ := json.Marshal(entry{life, n, strings.Repeat("x", pad)})
	return append(b, '\n')
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, c Config) *Writer {
	t.Helper()
	c.Name = "M0D0"
	w, err := Open(c, noon)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *Writer) must(t *testing.T, now time.Time, b []byte) {
	t.Helper()
	if n, err := w.Append(now, b); n != nil || err != nil {
		t.Fatal(n, err)
	}
}

// all returns all lines of an archive.
func all(t *testing.T, dir string) (es []entry, s Skipped) {
	t.Helper()
	r, err := Read(dir, "M0D0")
	if err != nil {
		t.Fatal(err)
	}
	for b, ok := r.Next(); ok; b, ok = r.Next() {
		var e entry
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		es = append(es, e)
	}
	return es, r.Skipped()
}

// numbered checks that the lines have the numbers "from" to "to"-1, without a gap.
func numbered(t *testing.T, es []entry, from, to int) {
	t.Helper()
	if len(es) != to-from {
		t.Fatalf("%d lines, want %d", len(es), to-from)
	}
	for i, e := range es {
		if e.N != from+i {
			t.Fatalf("line %d is number %d, want %d", i, e.N, from+i)
		}
	}
}

func TestRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deeper", "folder [1]") // Open must make the folders, and must not take the name for a pattern
	limits := Limits{SegmentBytes: 2 << 10, SegmentAge: time.Minute, TotalBytes: 1 << 20}
	w := open(t, Config{Dir: dir, Limits: limits})
	for i := range 300 {
		w.must(t, noon.Add(time.Duration(i)*time.Millisecond), line(0, i, 50))
	}
	es, s := all(t, dir)
	numbered(t, es, 0, 300)
	if s != (Skipped{}) {
		t.Errorf("skipped %+v", s)
	}
	plain, closed := files(t, dir)
	if len(plain) != 1 || len(closed) < 8 {
		t.Fatalf("%d plain and %d closed segments", len(plain), len(closed))
	}
	if fi, _ := os.Stat(closed[0]); fi.Size() > 1<<10 {
		t.Errorf("a closed segment of 2 KiB of lines takes %d bytes", fi.Size())
	}
	if zcat, err := exec.LookPath("zcat"); err == nil {
		out, err := exec.Command(zcat, closed...).Output()
		if want := 300 - bytes.Count(must(os.ReadFile(plain[0])), []byte("\n")); err != nil || bytes.Count(out, []byte("\n")) != want {
			t.Errorf("zcat: %v, %d lines, want %d", err, bytes.Count(out, []byte("\n")), want)
		}
	}
	// Retry must close a segment that has become too old, even without a new line. Retry must never
	// close a segment without lines.
	if n := w.Retry(noon.Add(time.Hour)); n != nil {
		t.Error(n)
	}
	w.Retry(noon.Add(2 * time.Hour))
	if plain, more := files(t, dir); len(plain) != 0 || len(more) != len(closed)+1 {
		t.Errorf("%d plain and %d closed segments after an hour", len(plain), len(more))
	}
	w.must(t, noon.Add(-5*time.Hour), line(0, 300, 0)) // the clock has been set back
	if err := w.Close(noon); err != nil {
		t.Error(err)
	}
	es, _ = all(t, dir)
	numbered(t, es, 0, 301)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func files(t *testing.T, dir string) (plain, closed []string) {
	t.Helper()
	for _, e := range must(os.ReadDir(dir)) {
		switch path := filepath.Join(dir, e.Name()); {
		case strings.HasSuffix(path, closedExt):
			closed = append(closed, path)
		case strings.HasSuffix(path, plainExt):
			plain = append(plain, path)
		default:
			t.Errorf("%s is left", path)
		}
	}
	return plain, closed
}

func TestTotalLimit(t *testing.T) {
	dir := t.TempDir()
	w := open(t, Config{Dir: dir, Limits: Limits{SegmentBytes: 1 << 10, TotalBytes: 3 << 10}})
	other := filepath.Join(dir, "M0D1-000001-20260102T120000.jsonl")
	os.WriteFile(other, make([]byte, 10<<10), 0o600)
	for i := range 3000 {
		w.must(t, noon, line(i*7919, i, 0))
	}
	total := int64(0)
	plain, closed := files(t, dir)
	for _, f := range append(plain, closed...) {
		if f != other {
			total += must(os.Stat(f)).Size()
		}
	}
	if total > 4<<10 || w.Removed() == 0 {
		t.Errorf("the archive has %d bytes, and %d segments were removed", total, w.Removed())
	}
	es, _ := all(t, dir)
	numbered(t, es, 3000-len(es), 3000)
	if len(es) < 50 {
		t.Errorf("only %d lines are left", len(es))
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []Config{{Dir: dir}, {Dir: dir, Name: "a-b"}, {Dir: dir, Name: "a/b"}, {Dir: filepath.Join("/dev/null", "x"), Name: "a"},
		{Dir: dir, Name: "a", Limits: Limits{SegmentBytes: 5}}, {Dir: dir, Name: "a", Limits: Limits{SegmentAge: -1}}, {Dir: dir, Name: "a", Limits: Limits{TotalBytes: 1}}} {
		if _, err := Open(c, noon); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	w := open(t, Config{Dir: dir})
	for _, b := range []string{"{}", "{}\n{}", "{\"" + strings.Repeat("x", MaxLine) + "\":1}\n"} {
		if _, err := w.Append(noon, []byte(b)); err == nil {
			t.Errorf("%.20q was taken", b)
		}
	}
	w.must(t, noon, []byte("{}\n"))
	if _, err := Open(Config{Dir: dir, Name: "M0D0"}, noon); err == nil {
		t.Error("a second writer of the same name was accepted")
	}
	w.Close(noon)
	if again, err := Open(Config{Dir: dir, Name: "M0D0"}, noon); err != nil {
		t.Error(err)
	} else {
		again.Close(noon)
	}
}

// writeForever writes lines until the process is killed. After each Append, writeForever prints the
// number of the first line appended.
func writeForever(dir string) {
	w, err := Open(Config{Dir: dir, Name: "M0D0", Limits: Limits{SegmentBytes: 2 << 10, TotalBytes: 64 << 20}}, time.Now())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for n := 0; ; n += 3 {
		var b []byte
		for k := range 3 {
			b = append(b, line(os.Getpid(), n+k, n*37%300)...)
		}
		if notice, err := w.Append(time.Now(), b); notice != nil || err != nil {
			fmt.Fprintln(os.Stderr, notice, err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

// TestKilled kills many writers in one folder with kill -9, one after another. The archive must
// then hold every written line, complete and in order.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	times := 100
	if testing.Short() {
		times = 10
	}
	acked := map[int]int{} // by process id: the last line that the process has reported as written
	var lives []int
	for i := range times {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), writeInto+"="+dir)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = write
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		write.Close()
		first := make([]byte, 1)
		io.ReadFull(read, first) // wait until the process writes
		done := make(chan struct{})
		go func() { io.Copy(&out, read); close(done) }()
		time.Sleep(time.Duration(i*i%17) * time.Millisecond / 4)
		cmd.Process.Signal(syscall.SIGKILL)
		cmd.Wait()
		<-done
		read.Close()
		if errs.Len() > 0 {
			t.Fatalf("the writer printed the error %s", errs.String())
		}
		lines := strings.Split(string(first)+out.String(), "\n")
		last := 0
		if len(lines) > 1 {
			fmt.Sscan(lines[len(lines)-2], &last)
		}
		lives = append(lives, cmd.Process.Pid)
		acked[cmd.Process.Pid] = last + 2
	}
	es, s := all(t, dir)
	if s.Damaged != 0 || s.Torn > 1 {
		t.Errorf("skipped %+v", s)
	}
	next := map[int]int{}
	for i, e := range es {
		if i > 0 && es[i-1].Life != e.Life && next[e.Life] != 0 {
			t.Fatalf("lines of process %d lie between lines of another process", e.Life)
		}
		if e.N != next[e.Life] {
			t.Fatalf("process %d: line %d follows line %d", e.Life, e.N, next[e.Life]-1)
		}
		next[e.Life]++
	}
	for _, l := range lives {
		if next[l] <= acked[l] {
			t.Errorf("process %d: the archive has %d lines, but %d were written", l, next[l], acked[l]+1)
		}
	}
	w := open(t, Config{Dir: dir}) // removes what the killed writers left
	w.Close(noon)
	after, s := all(t, dir)
	if files(t, dir); len(after) != len(es) || s != (Skipped{}) {
		t.Errorf("%d lines became %d after another Open; skipped %+v", len(es), len(after), s)
	}
	t.Logf("%d lines of %d processes", len(es), len(lives))
}

// smallDisk opens files on a simulated disk with room for some bytes. A write beyond the room
// writes the part that fits, and fails like a write to a full disk.
type smallDisk struct {
	room   int
	broken bool // whether Truncate fails too
}

type smallFile struct {
	*os.File
	d *smallDisk
}

func (d *smallDisk) open(path string, flags int) (file, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	return &smallFile{f, d}, err
}

func (f *smallFile) Write(b []byte) (int, error) {
	n, _ := f.File.Write(b[:min(len(b), f.d.room)])
	f.d.room -= n
	if n < len(b) {
		return n, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return n, nil
}

func (f *smallFile) Truncate(size int64) error {
	if f.d.broken {
		return syscall.EIO
	}
	fi, _ := f.Stat()
	f.d.room += int(fi.Size() - size)
	return f.File.Truncate(size)
}

// TestFullDisk checks a writer on a full disk. The writer must report the failure once, keep lines
// in memory up to MaxPending, and count further lines as lost. When the disk has room again, the
// writer must continue.
func TestFullDisk(t *testing.T) {
	for _, broken := range []bool{false, true} {
		dir := t.TempDir()
		d := &smallDisk{room: 1000, broken: broken}
		w := open(t, Config{Dir: dir, open: d.open})
		now, n, told := noon, 0, 0
		var lost uint64
		for ; n < 3000; n++ {
			now = now.Add(10 * time.Millisecond)
			notice, err := w.Append(now, line(0, n, 50))
			if err != nil {
				t.Fatal(err)
			}
			if notice != nil {
				told++
				if !errors.Is(notice.Err, syscall.ENOSPC) || !strings.HasPrefix(notice.Path, dir) {
					t.Fatalf("notice %+v", notice)
				}
			}
		}
		if told != 1 || w.Lost() == 0 || len(w.pending) > MaxPending {
			t.Fatalf("%d notices, %d lines lost, %d bytes wait", told, w.Lost(), len(w.pending))
		}
		if es, s := all(t, dir); len(es) < 8 || len(es) > 20 || s.Damaged != 0 || !broken && s.Torn != 0 {
			t.Errorf("%d lines were written, skipped %+v", len(es), s)
		}
		lost = w.Lost()
		d.room = 1 << 20
		d.broken = false
		notice := w.Retry(now.Add(2 * time.Second))
		if notice == nil || notice.Err != nil || notice.Lost != lost || notice.For < 20*time.Second {
			t.Fatalf("notice %+v, but %d lines were lost", notice, lost)
		}
		w.must(t, now.Add(3*time.Second), line(0, n, 0))
		if err := w.Close(now); err != nil {
			t.Error(err)
		}
		es, s := all(t, dir)
		if kept := n - int(lost); es[len(es)-1].N != n || len(es) != kept+1 || s.Damaged != 0 {
			t.Fatalf("%d lines, the last is %d; %d of %d were lost; skipped %+v", len(es), es[len(es)-1].N, lost, n, s)
		}
		numbered(t, es[:len(es)-1], 0, n-int(lost))
	}
}

// TestDamage reads an archive with truncated, damaged and foreign files. The reader must return
// every complete line that can be read.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	gz := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write([]byte(text))
		z.Close()
		return b.Bytes()
	}
	var long bytes.Buffer
	for i := range 100 {
		long.Write(line(0, i, 1000-i))
	}
	cut := gz(long.String())
	for name, b := range map[string][]byte{
		"M0D0-000001-20260102T120000.jsonl.gz":     gz("{\"n\":1}\n{\"n\":2}\n"),
		"M0D0-000002-20260102T120000.jsonl.gz":     cut[:len(cut)-8],
		"M0D0-000003-20260102T120000.jsonl.gz":     []byte("no gzip"),
		"M0D0-000004-20260102T120000.jsonl":        []byte("{\"n\":4}\nnull\n\x00\x00\n{\"n\":\n" + strings.Repeat("y", 3*MaxLine) + "\n{\"n\":5}\n{\"n\":6}"),
		"M0D0-000005-20260102T120000.jsonl.gz":     nil,
		"M0D0-000006-20260102T120000.jsonl.gz":     gz("{\"n\":7}\n"),
		"M0D0-000006-20260102T120000.jsonl":        []byte("{\"n\":7}\n"),
		"M0D0-000007-20260102T120000.jsonl.gz.tmp": []byte("half"),
		"M0D0-000008-20260102T120000.txt":          []byte("{\"n\":9}\n"),
		"M0D0-1-20260102T120000.jsonl":             []byte("{\"n\":9}\n"),
	} {
		os.WriteFile(filepath.Join(dir, name), b, 0o600)
	}
	es, s := all(t, dir)
	var ns []int
	for _, e := range es {
		if e.Pad == "" {
			ns = append(ns, e.N)
		}
	}
	if !slices.Equal(ns, []int{1, 2, 4, 5, 7}) || s.Torn != 1 || s.Damaged != 7 {
		t.Errorf("read %v, skipped %+v", ns, s)
	}
	if names, err := Names(dir); err != nil || !slices.Equal(names, []string{"M0D0"}) {
		t.Errorf("%v, %v", names, err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("{\"n\":1}\n{\"n\":2}\n{\"n\":"), false)
	f.Add([]byte("\n\n\x00{}\n"), false)
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	g.Write([]byte("{\"n\":1}\n{\"n\":2}\n"))
	g.Close()
	f.Add(z.Bytes(), true)
	f.Fuzz(func(t *testing.T, b []byte, closed bool) {
		dir := t.TempDir()
		name := "M0D0-000001-20260102T120000.jsonl"
		if closed {
			name += ".gz"
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		read := func() (lines []string) {
			r, err := Read(dir, "M0D0")
			if err != nil {
				t.Fatal(err)
			}
			for x, ok := r.Next(); ok; x, ok = r.Next() {
				if !json.Valid(x) || bytes.ContainsRune(x, '\n') {
					t.Fatalf("%q", x)
				}
				lines = append(lines, string(x))
			}
			return lines
		}
		before := read()
		w, err := Open(Config{Dir: dir, Name: "M0D0"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := w.Append(noon, []byte("{\"end\":1}\n")); n != nil || err != nil {
			t.Fatal(n, err)
		}
		if err := w.Close(noon); err != nil {
			t.Fatal(err)
		}
		if after := read(); !slices.Equal(after, append(before, "{\"end\":1}")) {
			t.Fatalf("%q became %q", before, after)
		}
	})
}
