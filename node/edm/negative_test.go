package edm

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/wire"
)

// has reports whether one of the texts contains a text.
func has(all []string, text string) bool {
	return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, text) })
}

// TestCheckersFind runs EDMs that break a rule, and checks that the checker names the breach.
func TestCheckersFind(t *testing.T) {
	for name, c := range map[string]struct {
		broken sabotage
		want   string
	}{
		"the sender does not wait":   {sabotage{noWait: true}, "overwritten before"},
		"the receiver does not wait": {sabotage{earlyDone: true}, "overwritten before the workers had read it"},
		"messages come twice":        {sabotage{twice: true}, "came, and only"},
		"the kernel ends too early":  {sabotage{endEarly: true}, "the kernel ends before channel 1 is done"},
		"the kernel does not end":    {sabotage{endNever: true}, "the kernel has not ended, and all its channels are done"},
		"the sender wants no answer": {sabotage{noAck: true}, "has other bytes than the message that was sent"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "mesh:1x2", 3, c.broken)
			st := b.stream(b.line(1, 0, 1), Settings{Channels: 2, Workers: 1, Pages: 64, PageSize: 1024, Packet: 4096})
			if c.broken.endEarly { // channel 1 has more pages to send than channel 0
				st = uneven(b)
			}
			if c.broken.noAck { // the link reads the source again only if the cable loses the frame
				rng := rand.New(rand.NewPCG(1, 2))
				b.Lose = func() bool { return rng.IntN(4) == 0 }
			}
			b.fill(st, 1)
			b.Start(st.Parts)
			b.Run(2*time.Second, b.Quiet)
			if got := b.checker.Finish(); !has(got, c.want) {
				t.Errorf("the checker reports %q, want %q; ends %v", got, c.want, b.Ends)
			}
		})
	}
}

// pair is one link with hand-made EDMs and workers: two channels from the first end to the second.
type pair struct {
	b        *bench
	link     Link
	on       [2]*kernel.Builder
	ends     [2]*Builder
	links    *Links
	messages [2][2]int // number of messages of each channel, by end and channel
}

// newPair returns a pair without EDMs. The function "change" may change the configuration of an end.
func newPair(b *bench, messages [2][2]int, change func(end int, c *Config)) *pair {
	b.T.Helper()
	p := &pair{b: b, link: b.line(1, 0, 1).Hops[0][0], links: NewLinks(b.M), messages: messages}
	for i := range p.ends {
		cfg := Config{Channels: 2, PageSize: 1024, Patience: time.Second}
		change(i, &cfg)
		var err error
		if p.ends[i], err = NewBuilder(cfg); err != nil {
			b.T.Fatal(err)
		}
		p.on[i] = kernel.NewBuilder(b.M)
	}
	return p
}

// port returns an end of the link.
func (p *pair) port(end int) wire.PortID { return [2]wire.PortID{p.link.From, p.link.To}[end] }

// add adds the channels of an end, with a worker for each. The argument "worker" has the number of
// messages of each channel's worker.
func (p *pair) add(end int, sender bool, worker [2]int) {
	p.b.T.Helper()
	for ch := range 2 {
		t := p.on[end].Tensix(ch)
		sem := p.on[end].CreateSemaphore(t, 0)
		name, add := ReceiveWorkerName, p.ends[end].AddReceiverChannel
		if sender {
			name, add = SendWorkerName, p.ends[end].AddSenderChannel
		}
		c, err := add(sem, p.messages[end][ch], []kernel.Tile{t}, 1024)
		if err != nil {
			p.b.T.Fatal(err)
		}
		edm, _ := kernel.EthernetTile(p.b.M.Arch, p.port(end).Channel)
		pages := p.on[end].CreateBuffer(t, 1024*64)
		stage := p.on[end].CreateBuffer(t, 2048)
		args := append(WorkerArgs(edm, c, 0, sem), uint32(t.X), uint32(t.Y), pages, uint32(worker[ch]), 1024, 1, uint32(worker[ch]), stage, uint32(p.ends[end].cfg.Termination)) // a worker ends its channel with WorkerInitiated
		p.on[end].CreateKernel(name, t, args...)
	}
}

// generate generates the EDM of an end.
func (p *pair) generate(end int) {
	p.b.T.Helper()
	if err := p.links.Generate(p.on[end], p.ends[end], p.port(end)); err != nil {
		p.b.T.Fatal(err)
	}
}

// parts returns the job.
func (p *pair) parts() map[wire.FabricNodeID]kernel.Job {
	p.b.T.Helper()
	all := map[wire.FabricNodeID]kernel.Job{}
	for i, k := range p.on {
		made, err := k.Build()
		if err != nil {
			p.b.T.Fatal(err)
		}
		all[p.port(i).Node] = kernel.Job{ID: 1, Chips: []wire.FabricNodeID{p.port(0).Node, p.port(1).Node}, Channels: []wire.Channel{p.port(i).Channel}, Programs: []kernel.Program{made}}
	}
	return all
}

// uneven returns a stream of two channels, of which the first has one message and the second has 40.
func uneven(b *bench) *Stream {
	p := newPair(b, [2][2]int{{1, 40}, {1, 40}}, func(int, *Config) {})
	for end := range 2 {
		p.add(end, end == 0, [2]int{1, 40})
		p.generate(end)
	}
	return &Stream{Parts: p.parts(), Links: p.links}
}

