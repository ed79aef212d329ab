package wireshark

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func place(t *testing.T) *Place { return &Place{Home: t.TempDir()} }

func states(t *testing.T, p *Place, want State) {
	t.Helper()
	steps, err := p.Look("/opt/ttfabric")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if s.State != want {
			t.Errorf("%s is %s, want %s", s.Path, s.State, want)
		}
	}
}

func TestInstallAndUninstallLeaveNothingBehind(t *testing.T) {
	p := place(t)
	states(t, p, Missing)
	if _, err := p.Install("/opt/ttfabric", false, true); err != nil {
		t.Fatal(err)
	}
	states(t, p, Missing) // because Install was called with dry
	for range 2 {
		if _, err := p.Install("/opt/ttfabric", false, false); err != nil {
			t.Fatal(err)
		}
		states(t, p, Current)
	}
	for _, path := range []string{".local/lib/wireshark/plugins/ttfabric.lua", ".local/lib/wireshark/extcap/ttfabric", ".config/wireshark/extcap/ttfabric", ".config/wireshark/profiles/ttfabric/colorfilters"} {
		if _, err := os.Stat(filepath.Join(p.Home, path)); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Uninstall("/opt/ttfabric", false, false); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(p.Home); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestAnotherProgramReplacesWhatTheFirstInstalled(t *testing.T) {
	p := place(t)
	for _, program := range []string{"/opt/a", "/opt/it's b"} {
		if _, err := p.Install(program, false, false); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(p.Home, ".config/wireshark/extcap/ttfabric"))
	if err != nil || !strings.Contains(string(b), `exec '/opt/it'\''s b' extcap`) {
		t.Errorf("%v: %s", err, b)
	}
}

func TestForeignFilesAreNotOverwritten(t *testing.T) {
	p := place(t)
	theirs := filepath.Join(p.Home, ".local/lib/wireshark/extcap/ttfabric")
	if err := write(theirs, []byte("mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Install("/opt/ttfabric", false, false); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), theirs) {
		t.Fatalf("%v, want ErrForeign with the path", err)
	}
	if _, err := os.Stat(filepath.Join(p.Home, ".local/lib/wireshark/plugins/ttfabric.lua")); err == nil {
		t.Error("something was written although it refused")
	}
	if _, err := p.Uninstall("/opt/ttfabric", true, false); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(theirs); err != nil || string(b) != "mine" {
		t.Errorf("%v %q: the foreign file is gone", err, b)
	}
	if _, err := p.Install("/opt/ttfabric", true, false); err != nil {
		t.Fatal(err)
	}
	states(t, p, Current)
}

func TestWhatTheUserChangedIsKept(t *testing.T) {
	p := place(t)
	if _, err := p.Install("/opt/ttfabric", false, false); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(p.Home, ".config/wireshark/profiles/ttfabric/preferences")
	if err := os.WriteFile(changed, []byte("theirs"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Install("/opt/other", false, false); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(changed); string(b) != "theirs" {
		t.Errorf("%q: the changed preferences were overwritten", b)
	}
	lua := filepath.Join(p.Home, ".local/lib/wireshark/plugins/ttfabric.lua")
	if err := os.WriteFile(lua, []byte("-- mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Install("/opt/other", false, false); !errors.Is(err, ErrForeign) {
		t.Errorf("%v: a changed dissector was overwritten", err)
	}
	if steps, err := p.Uninstall("/opt/other", false, false); err != nil {
		t.Error(err)
	} else if _, err := os.Stat(lua); err != nil {
		t.Errorf("the changed dissector is gone: %v", steps)
	}
}

// TestTheDissectorHasAllFieldsOfTheList checks that the dissector has each field of the list in
// wire/capture/doc.go, under the same name.
func TestTheDissectorHasAllFieldsOfTheList(t *testing.T) {
	doc, err := os.ReadFile("../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	lua := Dissector()
	_, list, _ := bytes.Cut(doc, []byte("# Names"))
	names := 0
	for _, line := range bytes.Split(list, []byte("\n")) {
		for _, name := range listed(string(line)) {
			names++
			side := strings.NewReplacer("ttlink.hello.from_", `ttlink.hello." .. side .. "_`, "ttlink.hello.expected_", `ttlink.hello." .. side .. "_`).Replace(name)
			if !bytes.Contains(lua, []byte(`"`+side+`"`)) {
				t.Errorf("%s is in the list and not in the dissector", name)
			}
		}
	}
	if names < 90 {
		t.Errorf("the list has %d names; is it read right?", names)
	}
}

// listed returns the fields that a line of the list names. The line "a.b, c" names a.b and a.c.
func listed(line string) (names []string) {
	rest, ok := strings.CutPrefix(line, "//\t")
	if !ok || !strings.HasPrefix(rest, "tt") {
		return nil
	}
	prefix := ""
	for {
		rest = strings.TrimLeft(rest, " ")
		end := strings.IndexAny(rest, ", ")
		if end < 0 {
			end = len(rest)
		}
		word := rest[:end]
		if strings.HasPrefix(word, "tt") {
			prefix = word[:strings.LastIndexByte(word, '.')+1]
		} else {
			word = prefix + word
		}
		names = append(names, word)
		if rest = rest[end:]; !strings.HasPrefix(rest, ",") {
			return names
		}
		if rest = rest[1:]; strings.HasPrefix(strings.TrimLeft(rest, " "), "0x") {
			return names
		}
	}
}
