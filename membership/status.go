package membership

// Key identifies a key that encrypts gossip, without revealing the key.
type Key struct {
	ID      string // the first digits of the key's hash
	Bits    int    // length of the key: 128, 192 or 256
	Primary bool   // the chip encrypts the gossip that it sends with this key
}

// PoolStatus is the state of a gossip pool, as seen by this chip.
type PoolStatus struct {
	Label      string // name of the pool; pools of different labels do not mix
	Addr       string // address of this chip's socket, as host:port
	Seen       int    // chips that this chip believes alive, including itself
	Expected   int    // chips of a complete pool; 0: unknown
	Unreadable uint64 // streams that this chip could not read because the two chips have no key in common
	Refused    uint64 // claims to be a chip that this chip refused; see View.Judge
	Version    uint64 // datagrams and streams that this chip dropped, because it has keys and their encryption is not of memberlist's version 1
	Keys       []Key  // the keys, the primary key first; none: gossip is not encrypted
}