// TestMismatches runs EDMs whose two ends do not fit together. The job must end on both chips, and
// the end must name the link, the channel, what was expected and what was seen. Check must find the
// same mistake before the job.
func TestMismatches(t *testing.T) {
	same := func(int, *Config) {}
	workers := func(_ int, c *Config) { c.Termination = WorkerInitiated }
	var none [2][2]int
	for name, c := range map[string]struct {
		messages [2][2]int // number of messages that each EDM expects, by end and channel
		worker   [2][2]int
		senders  [2]bool
		change   func(end int, c *Config)
		check    string // what Check says
		want     string // what the job's end says
	}{
		"the receiver expects more": {[2][2]int{{3, 5}, {3, 6}}, [2][2]int{{3, 5}, {3, 6}}, [2]bool{true, false}, same,
			"channel 1: the sender has 5 messages, and the receiver expects 6", "channel 1: expected 6 messages from the sender, seen 5"},
		"the receiver expects less": {[2][2]int{{3, 5}, {2, 5}}, [2][2]int{{3, 5}, {2, 5}}, [2]bool{true, false}, same,
			"channel 0: the sender has 3 messages, and the receiver expects 2", "channel 0: expected 3 messages at the receiver, seen 2"},
		"the receiver expects nothing": {[2][2]int{{3, 5}, {0, 5}}, [2][2]int{{3, 5}, {0, 5}}, [2]bool{true, false}, same,
			"channel 0: the sender has 3 messages, and the receiver expects 0", "channel 0: expected 3 messages at the receiver, seen 0"},
		"the receiving worker ends early": {none, [2][2]int{{4, 7}, {4, 6}}, [2]bool{true, false}, workers,
			"", "channel 1: "},
		"the sending worker ends early": {none, [2][2]int{{4, 6}, {4, 7}}, [2]bool{true, false}, workers,
			"", "channel 1: the sender has ended after 6 messages, and the worker has not ended the channel for 1s"},
		"both ends send": {[2][2]int{{3, 5}, {3, 5}}, [2][2]int{{3, 5}, {3, 5}}, [2]bool{true, true}, same,
			"channel 0: both ends are senders", "both ends are the sender of the handshake"},
		"both ends receive": {[2][2]int{{3, 5}, {3, 5}}, [2][2]int{{3, 5}, {3, 5}}, [2]bool{false, false}, same,
			"channel 0: both ends are receivers", "no handshake from the sender within 1s"},
		"other modes": {none, none, [2]bool{true, false}, func(end int, c *Config) { c.Termination = Termination(end) },
			"MESSAGE_COUNT_REACHED and WORKER_INITIATED", "different layouts or termination modes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "mesh:1x2", 5, sabotage{})
			p := newPair(b, c.messages, c.change)
			for end := range 2 {
				p.add(end, c.senders[end], c.worker[end])
				p.generate(end)
			}
			if err := p.links.Check(); (err == nil) != (c.check == "") || err != nil && !strings.Contains(err.Error(), c.check) {
				t.Errorf("Check says %v, want %q", err, c.check)
			}
			b.Start(p.parts())
			if !b.Run(20*time.Second, b.Quiet) {
				t.Fatal("the job does not end")
			}
			for i := range 2 {
				end := b.Ends[p.port(i).Node]
				if !strings.Contains(end, "kernel failed") || !strings.Contains(end, "link M0D") || !strings.Contains(end, c.want) {
					t.Errorf("chip %s: %q, want %q", p.port(i).Node, end, c.want)
				}
			}
		})
	}
}

// TestOneEndOnly runs a link of which only one end has an EDM. The EDM must name the link, both as
// the sender and as the receiver of the handshake. If the other end runs a kernel that is no EDM,
// the error must say so.
func TestOneEndOnly(t *testing.T) {
	for want, sender := range map[string]bool{
		"link M0D0/0 to M0D1/4: no handshake from the receiver within 1s; has the other end an EDM?": true,
		"link M0D0/0 to M0D1/4: no handshake from the sender within 1s; has the other end an EDM?":   false,
		"link M0D0/0 to M0D1/4: the handshake is not from an EDM":                                    false,
	} {
		t.Run(want, func(t *testing.T) {
			b := newBench(t, "mesh:1x2", 5, sabotage{})
			p := newPair(b, [2][2]int{{1, 1}, {1, 1}}, func(int, *Config) {})
			p.add(0, sender, [2]int{1, 1})
			p.generate(0)
			if strings.Contains(want, "not from") {
				tile, _ := kernel.EthernetTile(b.M.Arch, p.link.To.Channel)
				p.on[1].CreateKernel("stranger", tile)
			}
			if err := p.links.Check(); err == nil || err.Error() != "link M0D0/0 to M0D1/4: only M0D0/0 has an EDM" {
				t.Errorf("Check says %v", err)
			}
			b.Start(p.parts())
			b.Run(20*time.Second, func() bool { return b.Ends[p.port(0).Node] != "" })
			if end := b.Ends[p.port(0).Node]; !strings.Contains(end, want) {
				t.Errorf("%q, want %q", end, want)
			}
		})
	}
}
