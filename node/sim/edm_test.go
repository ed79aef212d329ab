package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ttfabric/node/edm"
	"ttfabric/node/kernel"
	"ttfabric/node/kernel/guide"
	"ttfabric/wire"
)

// edmRun is a stream of EDMs on the ring of the eight chips of a T3000, with a checker.
type edmRun struct {
	workload
	stream  *edm.Stream
	pages   map[int][]byte // by flow
	checker *edm.Checker
	events  int
	wrong   []string // flows whose pages did not arrive whole
}

// edmStream makes a stream. The seed chooses the modes, the numbers of channels and workers, and the sizes.
func edmStream(t *testing.T, seed uint64) *edmRun {
	t.Helper()
	m := topology(t, "t3000")
	order, err := guide.Order(m, 8)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := edm.NewRing(m, order, 1)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	s := edm.Settings{Channels: 1 + rng.IntN(3), Workers: 1 + rng.IntN(2), Bidirectional: rng.IntN(2) == 0, Pages: 100 + rng.IntN(100),
		PageSize: 16 * (1 + rng.IntN(64)), Packet: 4096, Sharing: edm.Sharing(rng.IntN(2)), Termination: edm.Termination(rng.IntN(2))}
	if s.Termination == edm.WorkerInitiated && s.Sharing == edm.NotShared {
		s.Workers = 1
	}
	r := &edmRun{pages: map[int][]byte{}}
	if r.stream, err = edm.NewStream(m, 1, ring, s); err != nil {
		t.Fatal(err)
	}
	r.checker = edm.NewChecker(func(p wire.PortID) (wire.PortID, bool) { return kernel.ConnectedEthernetCore(m, p.Node, p.Channel) })
	r.workload = workload{kernels: edm.Observed(func(e edm.Event) { r.events++; r.checker.Observe(e) }), parts: r.stream.Parts, begin: func(m *machine) { r.fill(m, rng) }, result: r.read}
	return r
}

// fill writes random pages to the sources on a chip.
func (r *edmRun) fill(m *machine, rng *rand.Rand) {
	for i, f := range r.stream.Flows {
		if f.From != m.node {
			continue
		}
		data := make([]byte, f.Size)
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		for at := 0; at < len(data); at += wire.MaxPayload {
			cmd := wire.Command{Type: wire.NocUnicastWrite, Addr: f.Source.Add(at)}
			m.chip.Memory().Execute(&cmd, data[at:min(at+wire.MaxPayload, len(data))])
		}
		r.pages[i] = data
	}
}

// read returns the pages that came to a chip, and notes the flows whose pages are wrong.
func (r *edmRun) read(m *machine) (all string) {
	for i, f := range r.stream.Flows {
		if f.To != m.node {
			continue
		}
		got := make([]byte, f.Size)
		if m.chip.Memory().Read(f.Dest, got); string(got) != string(r.pages[i]) {
			r.wrong = append(r.wrong, fmt.Sprintf("flow %d from %s to %s", i, f.From, f.To))
		}
		all += string(got)
	}
	return all
}

// TestEDMInTheSimulator runs streams of EDMs under seeded faults of links and chips. The job must end as
// [jobRun.check] says. No rule of the EDM may be broken. If the job ended as done on all chips, all pages must
// have arrived. A seed must repeat to the bit.
func TestEDMInTheSimulator(t *testing.T) {
	done, died, whole := 0, 0, 0
	for seed := uint64(1); seed <= 12; seed++ {
		w := edmStream(t, seed)
		r := jobUnderFaults(t, seed, &w.workload)
		d, c, _ := r.check(t, seed)
		done, died = done+d, died+c
		for _, b := range w.checker.Broken() {
			t.Errorf("seed %d: %s", seed, b)
		}
		if d == len(w.parts) && r.restarts == 0 {
			whole++
			for _, b := range append(w.checker.Finish(), w.wrong...) {
				t.Errorf("seed %d: %s", seed, b)
			}
		}
		x := edmStream(t, seed)
		if again := jobUnderFaults(t, seed, &x.workload); again.result != r.result || x.events != w.events || fmt.Sprint(again.ends) != fmt.Sprint(r.ends) {
			t.Errorf("seed %d does not repeat", seed)
		}
	}
	t.Logf("%d ends as done, %d by dead chips; %d of 12 streams arrived whole", done, died, whole)
	if whole == 0 || died == 0 {
		t.Errorf("%d streams arrived whole, and %d ends came by dead chips: want both", whole, died)
	}
}
