package snapshot

import "ttfabric/wire"

// Part is the part of one chip in a snapshot.
type Part struct {
	Options Options `json:"options"` // options of the chip, which all chips share
	Chip    Chip    `json:"chip"`    // state of the chip
}

// Summary counts what a snapshot holds of one chip, for people.
type Summary struct {
	Chip     wire.FabricNodeID `json:"chip"`      // the chip
	Epoch    Hex32             `json:"epoch"`     // epoch of the tables
	Ports    int               `json:"ports"`     // ports with a cable
	Up       int               `json:"up"`        // ports whose link is up
	Receiver int               `json:"receiver"`  // packets in receiver channels
	Sender   int               `json:"sender"`    // packets in sender channels
	InFlight int               `json:"in_flight"` // packets under way to the chip
	Waiting  int               `json:"waiting"`   // packets that wait inside the chip: own multicasts, replies, and requests to host memory
	Open     int               `json:"open"`      // open requests that begin at the chip
	Kernels  int               `json:"kernels"`   // kernels that run
}

// Summarize counts what a snapshot holds, by chip.
func (f *File) Summarize() []Summary {
	out := []Summary{}
	for i := range f.Chips {
		k := &f.Chips[i]
		s := Summary{Chip: k.Node, Epoch: k.Tables.Epoch, Ports: len(k.Ports), Waiting: len(k.Replies) + len(k.Host)}
		for j := range k.Ports {
			if k.Ports[j].Link == linkStates[2] {
				s.Up++
			}
			for _, v := range k.Ports[j].VCs {
				s.Receiver, s.InFlight = s.Receiver+len(v.Receiver), s.InFlight+len(v.InFlight)
				for _, c := range v.Senders {
					s.Sender += len(c)
				}
			}
		}
		for _, o := range k.Own {
			s.Waiting += len(o.Packets)
		}
		for j := range k.Flows {
			for m := range k.Flows[j].Requests {
				if !k.Flows[j].Requests[m].Settled {
					s.Open++
				}
			}
			s.Open += len(k.Flows[j].Reads)
		}
		for _, j := range k.Jobs {
			s.Kernels += len(j.Kernels)
		}
		out = append(out, s)
	}
	return out
}
