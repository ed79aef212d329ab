package sim

import (
	"ttfabric/node/flow"
	"ttfabric/wire"
)

// sabotage names an error that the simulator makes on purpose. A test makes the simulator commit
// this error, and checks that the simulator's own checks find the error.
type sabotage int

const (
	noSabotage         sabotage = iota
	sabotageMemory              // flips a bit of memory
	sabotageTwice               // performs an increment twice
	sabotageSwallow             // hides the end of a request from the model
	sabotageDoubleEnd           // ends a request twice
	sabotageLie                 // changes the fate of a performed request from done to lost
	sabotageRead                // changes the data that a read returned
	sabotageBlame               // changes the fate of a read from another chip's memory from done to lost
	sabotageMember              // changes the fate of a multicast at one destination from done to lost
	sabotageHostRead            // changes the data that a read of a host returned
	sabotageHostTwice           // counts writes of hosts twice
	sabotageHostPacket          // changes the data that a packet read from host memory
	sabotageDoubt               // changes the fate of a read from another chip's memory from done to unknown
	sabotageCount               // counts one done request of each pair of chips as lost
)

// spoil makes the error that the sabotage of the run names. If spoil returns false, the simulator
// ignores the result of the request.
func (s *Sim) spoil(m *machine, o *op, r *flow.Result) bool {
	switch done := r.Fate == flow.FateDone && s.healed; s.cfg.sabotage {
	case sabotageMemory:
		if len(o.touches) > 0 && done && o.group == 0 {
			var b [1]byte
			l := s.machines[o.dst]
			t := o.touches[0]
			l.chip.Memory().Read(addrOf(t.at), b[:])
			l.chip.Memory().Execute(&wire.Command{Type: wire.NocUnicastWrite, Addr: addrOf(t.at)}, []byte{b[0] ^ 1})
		}
	case sabotageSwallow:
		return !done
	case sabotageDoubleEnd:
		o.ended = o.ended || done
	case sabotageMember:
		if r.Fate == flow.FateDone && o.group != 0 && !o.req.Probe {
			r.Fate = flow.FateLost
			r.Members = []flow.MemberResult{{Node: s.machines[o.members[0].machine].node, Fate: flow.FateLost}}
		}
	case sabotageLie:
		if done && o.performed == 1 {
			r.Fate = flow.FateLost
		}
	case sabotageRead:
		if len(r.Data) > 0 {
			r.Data[0] ^= 0x80
		}
	case sabotageBlame:
		if r.Fate == flow.FateDone && r.Data != nil && o.src != o.dst {
			r.Fate = flow.FateLost
		}
	case sabotageDoubt:
		if r.Fate == flow.FateDone && r.Data != nil && o.src != o.dst {
			r.Fate, r.Doubt = flow.FateUnknown, flow.DoubtLate
		}
	}
	return true
}
