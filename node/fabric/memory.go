package fabric

import (
	"context"
	"errors"
	"os"

	"ttfabric/node/admin/api"
	"ttfabric/node/noc/image"
)

// SaveMemory writes an image of a chip's memory to a file. SaveMemory replaces an old file in one step, when
// the image is complete.
func SaveMemory(ctx context.Context, c *api.Client, file string) (sum image.Sum, err error) {
	part := file + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return sum, err
	}
	sum, err = c.SaveMemory(ctx, f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		os.Remove(part)
	}
	return sum, err
}

// RestoreMemory replaces a chip's memory by the image in a file; see [api.Client.RestoreMemory].
func RestoreMemory(ctx context.Context, c *api.Client, file string) (sum image.Sum, err error) {
	f, err := os.Open(file)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	return c.RestoreMemory(ctx, f)
}
