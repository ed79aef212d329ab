package traffic

import (
	"fmt"
	"maps"
	"time"

	"ttfabric/wire"
)

// PairReport holds what one chip of a pair knows about the pair's packets. The source fills in
// the fields down to Overflowed. The destination fills in the fields from Delivered on. At the
// source, Sent = Completed + Refused + Failed + the packets still under way.
type PairReport struct {
	Pair
	Sent      uint64            `json:"sent"`
	Completed uint64            `json:"completed"`          // packets that the destination has confirmed as performed
	Refused   uint64            `json:"refused"`            // packets that the destination did not perform
	Outcomes  map[string]uint64 `json:"outcomes,omitempty"` // the packets counted in Refused, by outcome
	Failed    uint64            `json:"failed"`             // packets that were lost on their route, or whose outcome is unknown
	Latency   Histogram         `json:"latency"`            // latency of the completed packets, from the request to the completion; with a load, from the arrival at the source to the completion

	// If the spec has a load: Offered = Sent + Overflowed + the packets that wait at the source.
	Offered    uint64 `json:"offered,omitempty"`    // packets that arrived at the source
	Overflowed uint64 `json:"overflowed,omitempty"` // packets counted in Offered that the source discarded, because MaxQueue packets were waiting

	Delivered  uint64 `json:"delivered"`           // packets verified at the destination, each counted once
	Missing    uint64 `json:"missing"`             // packets of the pair that are not delivered yet
	Duplicated uint64 `json:"duplicated"`          // arrivals of packets that had been delivered before
	Corrupted  uint64 `json:"corrupted"`           // arrivals that are not packets as their source makes them
	Reordered  uint64 `json:"reordered"`           // packets delivered after later packets of their plane and direction
	Forgotten  uint64 `json:"forgotten,omitempty"` // packets counted in Missing whose gap the verifier has forgotten; such a packet would count as duplicated if it came
}

func (p *PairReport) refuse(o wire.Outcome) {
	if p.Outcomes == nil {
		p.Outcomes = map[string]uint64{}
	}
	p.Outcomes[o.String()]++
	p.Refused++
}

// Report is the result of one chip's part of a run up to now.
type Report struct {
	Run         uint64            `json:"run"`
	Chip        wire.FabricNodeID `json:"chip"`
	Finished    bool              `json:"finished"`                       // all packets of the chip have ended
	Elapsed     time.Duration     `json:"elapsed_nanoseconds"`            // time from the sending of the chip's first packet to the latest end of a packet
	Offering    time.Duration     `json:"offering_nanoseconds,omitempty"` // with a load: time from the run's start to the latest arrival
	Source      []PairReport      `json:"source"`
	Dest        []PairReport      `json:"destination"`
	Misdirected uint64            `json:"misdirected"` // whole packets of this run that were delivered to the wrong place
	Stray       uint64            `json:"stray"`       // arrivals that do not belong to this run
}

// NewReport returns the report of a chip's part of a run. The report shares no memory with g and v.
func NewReport(g *Generator, v *Verifier) Report {
	r := NewCounts(g, v)
	for i := range g.flows {
		r.Source[i].Latency = g.flows[i].latency.Histogram()
	}
	return r
}

// NewCounts returns the report of a chip's part of a run without the latencies, which are most of a
// report. The report shares no memory with g and v.
func NewCounts(g *Generator, v *Verifier) Report {
	r := Report{Run: g.spec.Run, Chip: g.self, Finished: g.Finished(), Elapsed: g.elapsed(), Offering: g.offering(), Misdirected: v.misdirected, Stray: v.stray}
	for i := range g.flows {
		p := g.flows[i].PairReport
		p.Outcomes = maps.Clone(p.Outcomes)
		r.Source = append(r.Source, p)
	}
	for _, f := range v.order {
		r.Dest = append(r.Dest, f.report())
	}
	return r
}

