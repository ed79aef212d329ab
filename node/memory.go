package node

import (
	"context"
	"fmt"
	"io"

	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/node/noc/image"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// imagePages is the number of pages that SaveMemory copies while the chip waits: 1 MiB.
const imagePages = 32

// SaveMemory writes an image of the memory of the chip's tiles to w. The chip goes on meanwhile, so the
// image may lack later stores, or have a part of them. SaveMemory implements session.Imager.
func (n *Node) SaveMemory(ctx context.Context, w io.Writer) (image.Sum, error) {
	var used []noc.Used
	if err := n.order(func(mono.Time) { used = n.chip.Memory().Used(kernel.EthBase) }); err != nil {
		return image.Sum{}, err
	}
	x, err := image.NewWriter(w, &image.Head{Arch: n.cfg.Topology.Arch, Chip: n.cfg.Node, Incarnation: n.chip.Incarnation()})
	buf := make([]byte, imagePages*noc.MaxUsed)
	for err == nil && len(used) > 0 && ctx.Err() == nil {
		some := used[:min(imagePages, len(used))]
		used = used[len(some):]
		err = n.order(func(mono.Time) {
			for i, u := range some {
				n.chip.Memory().Stored(u, buf[i*noc.MaxUsed:][:u.Len])
			}
		})
		for i, u := range some {
			if err == nil {
				err = x.Put(u.X, u.Y, u.Off, buf[i*noc.MaxUsed:][:u.Len])
			}
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return image.Sum{}, err
	}
	return x.End()
}

// BusyError says why a chip cannot restore its memory at present.
type BusyError struct {
	Chip wire.FabricNodeID
	Why  string // what the caller can do
}

// Error names the chip and the reason.
func (e *BusyError) Error() string {
	return fmt.Sprintf("chip %s cannot restore its memory: %s", e.Chip, e.Why)
}

// RestoreMemory replaces the memory of the chip's tiles by the image from r, in one step after the whole
// image has been read and checked. Memory that the image lacks reads as zero afterwards. Registers and the
// memory of the base firmware stay as they are. After an error, the memory is unchanged. If kernels run on
// the chip, or if the chip's calls are recorded, the error is a [BusyError]. RestoreMemory implements
// session.Imager.
func (n *Node) RestoreMemory(ctx context.Context, r io.Reader) (image.Sum, error) {
	var s *noc.Stage
	if err := n.order(func(mono.Time) { s = n.chip.Memory().NewStage(kernel.EthBase) }); err != nil {
		return image.Sum{}, err
	}
	sum, err := image.Read(r, func(h *image.Head) error {
		if h.Arch != n.cfg.Topology.Arch {
			return fmt.Errorf("the image is of a chip of architecture %s, and chip %s is of %s", h.Arch, n.cfg.Node, n.cfg.Topology.Arch)
		}
		return nil
	}, func(x, y uint8, off uint64, b []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return s.Put(x, y, off, b)
	})
	if err != nil {
		return image.Sum{}, err
	}
	if closed := n.order(func(mono.Time) { err = n.swap(s) }); closed != nil {
		return image.Sum{}, closed
	}
	return sum, err
}

// swap replaces the chip's memory by a stage, if nothing uses the memory meanwhile.
func (n *Node) swap(s *noc.Stage) error {
	switch {
	case len(n.chip.Jobs()) > 0:
		return &BusyError{n.cfg.Node, "kernels run on the chip; wait until they have ended, or stop them with 'ttfabric job stop'"}
	case n.record != nil && n.record.file != nil && !n.record.over():
		return &BusyError{n.cfg.Node, "the chip's calls are recorded, and the recording could not be replayed; end the recording first"}
	}
	if o := n.chip.Memory().Swap(s); o != wire.OutcomeDone {
		return fmt.Errorf("chip %s cannot restore its memory: %s", n.cfg.Node, o)
	}
	return nil
}
