package node

import (
	"context"

	"ttfabric/node/session"
)

// Run starts a chip and runs program with a session on that chip. Run shuts the chip down when the
// program returns or ctx ends. The program decides when the fabric is ready for the program: see
// [session.Session.Ready].
func Run(ctx context.Context, cfg Config, program func(context.Context, *session.Session) error) error {
	n, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	err = program(ctx, session.New(n))
	if cerr := n.Close(); err == nil {
		err = cerr
	}
	return err
}
