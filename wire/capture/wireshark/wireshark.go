// Package wireshark holds the files with which Wireshark understands ttfabric: the dissector, a
// profile and the plugin for live captures. The package installs these files where Wireshark 4.0
// and later look for them. It also holds the plugin's half of the dialogue with Wireshark. The file
// README.md in this folder is for users.
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

// Dissector returns the dissector's source, in Lua.
func Dissector() []byte {
	b, err := files.ReadFile("ttfabric.lua")
	if err != nil {
		panic(err) // cannot happen: the file is compiled in
	}
	return b
}

// File is one file that Wireshark reads.
type File struct {
	What string // dissector, profile or extcap
	Path string // absolute path of the file
	Data []byte
	Mode fs.FileMode

	// If Theirs is set, Wireshark itself rewrites the file when its user changes preferences. An
	// installation keeps such a file as Wireshark wrote it.
	Theirs bool
}

// Place says in which folders a user's Wireshark looks for files.
type Place struct {
	Home   string // $HOME
	Config string // folder of Wireshark's configuration; empty: $HOME/.config/wireshark
	Data   string // folder of the list of installed files; empty: $HOME/.local/share/ttfabric
}

// UserPlace returns the folders in which the Wireshark of this process's user looks for files.
// UserPlace obeys the environment variables WIRESHARK_CONFIG_DIR (wireshark(1)), XDG_CONFIG_HOME
// and XDG_DATA_HOME. If the user has no home folder, UserPlace fails.
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

// Files returns all files to install. The parameter program is the absolute path of the program
// that the extcap plugin calls. All releases of Wireshark read Lua plugins from one folder, whose
// name has no release number. Wireshark 4.0 reads extcap plugins from the configuration's folder.
// Wireshark 4.2 and later read extcap plugins from ~/.local/lib/wireshark (release notes of 4.1.0).
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

// quoted returns a text as one quoted word of the shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
