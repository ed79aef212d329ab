package node

import (
	"context"

	"ttfabric/node/session"
)

// Run starts a chip, and calls program with ctx and a session on the chip. When program returns,
// Run shuts the chip down. Program should wait until the fabric is ready, for example with
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
