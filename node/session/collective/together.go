package collective

import (
	"context"
	"sync"
)

// Together returns a barrier for n ranks of one process, as [Options.Meet] needs it. A call of the
// returned function waits until all n ranks have called the function, or until its context ends. The
// barrier can be used again and again.
func Together(n int) func(context.Context) error {
	var mu sync.Mutex
	came, all := 0, make(chan struct{})
	return func(ctx context.Context) error {
		mu.Lock()
		wait := all
		if came++; came == n {
			close(all)
			came, all = 0, make(chan struct{})
		}
		mu.Unlock()
		select {
		case <-wait:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
