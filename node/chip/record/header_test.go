package record

import (
	"bytes"
	"testing"

	"ttfabric/node/chip"
	"ttfabric/router/topo"
)

// FuzzHeader feeds damaged headers to decodeHeader. A header that decodeHeader accepts
// must not make chip.New panic, and must be encodable again.
func FuzzHeader(f *testing.F) {
	m, err := topo.Named("n300")
	if err != nil {
		f.Fatal(err)
	}
	h := Header{Program: "test", Started: 5, Config: chip.Config{Node: m.Chips[0].Node, Incarnation: 7, Topology: m, MaxPayload: 1408, Seed: 9}}
	b, err := h.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, c := range [][2]string{{`"Order":0`, `"Order":200`}, {`"Ring":0`, `"Ring":9`}, {`"MemoryLimit":0`, `"MemoryLimit":-1`}, {`"MaxPayload":1408`, `"MaxPayload":1407`},
		{`"Window":0`, `"Window":99999999999`}, {`"Incarnation":"0000000000000007"`, `"Incarnation":"0000000000000000"`}, {`"Sender":[0`, `"Sender":[9999999`}, {`"Receiver":[0`, `"Receiver":[-1`}, {`"Node":"M0D0"`, `"Node":"M0D9"`}} {
		changed := bytes.Replace(b, []byte(c[0]), []byte(c[1]), 1)
		if bytes.Equal(changed, b) {
			f.Fatalf("the header has no %s", c[0])
		}
		f.Add(changed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if err != nil {
			return
		}
		if len(h.Config.Topology.Chips) > 64 {
			return
		}
		_, _ = chip.New(h.Started, h.Config)
		if _, err := h.encode(); err != nil {
			t.Errorf("a header that was read cannot be written: %v", err)
		}
	})
}
