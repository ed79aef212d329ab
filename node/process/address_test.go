package process

import (
	"net"
	"net/netip"
	"testing"
)

// TestToldAPI checks which port of its API a chip tells other chips. The port must be 0 if
// other chips cannot reach the API.
func TestToldAPI(t *testing.T) {
	for _, x := range []struct {
		api, listen, advertise string
		want                   uint16
	}{
		{"0.0.0.0:8474", "10.0.0.1", "", 8474},
		{"[::]:8474", "10.0.0.1", "", 8474},
		{"10.0.0.1:8474", "10.0.0.1", "", 8474},
		{"127.0.0.1:8474", "10.0.0.1", "", 0},
		{"127.0.0.1:8474", "127.0.0.1", "", 8474},
		{"192.0.2.7:8474", "10.0.0.1", "192.0.2.7", 8474},
		{"192.0.2.8:8474", "10.0.0.1", "192.0.2.7", 0},
	} {
		c := Config{Address: Address{Listen: netip.MustParseAddr(x.listen)}}
		if x.advertise != "" {
			c.Address.Advertise = netip.MustParseAddr(x.advertise)
		}
		if got := c.told(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(x.api))); got != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
}
