package scenario

import (
	"embed"
	"slices"
	"strings"
)

//go:embed library/*.yaml
var library embed.FS

// The embedded path of a scenario has three parts: the constant libraryFolder, the scenario's name, and
// the constant ending.
const (
	libraryFolder = "library/"
	ending        = ".yaml"
)

// Names returns the names of the scenarios that come with the program, sorted.
func Names() (names []string) {
	files, err := library.ReadDir(strings.TrimSuffix(libraryFolder, "/"))
	if err != nil {
		panic(err) // the program embeds the folder
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ending))
	}
	return names
}

// Source returns the file content of the scenario with the given name. If no scenario of this name
// comes with the program, Source returns false.
func Source(name string) ([]byte, bool) {
	if !slices.Contains(Names(), name) {
		return nil, false
	}
	b, err := library.ReadFile(libraryFolder + name + ending)
	return b, err == nil
}

// Nearest compares the argument "name" with the names of the scenarios that come with the program.
// Nearest returns the most similar of these names, or "" if none of them is similar.
func Nearest(name string) string { return nearest(name, Names()) }
