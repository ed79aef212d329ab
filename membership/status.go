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
	Refused    uint64 // number of claims to be a chip that this chip refused, for example because of View.Judge, and of datagrams that were longer than a member sends
	Version    uint64 // with keys: number of dropped datagrams that were not encrypted as memberlist's version 1, and of dropped streams that were encrypted with another version; without keys: 0
	Keys       []Key  // the keys of this chip, the primary key first; empty: gossip is not encrypted
}
