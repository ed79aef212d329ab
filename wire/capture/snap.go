package capture

import "ttfabric/wire"

// DefaultSnapLen is the number of bytes of each Ethernet frame that a capture to a file keeps by
// default. All headers of a fabric packet fit, even with the longest route and with members. The
// number is rounded up to a multiple of 32.
const DefaultSnapLen = (MaxOverhead + wire.EnvelopeLen + wire.HeaderLen + wire.MaxPacketHeader + 31) / 32 * 32

// RefusedNote begins the comment on a captured frame that the port received and refused, if the
// capture does not keep the whole frame. A reader of the capture cannot verify the checksum of such
// a frame. The end of the comment is the reason.
const RefusedNote = "the port refused this frame: "
