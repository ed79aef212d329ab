package main

import (
	"testing"

	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/router/topo/pick"
)

func machine(t *testing.T, name string) *topo.Topology {
	t.Helper()
	m, err := topo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestLinkNamesAreLinks compares shell completion with the parser of LINK. The parser must
// accept every name that completion offers.
func TestLinkNamesAreLinks(t *testing.T) {
	for _, name := range []string{"n300", "t3000", "2xt3000", "torus:4x4"} {
		m := machine(t, name)
		for _, channels := range []bool{false, true} {
			for _, word := range spec.LinkNames(m, channels) {
				if _, err := pick.Links(m, []string{word}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}
