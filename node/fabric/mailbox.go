package fabric

import (
	"context"
	"errors"
	"fmt"

	"ttfabric/node/output"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// mailboxTries is the largest number of times that [ReadMailbox] reads a mailbox while
// the mailbox's router keeps writing to the mailbox.
const mailboxTries = 5

// ReadMailbox reads the mailbox of port p, which lies at the address "at" of the port's chip. If
// the router wrote to the mailbox meanwhile, ReadMailbox reads the mailbox again, and reads at most
// [mailboxTries] times. The field Torn of the result is the number of entries that the last read
// could not get.
func ReadMailbox(ctx context.Context, s *session.Session, p wire.PortID, at wire.NocAddr, plane wire.Plane) (v output.Mailbox, err error) {
	var m wire.Mailbox
	for range mailboxTries {
		b := make([]byte, wire.MailboxSize)
		if err = s.Read(ctx, p.Node, at, b, session.OnPlane(plane)); err != nil {
			return v, err
		}
		if m, err = wire.DecodeMailbox(b); err == nil && m.Torn == 0 || errors.Is(err, wire.ErrMailboxNone) {
			break
		}
	}
	if err != nil {
		return v, fmt.Errorf("chip %s channel %d, tile %s: %w", p.Node, p.Channel, at, err)
	}
	return output.MailboxOf(&m, at), nil
}
