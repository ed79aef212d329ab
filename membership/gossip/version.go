package gossip

import (
	"errors"

	"github.com/hashicorp/memberlist"
)

// The parts of memberlist's encrypted messages that come before the encrypted text. A datagram is
//
//	[label header] version nonce text
//
// and the first message of a stream is
//
//	[label header] encryptMsg length(4) version nonce text
//
// A label header is hasLabelMsg, the length of the label in one byte, and the label (memberlist,
// label.go, net.go and security.go).
//
// Memberlist also decrypts version 0, whose text is padded. The version is not authenticated. An
// attacker can change the version of a captured message from 1 to 0. Memberlist then removes a
// padding that is not there, and panics if the index is out of range. The pool therefore accepts
// only version 1.
const (
	hasLabelMsg       = 244
	encryptMsg        = 10
	lengthSize        = 4
	encryptionVersion = 1
)

// errVersion is the error of a stream that is encrypted with another version than 1.
var errVersion = errors.New("gossip: the stream is encrypted, but not as version 1")

// sealed reports whether a datagram is encrypted as version 1.
func sealed(b []byte) bool {
	rest, _, err := memberlist.RemoveLabelHeaderFromPacket(b)
	return err == nil && len(rest) > 0 && rest[0] == encryptionVersion
}

// guard finds the encryption's version in the first message of a stream. Memberlist reads one
// message from each direction of a stream.
type guard struct {
	next field
	skip int // bytes before the next field
}

// field is a byte of a stream that guard looks at.
type field uint8

const (
	fieldBegin field = iota // hasLabelMsg or the type of the message
	fieldLabel              // the length of the label
	fieldType               // the type of the message
	fieldVersion
	fieldRest // guard looks at no further byte
)

// pass looks at the next bytes of a stream. pass reports false if the first message is encrypted
// with another version. If the first message is not encrypted, pass reports true, because
// memberlist itself refuses this message.
func (g *guard) pass(b []byte) bool {
	for g.next != fieldRest && len(b) > g.skip {
		x := b[g.skip]
		b = b[g.skip+1:]
		g.skip = 0
		switch {
		case g.next == fieldBegin && x == hasLabelMsg:
			g.next = fieldLabel
		case g.next == fieldLabel:
			g.next, g.skip = fieldType, int(x)
		case g.next == fieldVersion:
			g.next = fieldRest
			return x == encryptionVersion
		case x == encryptMsg:
			g.next, g.skip = fieldVersion, lengthSize
		default:
			g.next = fieldRest
		}
	}
	if g.next != fieldRest {
		g.skip -= len(b)
	}
	return true
}
