package api

import (
	"context"
	"fmt"
	"io"
	"time"
)

// MaxProfile is the longest duration of a CPU profile.
const MaxProfile = 5 * time.Minute

// ProfileKinds are the kinds of profiles that a chip can take of its process.
var ProfileKinds = []string{"cpu", "allocs", "heap", "goroutine"}

// Profile writes a profile of the chip's process to w, in pprof's format. A profile of the kind
// "cpu" covers the time d after the call; d must be above 0 and at most [MaxProfile]. A profile of
// another kind in [ProfileKinds] needs no time, and d has no effect.
func (c *Client) Profile(ctx context.Context, kind string, d time.Duration, w io.Writer) error {
	resp, err := c.open(ctx, "GET", fmt.Sprintf("/v1/profile/%s?for=%s", kind, d), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}
