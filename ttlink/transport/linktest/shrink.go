package linktest

import (
	"fmt"
	"testing"
	"time"

	"ttfabric/ttlink/fault"
	"ttfabric/wire"
)

// MTUs of the path before and after the path becomes narrower, in bytes. Frames that fill the first
// MTU do not fit the second one. QUIC needs an MTU of at least 1228 bytes (RFC 9000 §14), and both
// MTUs are larger.
const (
	wide   = 1500
	narrow = 1300
	udpIP4 = 28 // bytes of the IPv4 and UDP headers
)

// Shrink reduces the path's MTU during traffic, over every carrier. The kernel then refuses
// datagrams that are too long, with an error to the sender. The link must come up again with
// shorter frames, and deliver all later packets. The function setMTU must set the MTU of the
// loopback interface (see [InNamespace]).
func Shrink(t *testing.T, setMTU func(int), carriers ...Carrier) {
	for _, c := range carriers {
		t.Run(c.Name, func(t *testing.T) {
			setMTU(wide)
			shrink(newLab(t, c, 1, 1, fault.Options{Delay: 1 * ms}), func(*lab) { setMTU(narrow) })
		})
	}
}

// shrink calls the function "narrows", which makes the path narrower, during traffic. The link must
// come up again with shorter frames, and deliver packets.
func shrink(w *lab, narrows func(w *lab)) {
	w.up()
	w.load(1 << 20)
	w.until("large frames arrive", func(a, b state) bool {
		return a.next > 50 && b.next > 50 && a.MaxPayload+wire.FrameOverhead > narrow-udpIP4
	})
	narrows(w)
	w.until("the link is up again, with shorter frames", func(a, b state) bool {
		return a.Confirmed && b.Confirmed && a.Session == b.Session && max(a.MaxPayload, b.MaxPayload)+wire.FrameOverhead <= narrow-udpIP4
	})
	w.enough(100)
	w.done(1)
}

// narrows makes the relay silently drop long datagrams during traffic. The link must come up again
// with shorter frames. Later, the relay passes on long datagrams again. After the next training,
// the link must use long frames again.
func narrows(w *lab) {
	shrink(w, func(w *lab) { w.cable.narrow(narrow - udpIP4) })
	w.cable.narrow(0)
	w.cable.cut(true, 0, 1)
	w.load(10)
	w.down()
	w.cable.cut(false, 0, 1)
	if !w.c.Probes { // a carrier that measures the path itself decides when frames become longer
		w.until("frames are long again", func(a, b state) bool {
			return a.Confirmed && b.Confirmed && min(a.MaxPayload, b.MaxPayload)+wire.FrameOverhead > narrow-udpIP4
		})
	}
	w.done(1)
}

// narrowPath uses a path that silently drops long datagrams from the start. The link must come up
// with frames that the path takes, and no session may end.
func narrowPath(w *lab) {
	w.cable.narrow(narrow - udpIP4)
	w.load(100)
	w.done(0)
	for _, e := range w.ends {
		if s := e.look(); s.MaxPayload+wire.FrameOverhead > narrow-udpIP4 {
			w.t.Errorf("end %d uses frames that are too long for the path: %+v", e.i, s)
		}
	}
}

// lossy uses a path that loses 20 % of all datagrams, of any length. Sometimes only the long
// datagrams are lost. A carrier that measures the path must not conclude that the path has become
// narrower.
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
