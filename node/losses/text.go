package losses

import (
	"fmt"
	"strings"

	"ttfabric/wire"
)

// DropText returns the numbers of packets that a chip dropped, by reason, in words. If there are none,
// DropText returns "0".
func (p *Packets) DropText() string {
	var parts []string
	for r := wire.DropReason(1); r < wire.NumDropReasons; r++ {
		n := p.Dropped[r].Total()
		if r == wire.DropMalformed {
			n += p.Malformed.Total()
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, r))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}
