package snapshot

import (
	"slices"

	"ttfabric/wire"
)

// Account compares the open requests of all sources with the packets of the file. An open request that
// a destination has not settled must have one packet in the file. A multicast may have several packets,
// because each copy is a packet.
type Account struct {
	Open     int     `json:"open"`      // requests and probes that sources hold open
	Probes   int     `json:"probes"`    // of these: probes that flows sent on their own, which no program made
	Settled  int     `json:"settled"`   // open requests that all destinations have settled, so that only the answers are under way
	UnderWay int     `json:"under_way"` // open requests whose packet is in the file
	Missing  []Hex64 `json:"missing"`   // ids of open requests that have no packet in the file, and that a destination has not settled: a router has dropped the packet, or a chip whose state is unknown has the packet
	Strays   []Hex64 `json:"strays"`    // ids of requests in the file that no source holds open, although the file has the state of the source
	Doubles  []Hex64 `json:"doubles"`   // ids of unicast requests of which the file has more than one packet
}

// Packets calls visit for each packet of the file: the packets of all channels, the packets in flight,
// and the packets that wait inside chips. Packets leaves out the field Pending of ports.
func (f *File) Packets(visit func(at *Chip, p *Packet)) {
	for i := range f.Chips {
		k := &f.Chips[i]
		each := func(list []Packet) {
			for j := range list {
				visit(k, &list[j])
			}
		}
		for j := range k.Ports {
			for m := range k.Ports[j].VCs {
				v := &k.Ports[j].VCs[m]
				each(v.InFlight)
				each(v.Receiver)
				for _, s := range v.Senders {
					each(s)
				}
			}
		}
		for j := range k.Own {
			each(k.Own[j].Packets)
		}
		each(k.Replies)
		each(k.Host)
	}
}

// Account compares the open requests with the packets of the file.
func (f *File) Account() Account {
	a := Account{Missing: []Hex64{}, Strays: []Hex64{}, Doubles: []Hex64{}}
	chips := map[wire.FabricNodeID]*Chip{}
	arrived := map[wire.FabricNodeID]map[flowKey]*Arrived{}
	for i := range f.Chips {
		k := &f.Chips[i]
		chips[k.Node] = k
		by := map[flowKey]*Arrived{}
		for j := range k.Arrived {
			r := &k.Arrived[j]
			by[flowKey{r.Src, r.Group, r.Plane, r.Other}] = r
		}
		arrived[k.Node] = by
	}
	type request struct {
		src wire.FabricNodeID
		id  Hex64
	}
	copies := map[request]int{}
	f.Packets(func(_ *Chip, p *Packet) {
		if p.Type == wire.PacketRequest.String() || p.Type == wire.PacketProbe.String() {
			r := request{p.Src, p.ID}
			if copies[r]++; copies[r] == 2 && wire.PacketView(p.Head).Group() == 0 {
				a.Doubles = append(a.Doubles, p.ID)
			}
		}
	})
	open := map[request]bool{}
	for i := range f.Chips {
		k := &f.Chips[i]
		for j := range k.Flows {
			w := &k.Flows[j]
			for m := range w.Requests {
				r := &w.Requests[m]
				key := request{k.Node, r.ID}
				open[key] = true // a settled read or a refused request may have a packet, too, if its answer was faster
				if r.Settled {
					continue
				}
				if a.Open++; r.Probe {
					a.Probes++
				}
				switch {
				case copies[key] > 0:
					a.UnderWay++
				case w.settled(k, r, chips, arrived):
					a.Settled++
				default:
					a.Missing = append(a.Missing, r.ID)
				}
			}
			for m := range w.Reads {
				if w.Reads[m].Probe {
					a.Probes++
				}
			}
			a.Open += len(w.Reads)
			a.Settled += len(w.Reads)
		}
	}
	for r := range copies {
		if chips[r.src] != nil && !open[r] {
			a.Strays = append(a.Strays, r.id)
		}
	}
	for _, l := range [][]Hex64{a.Missing, a.Strays, a.Doubles} {
		slices.Sort(l)
	}
	return a
}

// settled reports whether all members that a request waits for have settled the request.
func (w *Flow) settled(src *Chip, r *Request, chips map[wire.FabricNodeID]*Chip, arrived map[wire.FabricNodeID]map[flowKey]*Arrived) bool {
	for i := range w.Ends {
		if w.Group != 0 && !slices.Contains(r.Waits, i) {
			continue
		}
		x := arrived[w.Ends[i].Chip][flowKey{src.Node, w.Group, w.Plane, w.Other}]
		if x == nil || x.Epoch != w.Epoch || int32(x.Next-r.Seq) <= 0 {
			return false
		}
	}
	return true
}
