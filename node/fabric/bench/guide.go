package bench

import (
	"ttfabric/wire"
)

// Figures of an ethernet link in Tenstorrent's CCL developer guide, chapter "Ethernet
// Link", in bytes. The guide gives no figure for the forward error correction.
const (
	guideOverhead = 14 + 16 + 16 + 4 // raw packet header, packet header, MAC and CRC of each packet
	guidePacket   = 1500             // largest packet
)

// GuideShare returns the payload's share of the bytes that cross the guide's link, from 0 to 1. A
// sender cuts a payload of the given size into packets of at most guidePacket bytes. The guide
// draws its utilisation curve by this formula.
func GuideShare(size int) float64 {
	packets := (size + guidePacket - 1) / guidePacket
	return float64(size) / float64(size+packets*guideOverhead)
}

// HeaderShare returns the payload's share of the bytes that cross a TT-link. The argument "size" is
// the length of the payload, and the argument "frame" is the largest frame payload, both in bytes.
// HeaderShare counts the packet's header for one hop, the frame headers and padding. HeaderShare
// leaves out acknowledgements and completions. If frame is not above 0, HeaderShare returns 0.
func HeaderShare(size, frame int) float64 {
	header, ok := wire.HeaderLenFor(1)
	if !ok || frame <= 0 {
		return 0
	}
	n := (header + size + frame - 1) / frame
	each := (header + size + n - 1) / n
	return float64(size) / float64(n*(wire.FrameOverhead+wire.PadTo(each)))
}
