package scenario

import (
	"embed"
	"slices"
	"strings"
)

//go:embed library/*.yaml
var library embed.FS

// libraryFolder and ending are the texts before and after the name in the path of a shipped
// scenario.
const (
	libraryFolder = "library/"
	ending        = ".yaml"
)

// Names returns the names of the scenarios that the program contains, sorted.
func Names() (names []string) {
	files, err := library.ReadDir(strings.TrimSuffix(libraryFolder, "/"))
	if err != nil {
		panic(err) // the program contains the folder
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ending))
	}
	return names
}

// Source returns the text of the shipped scenario with a name. If no shipped scenario has that
// name, Source reports false.
func Source(name string) ([]byte, bool) {
	if !slices.Contains(Names(), name) {
		return nil, false
	}
	b, err := library.ReadFile(libraryFolder + name + ending)
	return b, err == nil
}

// Nearest returns the name of the shipped scenario that is most similar to name. If no shipped
// scenario has a similar name, Nearest returns "".
func Nearest(name string) string { return nearest(name, Names()) }
