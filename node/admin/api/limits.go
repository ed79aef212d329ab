package api

import (
	"fmt"
	"time"
)

// Limits of a chip's API. With these limits, a chip needs at most 512 MiB of memory, whatever
// callers without a token do. Beyond a limit of batches, captures or event streams, a call gets
// status 503. Beyond a limit of connections, the chip closes the connection that has had no call
// for the longest time. If all connections have calls, the chip refuses a new connection with
// status 503.
const (
	HeaderTimeout = 5 * time.Second  // longest time for the caller to send the header of a call
	BodyTimeout   = 10 * time.Second // longest time for the caller to send the body of a call
	WriteTimeout  = 30 * time.Second // longest time for the caller to take what the chip has written; a capture has no such limit
	IdleTimeout   = time.Minute      // the chip closes a connection that has no call for this long

	MaxHeader       = 16 << 10 // largest header of a call, in bytes
	MaxConns        = 512      // connections in all; at most half of the files that the process may open
	MaxConnsPerAddr = 256      // connections from one address
	MaxBatches      = 256      // batches under way
	MaxCaptures     = 8        // captures under way
	MaxReaders      = 64       // event streams under way, and calls that wait until the chip is ready
	MaxImages       = 1        // memory images that a chip writes or reads at once
	MaxImage        = 64 << 30 // largest memory image, in bytes; a chip takes no more pages than its memory's limit
)

// Limits describes the limits of a chip's API, for the page and the OpenAPI document.
var Limits = fmt.Sprintf("A header has at most %d bytes and takes at most %v; a body takes at most %v. A chip has at most %d connections, %d from one address. "+
	"If a limit of connections is reached, the chip closes the connection that has had no call for the longest time. "+
	"If all connections have calls, a new connection gets status 503. A chip has at most %d batches, %d captures, %d event streams and %d waits under way. "+
	"Beyond such a limit, a call gets status 503. An unknown path gets status 404, and a wrong method status 405. "+
	"Every error is a problem in JSON, except for input that is not HTTP or has too large a header.",
	MaxHeader, HeaderTimeout, BodyTimeout, MaxConns, MaxConnsPerAddr, MaxBatches, MaxCaptures, MaxReaders, MaxWaits)
