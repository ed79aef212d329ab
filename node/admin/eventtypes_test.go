package admin

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"ttfabric/node/admin/api"
)

// TestEventTypes compares the list of the types of events with the types that this package gives to events.
func TestEventTypes(t *testing.T) {
	var given []string
	files, _ := filepath.Glob("*.go")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bv\.Type\b[^=\n]* = "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			given = append(given, m[1])
		}
	}
	slices.Sort(given)
	if given = slices.Compact(given); !slices.Equal(given, api.EventTypes) {
		t.Errorf("events have the types %q, and api.EventTypes has %q", given, api.EventTypes)
	}
}
