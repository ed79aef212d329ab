package wire

import (
	"encoding/binary"
	"errors"
)

// Lengths of a sequence update's payload, in bytes: with the grants of the
// first [BasicVCs] virtual channels, or of all.
const (
	UpdateLen     = 4 * BasicVCs
	FullUpdateLen = 4 * NumVCs
)

// ErrUpdate is returned for a payload that is not a sequence update.
var ErrUpdate = errors.New("sequence update: malformed")

// Update is the payload of a sequence update. For each virtual channel it holds the grant: the
// absolute number of packets that the peer may have sent since the session began. A grant is never
// taken back. A receiver ignores a grant that is older than the grant it has. Loss, duplication and
// reordering of updates therefore do no harm.
type Update struct {
	Grants [NumVCs]uint32
}

// DecodeUpdate reads a sequence update's payload. The error is [ErrUpdate].
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

// Append appends the payload: [UpdateLen] bytes if only the first [BasicVCs] channels have grants,
// [FullUpdateLen] otherwise.
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
