package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"ttfabric/node/noc/image"
)

// memoryRoutes are the calls that save and restore the memory of a chip.
var memoryRoutes = []Route{
	{Method: "GET", Path: "/v1/memory", Summary: "Returns an image of the memory of the chip's tiles, with the pages in use only. The chip goes on meanwhile, so the image may lack later stores, or have a part of them. The last block says that the image is complete.",
		Answers: []Answer{{Status: http.StatusOK, Media: MediaImage, Doc: "A memory image."}},
		Errors:  []Failure{{Status: http.StatusServiceUnavailable, When: "The chip writes or reads another image, or has been closed."}}},
	{Method: "PUT", Path: "/v1/memory", Image: true, Summary: "Replaces the memory of the chip's tiles by an image. Memory that the image lacks reads as zero afterwards. The chip first reads and checks the whole image. After an error, the memory is unchanged. Registers and the memory of the base firmware stay as they are.",
		Answers: one(image.Sum{}),
		Errors: []Failure{{Status: http.StatusUnprocessableEntity, When: "The body is no memory image or is damaged, or the image does not fit the tiles or the limit of the chip's memory."},
			{Status: http.StatusConflict, When: "Kernels run on the chip, or the chip's calls are recorded."},
			{Status: http.StatusServiceUnavailable, When: "The chip writes or reads another image, or has been closed."}}},
}

// SaveMemory writes an image of the memory of the chip's tiles to w; see [session.Imager].
func (c *Client) SaveMemory(ctx context.Context, w io.Writer) (sum image.Sum, err error) {
	resp, err := c.open(ctx, "GET", "/v1/memory", nil)
	if err != nil {
		return sum, err
	}
	defer resp.Body.Close()
	if sum, err = image.Copy(w, resp.Body); err != nil {
		err = fmt.Errorf("%s did not send its memory in full: %w", c.who(), err)
	}
	return sum, err
}

// RestoreMemory replaces the memory of the chip's tiles by the image from r; see [session.Imager].
func (c *Client) RestoreMemory(ctx context.Context, r io.Reader) (sum image.Sum, err error) {
	resp, err := c.open(ctx, "PUT", "/v1/memory", io.NopCloser(r))
	if err != nil {
		return sum, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&sum); err != nil {
		return sum, fmt.Errorf("%s answered PUT /v1/memory with unexpected content: %w", c.who(), err)
	}
	return sum, nil
}
