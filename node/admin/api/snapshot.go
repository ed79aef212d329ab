package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"ttfabric/node/snapshot"
)

// SnapshotBody asks for the state of a chip at a cut.
type SnapshotBody struct {
	Cut snapshot.Hex32 `json:"cut"` // number of the cut, not 0. If bit 0 is set, the chips save payloads. If bit 1 is set, the chips save memory. All chips of a snapshot get the same number. A later snapshot has a higher number (wrapping).
}

// snapshotRoutes are the calls for snapshots.
var snapshotRoutes = []Route{
	{Method: "POST", Path: "/v1/snapshot", Summary: "Returns the state of the chip at a cut. The chip begins the cut now, unless a neighbour's mark has already begun the cut. The chip sends the status of the answer when it has begun the cut. The chip sends the body when the marks of all neighbours have come, or after 2 seconds.",
		Bodies: []any{SnapshotBody{}}, Answers: one(snapshot.Part{}),
		Errors: []Failure{{Status: http.StatusConflict, When: "The chip has begun a later cut, or another caller has fetched the state."},
			{Status: http.StatusUnprocessableEntity, When: "The number of the cut is 0."},
			{Status: http.StatusServiceUnavailable, When: "The chip has as many event streams as it may have."}}},
}

// Snapshot returns the state of the chip at the cut with a number. Snapshot returns an error if the chip
// does not begin the cut within a time.
func (c *Client) Snapshot(ctx context.Context, cut uint32, within time.Duration) (p snapshot.Part, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(within, func() { cancel(fmt.Errorf("%s has not begun the cut within %v", c.who(), within)) })
	resp, err := c.open(ctx, "POST", "/v1/snapshot", SnapshotBody{snapshot.Hex32(cut)})
	late.Stop()
	if err != nil {
		return p, cmp.Or(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, snapshot.MaxFile)).Decode(&p); err != nil {
		return p, fmt.Errorf("%s answered POST /v1/snapshot with unexpected content: %w", c.who(), err)
	}
	return p, nil
}
