package session

import (
	"context"
	"errors"
	"io"

	"ttfabric/node/noc/image"
)

// Imager is a [Fabric] that can save and restore the memory of its chip. A chip in this process is an
// Imager. A chip that the program reaches through the chip's API is an Imager too.
type Imager interface {
	SaveMemory(ctx context.Context, w io.Writer) (image.Sum, error)
	RestoreMemory(ctx context.Context, r io.Reader) (image.Sum, error)
}

// ErrNoImages is the error of [Session.SaveMemory] and [Session.RestoreMemory] on a fabric that is no
// [Imager].
var ErrNoImages = errors.New("this fabric saves no memory; save the memory from the chip, or over its API")

// SaveMemory writes an image of the memory of this Session's chip to w, in the format of package image. The
// image has the memory of Tensix and DRAM tiles, and of the kernels' part of ethernet tiles. The image has
// only pages that have been written, without the zeros at their ends. The chip goes on meanwhile. A workload
// should therefore wait until no chip writes to this chip. After an error, what w got is no image.
func (s *Session) SaveMemory(ctx context.Context, w io.Writer) (image.Sum, error) {
	if f, ok := s.f.(Imager); ok {
		return f.SaveMemory(ctx, w)
	}
	return image.Sum{}, ErrNoImages
}

// RestoreMemory replaces the memory of this Session's chip by the image from r. The chip first reads and
// checks the whole image. After an error, the memory is unchanged. Memory that the image lacks reads as zero
// afterwards. Registers and the memory of the base firmware stay as they are. The chip refuses the image
// while kernels run on the chip, and while the chip's calls are recorded. An image of another chip of the
// same architecture is welcome, if the chip has the image's tiles.
func (s *Session) RestoreMemory(ctx context.Context, r io.Reader) (image.Sum, error) {
	if f, ok := s.f.(Imager); ok {
		return f.RestoreMemory(ctx, r)
	}
	return image.Sum{}, ErrNoImages
}