// Row holds the result of a pair, or of all pairs together.
type Row struct {
	Pair              // the pair; zero for the row of all pairs
	Sent       uint64 `json:"sent"`       // packets that the source sent
	Delivered  uint64 `json:"delivered"`  // packets that arrived at the destination, each counted once
	Lost       uint64 `json:"lost"`       // packets that were sent and not delivered; before the end of the run, packets under way are included
	Duplicated uint64 `json:"duplicated"` // arrivals of packets that had been delivered before
	Corrupted  uint64 `json:"corrupted"`  // arrivals that are not packets as their source makes them
	Reordered  uint64 `json:"reordered"`  // packets delivered after later packets of their plane and direction
	Failed     uint64 `json:"failed"`     // packets counted in Sent that ended as refused, lost or unknown at their source
	Completed  uint64 `json:"completed"`  // packets counted in Sent that the destination has confirmed as performed
	Bytes      uint64 `json:"bytes"`      // bytes of the delivered packets
	// Gbps is the rate of the delivered bytes, over the busy time of the pair's source. The busy
	// time goes from a source's first packet to the latest end of a packet. For the row of all
	// pairs, the rate is over the longest busy time of any source.
	Gbps float64 `json:"gigabits_per_second"`
	P50  float64 `json:"latency_p50_microseconds"` // median latency of the completed packets, in microseconds: from the request to the completion; with a load, from the arrival at the source
	P99  float64 `json:"latency_p99_microseconds"` // 99th percentile of the latency, in microseconds

	// Offered, Overflowed, OfferedRate and AcceptedRate are set if the spec has a load. In the row
	// of all pairs, each of the four fields is the sum over the pairs.
	Offered      uint64  `json:"offered,omitempty"`                     // packets that arrived at the source
	Overflowed   uint64  `json:"overflowed,omitempty"`                  // packets counted in Offered that the source discarded, because MaxQueue packets were waiting
	OfferedRate  float64 `json:"offered_packets_per_second,omitempty"`  // Offered divided by the time in which the packets arrived
	AcceptedRate float64 `json:"accepted_packets_per_second,omitempty"` // Delivered divided by the busy time of the pair's source, see Gbps
}

// Result is the result of a whole run.
type Result struct {
	Spec        Spec    `json:"spec"`        // what the run had to do
	Seconds     float64 `json:"seconds"`     // longest busy time of any source, see Row.Gbps
	Rows        []Row   `json:"pairs"`       // one row for each pair, in the order of the pairs
	Total       Row     `json:"total"`       // sums over all pairs
	Misdirected uint64  `json:"misdirected"` // packets of this run that were delivered to the wrong place
	Stray       uint64  `json:"stray"`       // arrivals that do not belong to this run; they do not make the run fail
	// Silent lists chips that died or restarted during the run. The last report of a silent chip is
	// not from the end of the run. The collector of the reports sets the field. Merge leaves Silent
	// empty.
	Silent  []wire.FabricNodeID `json:"silent,omitempty"`
	Starved []Starved           `json:"starved,omitempty"` // chips that were starved during the run; the collector of the reports sets the field
}

// Starved says that a chip was starved during a run: the chip's process waited for a processor, or was
// stopped, for at least 100 ms. Latencies and rates of the run then do not show what the fabric can do.
type Starved struct {
	Chip     wire.FabricNodeID `json:"chip"`            // the chip
	Times    uint64            `json:"times"`           // how often the chip was starved
	TotalS   float64           `json:"total_seconds"`   // the sum of all times
	LongestS float64           `json:"longest_seconds"` // the longest time; if there were more than 16, perhaps only the longest of the latest 16
}

// String describes s in words, such as "M0D5 was starved for 2.1 s in all (longest 0.8 s)".
func (s Starved) String() string {
	text := fmt.Sprintf("%s was starved for %.1f s", s.Chip, s.TotalS)
	if s.Times > 1 {
		text += fmt.Sprintf(" in all (longest %.1f s)", s.LongestS)
	}
	return text
}

