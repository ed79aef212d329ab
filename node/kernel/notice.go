package kernel

import (
	"encoding/binary"

	"ttfabric/node/noc"
	"ttfabric/wire"
)

// A chip tells the other chips of a job that the job has ended. For this, the chip writes a notice
// into the job register of each other chip. Hardware has no job registers. A notice:
//
//	0    8  number of the job
//	8    4  why the job ended, see [Why]
//	12   2  mesh of the chip that ended the job first
//	14   2  number of that chip in the mesh
//	16   1  length of the kernel's name, in bytes
//	17   1  length of the text, in bytes
//	18      the name, of at most 64 bytes, and then the text, cut off at the end of the notice; the rest is 0
const (
	NoticeSize   = 256 // length of a notice in bytes
	noticeHead   = 18
	noticeOffset = 0xFFBF1000 // address of the job register in the ethernet tile of channel 0
)

// NoticeAddr returns the address of the job register of a chip of an architecture: NoticeSize bytes in the
// ethernet tile of channel 0.
func NoticeAddr(a wire.Arch) wire.NocAddr {
	x, y, _ := noc.EthernetTile(a, 0)
	return wire.NewNocAddr(x, y, noticeOffset)
}

// Notice is the end of a job, as chips tell each other.
type Notice struct {
	Job JobID
	End End
}

// Bytes returns the notice in the form of the job register.
func (n Notice) Bytes() (b [NoticeSize]byte) {
	le := binary.LittleEndian
	le.PutUint64(b[0:], uint64(n.Job))
	le.PutUint32(b[8:], uint32(n.End.Why))
	le.PutUint16(b[12:], uint16(n.End.By.Mesh))
	le.PutUint16(b[14:], uint16(n.End.By.Chip))
	k := copy(b[noticeHead:noticeHead+64], n.End.Kernel)
	t := copy(b[noticeHead+k:], n.End.Text)
	b[16], b[17] = byte(k), byte(t)
	return b
}

// ParseNotice reads a notice. ParseNotice returns false for a wrong length or an unknown reason.
func ParseNotice(b []byte) (n Notice, ok bool) {
	if len(b) != NoticeSize {
		return n, false
	}
	le := binary.LittleEndian
	n.Job, n.End.Why = JobID(le.Uint64(b)), Why(min(le.Uint32(b[8:]), uint32(255)))
	n.End.By = wire.FabricNodeID{Mesh: wire.MeshID(le.Uint16(b[12:])), Chip: wire.ChipID(le.Uint16(b[14:]))}
	k, t := int(b[16]), int(b[17])
	if noticeHead+k+t > NoticeSize || n.End.Why == 0 || n.End.Why >= endWhys {
		return n, false
	}
	n.End.Kernel, n.End.Text = string(b[noticeHead:][:k]), string(b[noticeHead+k:][:t])
	return n, true
}
