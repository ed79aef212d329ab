package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"ttfabric/node/chip"
	"ttfabric/node/chip/record"
	"ttfabric/node/firmware"
	"ttfabric/node/noc"
	"ttfabric/router/topo"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// TestHostMemoryIsRecorded records a chip that moves a block from a host's memory to a tile and back. The
// replay has no host, and gives the same answers. In a replay with other bytes of the host, the chip gives
// other answers.
func TestHostMemoryIsRecorded(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	cfg := chip.Config{Node: m.Chips[0].Node, Incarnation: 1, Topology: m, MaxPayload: 1024}
	c, err := chip.New(0, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := record.NewWriter(&file, record.Header{Config: cfg}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	rec := record.NewRecorder(0, func(b []byte) ([]byte, error) { return b[:0], w.Block(b) })
	c.Wrap(rec.Wrap)
	x, y, _ := noc.EthernetTile(m.Arch, 10)
	le := binary.LittleEndian
	host := bytes.Repeat([]byte("a host's memory "), 512)
	now := mono.Time(0)
	c.Lend(now, uint64(len(host)))
	for i, f := range []firmware.Flags{firmware.WrReq, firmware.RdReq} {
		e := firmware.Entry{Target: firmware.NewTarget(0, 0, wire.NewNocAddr(1, 1, 64)), Data: 3000, Flags: f | firmware.DataBlock | firmware.DataBlockDRAM, HostAddr: uint32(i) * 4096}
		c.HandleStore(now, 10, firmware.SQ+firmware.Entries+uint64(i)*firmware.EntrySize, e.Append(nil))
		c.HandleStore(now, 10, firmware.SQ+firmware.WrIdx, le.AppendUint32(nil, uint32(i+1)))
		for range 4 {
			now++
			c.Tick(now)
			c.Pump(now)
			for c.HasTransfer() {
				p, _ := c.PollTransfer()
				if p.Write {
					copy(host[p.Addr:], p.Data)
				}
				c.HandleTransfer(now, p.ID, wire.OutcomeDone, bytes.Clone(host[p.Addr:][:p.Len]))
			}
		}
	}
	var done [4]byte
	if c.Memory().Read(wire.NewNocAddr(x, y, firmware.CQ+firmware.Entries+12), done[:]); le.Uint32(done[:])&uint32(firmware.RdData) == 0 || !bytes.Equal(host[4096:7096], host[:3000]) {
		t.Fatalf("the block did not come back; the flags are %#x", le.Uint32(done[:]))
	}
	rec.End()
	if err := w.End(record.EndStopped, ""); err != nil {
		t.Fatal(err)
	}
	s, err := replay(file.Bytes())
	if err != nil || s.Outputs < 4 || s.End != record.EndStopped {
		t.Errorf("the replay: %+v, %v", s, err)
	}
	r, err := record.NewReader(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	var diff *record.Difference
	_, err = record.Replay(r, record.Options{Each: func(_ uint64, rec *record.Record) error {
		if rec.Kind == record.Kind(chip.OpHandleTransfer) && len(rec.Data) > 0 {
			rec.Data[0]++
		}
		return nil
	}})
	if !errors.As(err, &diff) || diff.Op != "PollTransfer" {
		t.Errorf("with other bytes of the host: %v", err)
	}
}