// OK reports whether each packet of the run arrived exactly once, whole, in order and at the
// right place. Every source must also have a confirmation for each of its packets. OK ignores
// packets that overflowed at a source, because the source never sent them.
func (r *Result) OK() bool {
	t := &r.Total
	return t.Sent+t.Overflowed == r.Spec.Packets && t.Completed == t.Sent && t.Delivered == t.Sent &&
		t.Lost+t.Duplicated+t.Corrupted+t.Reordered+t.Failed+r.Misdirected == 0
}

// Merge joins the chips' reports. If one chip of a pair did not report, Merge uses only the
// report of the pair's other chip. Merge ignores reports of another run.
func Merge(spec Spec, pairs []Pair, reports []Report) Result {
	src, dst := map[Pair]*PairReport{}, map[Pair]*PairReport{}
	res := Result{Spec: spec}
	elapsed, offering := map[wire.FabricNodeID]time.Duration{}, map[wire.FabricNodeID]time.Duration{}
	for i := range reports {
		r := &reports[i]
		if r.Run != spec.Run {
			continue
		}
		elapsed[r.Chip] = max(elapsed[r.Chip], r.Elapsed)
		offering[r.Chip] = max(offering[r.Chip], r.Offering)
		res.Seconds = max(res.Seconds, r.Elapsed.Seconds())
		res.Misdirected += r.Misdirected
		res.Stray += r.Stray
		for k := range r.Source {
			src[r.Source[k].Pair] = &r.Source[k]
		}
		for k := range r.Dest {
			dst[r.Dest[k].Pair] = &r.Dest[k]
		}
	}
	var all Histogram
	var none PairReport
	for _, p := range pairs {
		s, d := src[p], dst[p]
		if s == nil {
			s = &none
		}
		if d == nil {
			d = &none
		}
		row := Row{Pair: p, Sent: s.Sent, Delivered: d.Delivered, Duplicated: d.Duplicated, Corrupted: d.Corrupted, Reordered: d.Reordered,
			Failed: s.Failed + s.Refused, Completed: s.Completed, Bytes: d.Delivered * uint64(spec.Size)}
		if s.Sent > d.Delivered {
			row.Lost = s.Sent - d.Delivered
		}
		if spec.Load > 0 {
			row.rates(s, offering[p.Src].Seconds(), elapsed[p.Src].Seconds())
		}
		row.finish(elapsed[p.Src].Seconds(), &s.Latency)
		all.Merge(&s.Latency)
		res.Total.add(&row)
		res.Rows = append(res.Rows, row)
	}
	res.Total.finish(res.Seconds, &all)
	return res
}

func (r *Row) add(o *Row) {
	r.Sent += o.Sent
	r.Delivered += o.Delivered
	r.Lost += o.Lost
	r.Duplicated += o.Duplicated
	r.Corrupted += o.Corrupted
	r.Reordered += o.Reordered
	r.Failed += o.Failed
	r.Completed += o.Completed
	r.Bytes += o.Bytes
	r.Offered += o.Offered
	r.Overflowed += o.Overflowed
	r.OfferedRate += o.OfferedRate
	r.AcceptedRate += o.AcceptedRate
}

// rates computes the rate of arrivals at the pair's source and the rate of deliveries at its
// destination.
func (r *Row) rates(s *PairReport, offering, elapsed float64) {
	r.Offered, r.Overflowed = s.Offered, s.Overflowed
	if offering > 0 {
		r.OfferedRate = float64(r.Offered) / offering
	}
	if elapsed > 0 {
		r.AcceptedRate = float64(r.Delivered) / elapsed
	}
}

func (r *Row) finish(seconds float64, h *Histogram) {
	if seconds > 0 {
		r.Gbps = float64(r.Bytes) * 8 / seconds / 1e9
	}
	r.P50, r.P99 = float64(h.Quantile(0.50).Nanoseconds())/1e3, float64(h.Quantile(0.99).Nanoseconds())/1e3
}
