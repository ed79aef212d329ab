package attach

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ttfabric/node/claim"
	"ttfabric/node/session"
)

// Claim is the request of a program to use a part of the chip that only one program can use at a time.
type Claim struct{ Name, Holder string }

// AppendClaim appends a claim.
func AppendClaim(b []byte, number uint64, w *Claim) []byte {
	b = AppendHead(b, KindClaim, number, 1+len(w.Name)+len(w.Holder))
	b = append(b, byte(len(w.Name)))
	return append(append(b, w.Name...), w.Holder...)
}

// ParseClaim reads the body of a claim.
func ParseClaim(b []byte) (w Claim, err error) {
	if len(b) < 1 || len(b) < 1+int(b[0]) {
		return w, fmt.Errorf("a claim of %d bytes: want the length of the name, the name and the holder", len(b))
	}
	n := 1 + int(b[0])
	w = Claim{string(b[1:n]), string(b[n:])}
	return w, claim.Check(w.Name, w.Holder)
}

// Claim claims a part of the chip; see [session.Claimer]. The claim ends with the connection at the
// latest.
func (c *Client) Claim(ctx context.Context, name, holder string) (release func(), err error) {
	if err := claim.Check(name, holder); err != nil {
		return nil, err
	}
	first, ended := make(chan error, 1), make(chan struct{})
	answered := false // used by the reading goroutine alone
	q := &request{event: func([]byte) {}, reply: func(_ []byte, err error) {
		if !answered {
			answered = true
			first <- err
		}
		if err != nil {
			close(ended)
		}
	}}
	number, err := c.send(ctx, q, func(b []byte, number uint64) []byte { return AppendClaim(b, number, &Claim{name, holder}) })
	if err != nil {
		return nil, err
	}
	release = func() {
		c.cancel(number)
		select { // so that the next program finds the claim free
		case <-ended:
		case <-time.After(cancelTime):
		}
	}
	select {
	case err = <-first:
	case <-ctx.Done():
		c.cancel(number)
		return nil, ctx.Err()
	}
	var e *Error
	switch {
	case err == nil:
		return release, nil
	case errors.As(err, &e) && e.Code == CodeHeld:
		err = &session.HeldError{Text: e.Text}
	}
	return nil, err
}
