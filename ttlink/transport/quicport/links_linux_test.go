package quicport_test

import (
	"testing"

	"ttfabric/ttlink/transport/linktest"
)

func TestShrinkingPath(t *testing.T) {
	linktest.InNamespace(t, func(setMTU func(int)) { linktest.Shrink(t, setMTU, carrier(t)) })
}
