package linktest

import (
	"fmt"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// MTUs of the path that shrinks, in bytes. A frame for the larger MTU is longer than the smaller
// MTU. The smaller MTU is more than the 1228 bytes of the smallest packet of QUIC (RFC 9000 §14).
const (
	wide   = 1500
	narrow = 1300
	udpIP4 = 28 // bytes of the IPv4 and UDP headers
)

// Shrink makes the path's MTU shrink while large frames are under way. The function setMTU sets the
// MTU of the loopback of this process alone, see [InNamespace]. The kernel then takes no longer
// datagrams, and tells the sender that a datagram is too long. The link must come up again with
// smaller frames. Every packet that the link takes from then on must arrive.
func Shrink(t *testing.T, setMTU func(int), carriers ...Carrier) {
	for _, c := range carriers {
		t.Run(c.Name, func(t *testing.T) {
			setMTU(wide)
			shrink(newLab(t, c, 1, 1, fault.Options{Delay: 1 * ms}), func(*lab) { setMTU(narrow) })
		})
	}
}

// shrink narrows the path during traffic.
func shrink(w *lab, narrows func(w *lab)) {
	w.up()
	w.load(1 << 20)
	w.until("large frames arrive", func(a, b state) bool {
		return a.next > 50 && b.next > 50 && a.MaxPayload+wire.FrameOverhead > narrow-udpIP4
	})
	narrows(w)
	w.until("the link is up again, with smaller frames", func(a, b state) bool {
		return a.Confirmed && b.Confirmed && a.Session == b.Session && max(a.MaxPayload, b.MaxPayload)+wire.FrameOverhead <= narrow-udpIP4
	})
	w.enough(100)
	w.done(1)
}

// narrows makes the cable drop long datagrams during traffic, without telling anybody, and later
// carry long datagrams again. The link must come up with shorter frames. After the next training,
// the link must use longer frames again.
func narrows(w *lab) {
	shrink(w, func(w *lab) { w.cable.narrow(narrow - udpIP4) })
	w.cable.narrow(0)
	w.cable.cut(true, 0, 1)
	w.load(10)
	w.down()
	w.cable.cut(false, 0, 1)
	if !w.c.Probes { // otherwise the transport says what the path takes, and when it measures again
		w.until("frames are long again", func(a, b state) bool {
			return a.Confirmed && b.Confirmed && min(a.MaxPayload, b.MaxPayload)+wire.FrameOverhead > narrow-udpIP4
		})
	}
	w.done(1)
}

// narrowPath uses a path that is narrow from the start. The link must come up with the size that
// passes, without ending a session.
func narrowPath(w *lab) {
	w.cable.narrow(narrow - udpIP4)
	w.load(100)
	w.done(0)
	for _, e := range w.ends {
		if s := e.look(); s.MaxPayload+wire.FrameOverhead > narrow-udpIP4 {
			w.t.Errorf("end %d has frames that the path does not take: %+v", e.i, s)
		}
	}
}

// lossy loses many datagrams, and long datagrams are therefore often missing while short datagrams
// get through. The link must not take the path for narrow because of such loss.
func lossy(w *lab) {
	w.up()
	w.calmly(func() (bad string) {
		before := [2]state{w.ends[0].look(), w.ends[1].look()}
		w.cable.set(fault.Options{Delay: 1 * ms, Loss: .2}, 0, 1)
		w.load(1 << 20)
		time.Sleep(6 * time.Second)
		w.cable.set(fault.Options{Delay: 1 * ms}, 0, 1)
		w.enough(20)
		w.done(0)
		for i, e := range w.ends {
			if s := e.look(); w.c.Probes && s.port.Auth.Keyings != before[i].port.Auth.Keyings {
				bad = fmt.Sprintf("end %d agreed on keys again: %+v", i, s)
			}
		}
		return bad
	})
}
