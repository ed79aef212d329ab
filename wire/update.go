package wire

import (
	"encoding/binary"
	"errors"
)

// Lengths of a sequence update's payload, in bytes. UpdateLen is for the grants of the first
// [BasicVCs] virtual channels, and FullUpdateLen for the grants of all virtual channels.
const (
	UpdateLen     = 4 * BasicVCs
	FullUpdateLen = 4 * NumVCs
)

// ErrUpdate is the error for a payload that is not a valid sequence update.
var ErrUpdate = errors.New("sequence update: malformed")

// Update is the payload of a sequence update. For each virtual channel, an Update holds the grant:
// the absolute number of packets that the peer may have sent since the session began. Within a
// session, grants only grow, and an end ignores a grant that is lower than an earlier grant. Lost,
// duplicated and reordered updates therefore do no harm.
type Update struct {
	Grants [NumVCs]uint32
}

// DecodeUpdate decodes the payload b of a sequence update. The error is [ErrUpdate].
func DecodeUpdate(b []byte) (Update, error) {
	if len(b) != UpdateLen && len(b) != FullUpdateLen {
		return Update{}, ErrUpdate
	}
	var u Update
	for v := range len(b) / 4 {
		u.Grants[v] = binary.LittleEndian.Uint32(b[4*v:])
	}
	return u, nil
}

// Append appends the payload to b. The payload has [UpdateLen] bytes if only the first [BasicVCs]
// virtual channels have grants, and [FullUpdateLen] bytes otherwise.
func (u *Update) Append(b []byte) []byte {
	n := NumVCs
	if [NumVCs - BasicVCs]uint32(u.Grants[BasicVCs:]) == ([NumVCs - BasicVCs]uint32{}) {
		n = BasicVCs
	}
	for _, g := range u.Grants[:n] {
		b = binary.LittleEndian.AppendUint32(b, g)
	}
	return b
}
