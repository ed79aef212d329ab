package session

import (
	"context"
	"errors"
	"time"

	"ttfabric/node/flow"
	"ttfabric/wire"
)

// Performer is a [Fabric] that can submit one request and wait for the request's end in one call.
// For the caller, this call is less work than Submit.
type Performer interface {
	// Perform submits one request, and waits for the request's end. If ctx ends first, Perform
	// returns an [OutcomeUnknownError] and the error of ctx. If the fabric cannot start the
	// request, Perform returns the error of Submit.
	Perform(ctx context.Context, r flow.Request) (flow.Result, error)
}

// do submits one request, waits for the request's end, and returns the result. do repeats
// the request as the function "repeats" says. If ctx ends first, do stops waiting.
func (s *Session) do(ctx context.Context, r flow.Request) (flow.Result, error) {
	return perform(ctx, r, flow.Result{}, s.attempt)
}

// attempt submits one request once, and waits for its end.
type attempt func(ctx context.Context, r flow.Request) (flow.Result, error)

// attempt submits one request of a blocking call once, and waits for its end.
func (s *Session) attempt(ctx context.Context, r flow.Request) (flow.Result, error) {
	if p, ok := s.f.(Performer); ok && !s.lined() {
		return p.Perform(ctx, r)
	}
	return attempts(s.submit)(ctx, r)
}

// attempts returns the attempt that hands the request to the function "submit".
func attempts(submit submit) attempt {
	return func(ctx context.Context, r flow.Request) (flow.Result, error) {
		ended := make(chan flow.Result, 1)
		if _, err := submit(ctx, []flow.Request{r}, func(_ int, r flow.Result) { ended <- r }); err != nil {
			return flow.Result{}, err
		}
		select {
		case res := <-ended:
			return res, nil
		case <-ctx.Done():
			return flow.Result{}, LeftError(ctx, r.Dst)
		}
	}
}

// LeftError returns the error of a command to dst whose caller stopped waiting because ctx has ended.
func LeftError(ctx context.Context, dst wire.FabricNodeID) error {
	return errors.Join(&OutcomeUnknownError{Dst: dst, Reason: "the caller stopped waiting"}, ctx.Err())
}

// perform does the work of do with the given attempts. If an attempt returns errLater, perform returns
// the latest result, or res if no attempt has ended.
func perform(ctx context.Context, r flow.Request, res flow.Result, attempt attempt) (flow.Result, error) {
	for try := 0; ; try++ {
		got, err := attempt(ctx, r)
		if err == errLater {
			return res, failure(&r, &res)
		}
		if err != nil {
			return flow.Result{}, err
		}
		if res = got; !repeats(&r, &res, try) {
			return res, stopped(ctx, failure(&r, &res))
		}
		select {
		case <-time.After(againAfter(try)):
		case <-ctx.Done():
			return res, errors.Join(failure(&r, &res), ctx.Err())
		}
	}
}
