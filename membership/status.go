package membership

// Key identifies a key that encrypts gossip, without revealing the key.
type Key struct {
	ID      string // the first digits of its hash
	Bits    int    // length of the key: 128, 192 or 256
	Primary bool   // the chip encrypts what it sends with this key
}

// PoolStatus is the state of a gossip pool, as seen by this chip.
type PoolStatus struct {
	Label      string // pools of different labels do not mix
	Addr       string // host:port of this chip's socket
	Seen       int    // chips believed alive, including this one
	Expected   int    // chips of a complete pool; 0: unknown
	Unreadable uint64 // streams that could not be read because the two chips have no key in common
	Keys       []Key  // the primary key first; none: gossip is not encrypted
}
