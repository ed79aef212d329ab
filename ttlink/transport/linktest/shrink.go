package linktest

import (
	"fmt"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// MTUs of the path that shrinks, in bytes. The smaller one is below what a
// frame of the larger needs, and above the 1228 of the smallest packet of QUIC (RFC 9000 §14).
const (
	wide   = 1500
	narrow = 1300
	udpIP4 = 28 // bytes of headers
)

// Shrink has the path's MTU shrink with large frames under way. setMTU is that
// of the loopback of this process alone, see [Alone]: the kernel takes longer
// datagrams from nobody then, and says so to who tries. The link must come up
// again with smaller frames, and what it then takes arrives.
func Shrink(t *testing.T, setMTU func(int), carriers ...Carrier) {
	for _, c := range carriers {
		t.Run(c.Name, func(t *testing.T) {
			setMTU(wide)
			shrink(newLab(t, c, 1, 1, fault.Options{Delay: 1 * ms}), func(*lab) { setMTU(narrow) })
		})
	}
}

// shrink narrows the path in the middle of traffic.
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

// narrows has the cable swallow long datagrams in the middle of traffic,
// without a word, and later carry them again: the link comes up with shorter
// frames, and has longer ones again after the next training.
func narrows(w *lab) {
	shrink(w, func(w *lab) { w.cable.narrow(narrow - udpIP4) })
	w.cable.narrow(0)
	w.cable.cut(true, 0, 1)
	w.load(10)
	w.down()
	w.cable.cut(false, 0, 1)
	if !w.c.Probes { // else the transport says what the path takes, and when it asks again
		w.until("frames are long again", func(a, b state) bool {
			return a.Confirmed && b.Confirmed && min(a.MaxPayload, b.MaxPayload)+wire.FrameOverhead > narrow-udpIP4
		})
	}
	w.done(1)
}

// narrowPath does so from the start: the link comes up with what passes, and
// no session ends for it.
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

// lossy loses so much that long datagrams are often missing where short ones
// got through: the path must not be taken for narrow because of that.
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
