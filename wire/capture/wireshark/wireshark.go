// Package wireshark holds what makes Wireshark understand ttfabric: the
// dissector, a profile and the plugin for live captures. It puts them where
// Wireshark 4.0 and later look for them, and holds the plugin's half of the
// dialogue with Wireshark. README.md beside it is for users.
package wireshark

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed ttfabric.lua profile/ttfabric
var files embed.FS

// Dissector is the dissector's source, in Lua.
func Dissector() []byte {
	b, err := files.ReadFile("ttfabric.lua")
	if err != nil {
		panic(err) // it is compiled in
	}
	return b
}

// File is one file that Wireshark reads.
type File struct {
	What string // dissector, profile or extcap
	Path string // absolute
	Data []byte
	Mode fs.FileMode

	// Theirs: Wireshark itself rewrites the file when its user changes preferences, so that it is kept as it is then.
	Theirs bool
}

// Place says where a user's Wireshark looks.
type Place struct {
	Home   string // $HOME
	Config string // Wireshark's configuration; empty: $HOME/.config/wireshark
	Data   string // where the list of what was installed stands; empty: $HOME/.local/share/ttfabric
}

// UserPlace is where the Wireshark of this process's user looks. It obeys the
// environment variables WIRESHARK_CONFIG_DIR (wireshark(1)), XDG_CONFIG_HOME
// and XDG_DATA_HOME. It fails where the user has no home folder.
func UserPlace() (*Place, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	p := &Place{Home: home, Config: os.Getenv("WIRESHARK_CONFIG_DIR")}
	if x := os.Getenv("XDG_CONFIG_HOME"); p.Config == "" && x != "" {
		p.Config = filepath.Join(x, "wireshark")
	}
	if x := os.Getenv("XDG_DATA_HOME"); x != "" {
		p.Data = filepath.Join(x, "ttfabric")
	}
	return p, nil
}

func (p *Place) config() string {
	if p.Config != "" {
		return p.Config
	}
	return filepath.Join(p.Home, ".config", "wireshark")
}

func (p *Place) data() string {
	if p.Data != "" {
		return p.Data
	}
	return filepath.Join(p.Home, ".local", "share", "ttfabric")
}

// Files are all files, with the program that the extcap plugin calls by its
// absolute path. Lua plugins are read from one folder by all releases, without the
// release's number in it. Extcap plugins are read from the configuration's folder by 4.0,
// and from ~/.local/lib/wireshark by 4.2 and later (release notes of 4.1.0).
func (p *Place) Files(program string) []File {
	lib := filepath.Join(p.Home, ".local", "lib", "wireshark")
	out := []File{{What: "dissector", Path: filepath.Join(lib, "plugins", "ttfabric.lua"), Data: Dissector(), Mode: 0o644}}
	plugin := []byte("#!/bin/sh\n# Live captures of ttfabric for Wireshark; written by 'ttfabric wireshark install'.\nexec " + quoted(program) + " extcap \"$@\"\n")
	for _, dir := range []string{filepath.Join(lib, "extcap"), filepath.Join(p.config(), "extcap")} {
		out = append(out, File{What: "extcap", Path: filepath.Join(dir, "ttfabric"), Data: plugin, Mode: 0o755})
	}
	entries, err := files.ReadDir("profile/ttfabric")
	if err != nil {
		panic(err) // it is compiled in
	}
	for _, e := range entries {
		b, err := files.ReadFile("profile/ttfabric/" + e.Name())
		if err != nil {
			panic(err)
		}
		out = append(out, File{What: "profile", Path: filepath.Join(p.config(), "profiles", "ttfabric", e.Name()), Data: b, Mode: 0o644, Theirs: true})
	}
	return out
}

// quoted is a word for the shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
