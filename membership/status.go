package membership

// Key says which key gossip is encrypted with, without giving it away.
type Key struct {
	ID      string // the first digits of its hash
	Bits    int    // 128, 192 or 256
	Primary bool   // what is sent is encrypted with it
}

// PoolStatus is what a gossip pool says of itself.
type PoolStatus struct {
	Label      string // pools of different labels do not mix
	Addr       string // host:port of this chip's socket
	Seen       int    // chips believed alive, this one among them
	Expected   int    // chips of a whole pool; 0: unknown
	Unreadable uint64 // streams that could not be read, for want of a common key
	Keys       []Key  // the primary one first; none: plain
}
