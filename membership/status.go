package membership

// Key describes a key that encrypts gossip. A Key does not contain the secret key itself.
type Key struct {
	ID      string // the first 8 hexadecimal digits of the key's SHA-256
	Bits    int    // length of the key in bits: 128, 192 or 256
	Primary bool   // the chip encrypts its own gossip with this key
}

// PoolStatus is the state of a gossip pool, as one chip of the pool (this chip) sees it.
type PoolStatus struct {
	Label      string // name of the pool; chips of pools with different names ignore each other
	Addr       string // address of this chip's gossip socket, as host:port
	Seen       int    // number of chips that this chip believes alive, including itself
	Expected   int    // number of chips of the complete pool; 0: unknown
	Unreadable uint64 // number of gossip streams that this chip could not read: the sender used a key that this chip does not have, or only one of the two chips encrypts its gossip
	Refused    uint64 // number of refused claims to be a chip, for example refused by View.Judge, plus the number of datagrams longer than any that a member sends
	Version    uint64 // with keys: number of dropped datagrams without memberlist's encryption version 1, plus the number of dropped streams with another version; without keys: 0
	Keys       []Key  // the keys of this chip, the primary key first; empty: gossip is not encrypted
}
