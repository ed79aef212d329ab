package api

import (
	"context"
	"fmt"
	"io"
	"time"
)

// MaxProfile is the longest CPU profile that a chip takes.
const MaxProfile = 5 * time.Minute

// ProfileKinds lists the kinds of profiles that a chip can take of its process.
var ProfileKinds = []string{"cpu", "allocs", "heap", "goroutine"}

// Profile writes a profile of the chip's process to w, in pprof's format. A profile of
// the kind "cpu" takes the time d, at most [MaxProfile]. Profiles of the other kinds in
// [ProfileKinds] take no time.
func (c *Client) Profile(ctx context.Context, kind string, d time.Duration, w io.Writer) error {
	resp, err := c.open(ctx, "GET", fmt.Sprintf("/v1/profile/%s?for=%s", kind, d), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(w, resp.Body)
	return err
}
