package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ttfabric/node/claim"
)

// Claimer is a [Fabric] whose chip keeps which program uses a part of the chip.
type Claimer interface {
	// Claim claims what "name" names, for the holder. If another program has the claim, the error is
	// a [HeldError]. The claim ends when the caller calls the function "release", or when the program or its
	// connection to the chip ends.
	Claim(ctx context.Context, name, holder string) (release func(), err error)
}

// HeldError says that another program uses a part of a chip that only one program can use at a time.
type HeldError = claim.HeldError

// Times of a claim.
const (
	claimWait  = 2 * time.Second       // longest time for which a claim waits for another holder, which may just have ended
	claimAgain = 50 * time.Millisecond // time between two attempts
)

// Claim claims a part of this Session's chip that only one program can use at a time. If another program
// holds the claim for longer than 2 seconds, the error is a [HeldError]. The claim ends with the
// program, or by the function "release". If the fabric is no [Claimer], Claim does nothing.
func (s *Session) Claim(ctx context.Context, name string) (release func(), err error) {
	c, ok := s.f.(Claimer)
	if !ok {
		return func() {}, nil
	}
	holder := fmt.Sprintf("process %d (%s)", os.Getpid(), filepath.Base(os.Args[0]))
	for end := time.Now().Add(claimWait); ; {
		release, err = c.Claim(ctx, name, holder[:min(len(holder), claim.MaxHolder)])
		if !errors.As(err, new(*HeldError)) || time.Now().After(end) {
			return release, err
		}
		select {
		case <-time.After(claimAgain):
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		}
	}
}
