// Package wireshark adds ttfabric to Wireshark 4.0 and later. The package has a dissector, a
// profile and a plugin for live captures, and installs these files for a user. The package also has
// ttfabric's side of the protocol between Wireshark and the plugin. The file README.md in this
// folder is for users.
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

// Dissector returns the source of the dissector, in Lua.
func Dissector() []byte {
	b, err := files.ReadFile("ttfabric.lua")
	if err != nil {
		panic(err) // cannot happen, because the file is compiled into the program
	}
	return b
}

// File is one file to install for Wireshark.
type File struct {
	What string // "dissector", "profile" or "extcap"
	Path string // absolute path of the file
	Data []byte
	Mode fs.FileMode

	// If Theirs is set, Wireshark itself rewrites the file when the user changes preferences.
	// Without force, Install does not overwrite a file that Wireshark has rewritten.
	Theirs bool
}

// Place names the folders in which a user's Wireshark looks for files.
type Place struct {
	Home   string // the user's home folder
	Config string // folder of Wireshark's configuration; "": .config/wireshark in Home
	Data   string // folder in which ttfabric keeps the list of installed files; "": .local/share/ttfabric in Home
}

// UserPlace returns the Place of the user who runs this process. UserPlace uses the environment
// variables WIRESHARK_CONFIG_DIR (see wireshark(1)), XDG_CONFIG_HOME and XDG_DATA_HOME. UserPlace
// returns an error if the user has no home folder.
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

// Files returns all files to install. The parameter "program" is the absolute path of the ttfabric
// program that the extcap plugin calls. All releases of Wireshark read Lua plugins from the same
// folder in ~/.local/lib/wireshark. Wireshark 4.0 reads extcap plugins from the configuration
// folder. Wireshark 4.2 and later read extcap plugins from ~/.local/lib/wireshark (release notes of
// 4.1.0). Files therefore returns the extcap plugin twice, once for each folder.
func (p *Place) Files(program string) []File {
	lib := filepath.Join(p.Home, ".local", "lib", "wireshark")
	out := []File{{What: "dissector", Path: filepath.Join(lib, "plugins", "ttfabric.lua"), Data: Dissector(), Mode: 0o644}}
	plugin := []byte("#!/bin/sh\n# Live captures of ttfabric for Wireshark; written by 'ttfabric wireshark install'.\nexec " + quoted(program) + " extcap \"$@\"\n")
	for _, dir := range []string{filepath.Join(lib, "extcap"), filepath.Join(p.config(), "extcap")} {
		out = append(out, File{What: "extcap", Path: filepath.Join(dir, "ttfabric"), Data: plugin, Mode: 0o755})
	}
	entries, err := files.ReadDir("profile/ttfabric")
	if err != nil {
		panic(err) // cannot happen, because the folder is compiled into the program
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

// quoted returns s as one word in the syntax of the shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
