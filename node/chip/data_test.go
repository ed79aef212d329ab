package chip

import (
	"testing"
	"time"

	"ttfabric/node/flow"
	"ttfabric/router"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// readFar makes M0D0 read from M0D2, the other end of a line of three chips. When the reply
// comes to the chip in the middle, readFar pauses the port to M0D0. Reply and completion then wait
// at the paused port.
func readFar(t *testing.T) (w *fabric, middle *Chip, west wire.Channel) {
	m, err := topo.Named("mesh:1x3")
	if err != nil {
		t.Fatal(err)
	}
	w = newFabric(t, m)
	middle = w.chips[1]
	for i := range middle.ports.list {
		if p := &middle.ports.list[i]; p.Dir == wire.West && p.Plane == 0 {
			west = p.Local.Channel
		}
	}
	w.watch = func(to wire.PortID, v wire.PacketView) {
		if v.Type() == wire.PacketReply && to.Node == middle.Node() {
			if err := middle.Command(w.now, west, router.CommandPause); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := flow.Request{Dst: m.Chips[2].Node, Command: wire.Command{Type: wire.NocRead, Addr: wire.NewNocAddr(1, 1, 0), Size: 64}}
	if a := w.chips[0].HandleRequest(w.now, r); a != flow.Accepted {
		t.Fatalf("admission %d", a)
	}
	w.run(20 * time.Millisecond)
	w.watch = nil
	return w, middle, west
}

// A router drops the reply to a read, and the completion beside it. The drop report ends the
// read at once, and says where and why the data was dropped.
func TestDroppedReply(t *testing.T) {
	w, middle, west := readFar(t)
	if n, err := middle.Flush(w.now, west); n != 2 || err != nil {
		t.Fatalf("%d packets flushed, %v; want the reply and the completion", n, err)
	}
	if err := middle.Command(w.now, west, router.CommandRun); err != nil {
		t.Fatal(err)
	}
	rs := w.results(0, 1)
	if len(rs) != 1 || rs[0].Fate != flow.FateUnknown || rs[0].Doubt != flow.DoubtData || rs[0].Drop != wire.DropFlushed || rs[0].At != middle.Node() {
		t.Fatalf("results %+v", rs)
	}
	w.check()
}

// A reply that waits is late, not lost: the read ends as done, however many probes the
// source has sent by then.
func TestLateReply(t *testing.T) {
	w, middle, west := readFar(t)
	w.run(3 * time.Second)
	if err := middle.Command(w.now, west, router.CommandRun); err != nil {
		t.Fatal(err)
	}
	rs := w.results(0, 1)
	if len(rs) != 1 || rs[0].Fate != flow.FateDone || len(rs[0].Data) != 64 || w.chips[0].Status().Counters.Probes == 0 {
		t.Fatalf("results %+v", rs)
	}
	w.check()
}

// The destination has a reply ready, but new tables leave no route for the reply. The chip
// drops and reports the reply; see TestLostData of package sim for whole fabrics.
func TestReplyWithoutRoute(t *testing.T) {
	w, _, _ := readFar(t)
	far := w.chips[2]
	r := wire.Packet{Type: wire.PacketReply, Src: far.Node(), Dst: wire.FabricNodeID{Mesh: 5}, ID: 77, Command: wire.Command{Type: wire.NocNone}}
	s, _ := far.build(&r)
	far.outbox.replies = append(far.outbox.replies, reply{s, 9})
	far.redirectReplies(w.now)
	rs := far.outbox.reports
	if len(far.outbox.replies) != 0 || len(rs) != 1 || rs[0].to != r.Dst || rs[0].Dst != r.Src || rs[0].ID != 77 || rs[0].Reason != wire.DropUnreachable || rs[0].Channel != 9 {
		t.Fatalf("%d replies, reports %+v", len(far.outbox.replies), rs)
	}
}
