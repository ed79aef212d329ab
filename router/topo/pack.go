package topo

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
)

// packed is the content of the packed form. The packed form is a cache of [Load] for the processes
// of one machine. The packed form is not a file format: a program may refuse the packed form of
// another program.
type packed struct {
	Version  int
	Text     [sha256.Size]byte // hash of the file from which the topology was loaded
	Topology *Topology
}

// packedVersion changes if a topology of an earlier program means something else in this program.
const packedVersion = 4

// Pack returns the packed form of a topology that [Load] has read from text. [Unpack] reads the
// packed form several times as fast as Load reads text.
func (t *Topology) Pack(text []byte) []byte {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(packed{packedVersion, sha256.Sum256(text), t}); err != nil {
		panic("topo: " + err.Error()) // cannot happen, because gob encodes all types of the fields
	}
	return b.Bytes()
}

// Unpack returns the topology in the packed form b if b belongs to the file with the given text.
// Otherwise Unpack returns false, and the caller must use [Load].
func Unpack(b, text []byte) (t *Topology, ok bool) {
	var p packed
	if gob.NewDecoder(bytes.NewReader(b)).Decode(&p) != nil || p.Version != packedVersion || p.Topology == nil || p.Text != sha256.Sum256(text) {
		return nil, false
	}
	return p.Topology, p.Topology.Validate() == nil
}
