package scenario

import (
	"embed"
	"slices"
	"strings"
)

//go:embed library/*.yaml
var library embed.FS

// libraryFolder and ending are what comes before and after the name of a shipped scenario.
const (
	libraryFolder = "library/"
	ending        = ".yaml"
)

// Names are the names of the scenarios that the program contains, sorted.
func Names() (names []string) {
	files, err := library.ReadDir(strings.TrimSuffix(libraryFolder, "/"))
	if err != nil {
		panic(err) // the folder is part of the program
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ending))
	}
	return names
}

// Source is the text of a shipped scenario. Source reports false if there is none of that name.
func Source(name string) ([]byte, bool) {
	if !slices.Contains(Names(), name) {
		return nil, false
	}
	b, err := library.ReadFile(libraryFolder + name + ending)
	return b, err == nil
}

// Nearest is the shipped scenario whose name is most similar. Nearest is "" if none is similar.
func Nearest(name string) string { return nearest(name, Names()) }
