package edm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

var worker11 = []kernel.Tile{{X: 1, Y: 1}}

// made returns a builder with one sender channel and one receiver channel.
func made(t *testing.T, c Config) *Builder {
	t.Helper()
	b, err := NewBuilder(c)
	if err != nil {
		t.Fatal(err)
	}
	messages := 3
	if c.Termination == WorkerInitiated {
		messages = 0
	}
	if _, err := b.AddSenderChannel(0x10000, messages, worker11, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := b.AddReceiverChannel(0x10010, messages, []kernel.Tile{{X: 2, Y: 1}}, 2048); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLayout checks the addresses that a builder chooses, for each number of channels: no two
// ranges may overlap, and all ranges must lie in the kernels' area of the tile.
func TestLayout(t *testing.T) {
	for n := 1; n <= MaxChannels; n++ {
		for _, page := range []int{16, 1024, 1088, 2048, 4096} {
			b, err := NewBuilder(Config{Channels: n, PageSize: page})
			if err != nil {
				t.Fatal(err)
			}
			next := uint32(Semaphores)
			if Semaphores != Handshake+32 || b.cfg.ends() != next+32*uint32(n) || b.cfg.buffers() != b.cfg.ends()+16*uint32(n) {
				t.Errorf("%d channels: ends 0x%x, buffers 0x%x", n, b.cfg.ends(), b.cfg.buffers())
			}
			next = b.cfg.buffers()
			for i := range n {
				c, err := b.AddSenderChannel(0, 1, worker11, b.BufferSize())
				if err != nil || c.Channel != i || c.Buffer != next || c.Buffer%16 != 0 || c.Semaphore != Semaphores+32*uint32(i) {
					t.Errorf("%d channels of pages of %d bytes: channel %d is %+v, %v", n, page, i, c, err)
				}
				next += uint32(b.BufferSize())
			}
			if left := kernel.EthEnd - next; b.BufferSize()%page != 0 || next > kernel.EthEnd || left >= uint32(n*(page+1)) {
				t.Errorf("%d channels of pages of %d bytes: buffers of %d bytes, %d bytes are left", n, page, b.BufferSize(), left)
			}
		}
	}
}

// TestArguments checks the arguments of the kernel, and the dump.
func TestArguments(t *testing.T) {
	b := made(t, Config{Channels: 2, PageSize: 1024, Patience: 1500 * time.Millisecond, Key: 7})
	if got, want := b.CompileArgs(), []uint32{1, 1, 1, 1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("compile-time arguments %d, want %d", got, want)
	}
	base := b.cfg.buffers()
	want := []uint32{Handshake, 0, base, 3, 4096, Semaphores, 0x10000, 1, 1<<16 | 1, 1, base + uint32(b.BufferSize()), 3, 2048, Semaphores + 32, 0x10010, 1, 1<<16 | 2, b.cfg.ends(), 1500, 7}
	if got := b.RuntimeArgs(); !slices.Equal(got, want) {
		t.Errorf("runtime arguments %#x, want %#x", got, want)
	}
	for _, want := range []string{
		"EDM at no link yet: NOT_SHARED, MESSAGE_COUNT_REACHED, pages of 1024 bytes, patience 1.5s, key 0x7\n  handshake       0x18300, as sender\n",
		"  channel 0: sender, 3 messages of 4096 bytes, buffer 0x18380, semaphore 0x18320, workers' semaphore 0x10000, workers [1-1]\n",
		"  channel 1: receiver, 3 messages of 2048 bytes, buffer 0x2bf80, semaphore 0x18340, workers' semaphore 0x10010, workers [2-1]\n",
		"  compile-time arguments [1 1 1 1 0 0]\n  runtime arguments      [0x18300 0x0 0x18380 0x3 0x1000 0x18320",
	} {
		if !strings.Contains(b.Dump(), want) {
			t.Errorf("want %q in the dump:\n%s", want, b.Dump())
		}
	}
}

// TestHandshakeRule checks who sends the handshake, by the numbers of the channels.
func TestHandshakeRule(t *testing.T) {
	for _, c := range []struct {
		senders, n, receivers, m int
		want                     bool
	}{{0, 2, 0, 0, true}, {0, 0, 0, 2, false}, {0, 1, 1, 1, true}, {1, 1, 0, 1, false}, {2, 3, 0, 2, false}, {0, 2, 2, 3, true}} {
		if got := handshakeSender(c.senders, c.n, c.receivers, c.m); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestRefusedBuilders checks that builders name what is wrong.
func TestRefusedBuilders(t *testing.T) {
	for want, c := range map[string]Config{
		"an EDM with 0 channels: want 1 to 7":                         {PageSize: 16},
		"an EDM with 8 channels: want 1 to 7":                         {Channels: 8, PageSize: 16},
		"pages of 0 bytes: want a multiple of 16":                     {Channels: 1},
		"pages of 100 bytes: want a multiple of 16":                   {Channels: 1, PageSize: 100},
		"SHARED: an EDM supports NOT_SHARED and ROUND_ROBIN":          {Channels: 1, PageSize: 16, Sharing: Shared},
		"ROUND_ROBIN_AND_SHARED: an EDM supports":                     {Channels: 1, PageSize: 16, Sharing: RoundRobinAndShared},
		"termination mode 2: an EDM supports":                         {Channels: 1, PageSize: 16, Termination: 2},
		"a patience of -1ns":                                          {Channels: 1, PageSize: 16, Patience: -1},
		"pages of 163008 bytes: a buffer of one of 1 channels has at": {Channels: 1, PageSize: 163008},
	} {
		if _, err := NewBuilder(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	type add struct {
		sem, messages, workers, size int
		want                         string
	}
	for _, mode := range []Termination{MessageCountReached, WorkerInitiated} {
		adds := []add{
			{0, 0, 1, 0, "messages of 0 bytes: want a multiple of 16, at most 16"},
			{0, 0, 1, 24, "messages of 24 bytes"},
			{0, 0, 1, 1 << 20, "messages of 1048576 bytes"},
			{0, 0, 0, 16, "0 workers: want 1 to 16"},
			{0, 0, 17, 16, "17 workers: want 1 to 16"},
			{2, 0, 1, 16, "semaphore at 0x2: want a multiple of 4"},
		}
		if mode == WorkerInitiated {
			adds = append(adds, add{0, 1, 1, 16, "1 messages: want 0, because the workers end the channel"}, add{0, 0, 2, 16, "2 workers with NOT_SHARED and WORKER_INITIATED: want one"})
		} else {
			adds = append(adds, add{0, -1, 1, 16, "-1 messages"})
		}
		for _, a := range adds {
			b, _ := NewBuilder(Config{Channels: 1, PageSize: 1024, Termination: mode})
			ws := make([]kernel.Tile, a.workers)
			for _, f := range []func(uint32, int, []kernel.Tile, int) (Interface, error){b.AddSenderChannel, b.AddReceiverChannel} {
				if _, err := f(uint32(a.sem), a.messages, ws, a.size); err == nil || !strings.Contains(err.Error(), a.want) {
					t.Errorf("%+v, %s: %v", a, mode, err)
				}
			}
		}
	}
	b := made(t, Config{Channels: 2, PageSize: 1024})
	if _, err := b.AddSenderChannel(0, 1, worker11, 16); err == nil || !strings.Contains(err.Error(), "the builder was made for 2 channels") {
		t.Error(err)
	}
	b = made(t, Config{Channels: 3, PageSize: 1024})
	if _, err := b.AddSenderChannel(0, 1, worker11, 16); err == nil || !strings.Contains(err.Error(), "numbers in a row") {
		t.Error(err)
	}
}

// TestGenerate checks that a link gets one EDM at each end: a second call must return an error, and
// Check must name a link of which only one end has an EDM.
func TestGenerate(t *testing.T) {
	m, err := topo.Named("n300")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Channels: 2, PageSize: 1024}
	end := func(n wire.ChipID, ch wire.Channel) wire.PortID {
		return wire.PortID{Node: wire.FabricNodeID{Chip: n}, Channel: ch}
	}
	l, p := NewLinks(m), kernel.NewBuilder(m)
	b := made(t, cfg)
	missing, _ := NewBuilder(cfg)
	tile, _ := kernel.EthernetTile(m.Arch, 8)
	crowded, harvested := kernel.NewBuilder(m), kernel.NewBuilder(m)
	crowded.CreateBuffer(tile, 16)
	harvested.CreateBuffer(kernel.Tile{}, 16)
	for _, c := range []struct {
		p    *kernel.Builder
		b    *Builder
		at   wire.PortID
		want string
	}{
		{p, b, end(0, 3), "EDM at M0D0/3: no cable leads from there"},
		{p, b, end(0, 9), "EDM at M0D0/9: the dispatcher reserves the link to M0D1/1"},
		{p, missing, end(0, 8), "0 of 2 channels were added"},
		{crowded, b, end(0, 8), "the program has another buffer on tile 9-6"},
		{harvested, b, end(0, 8), "buffer on tile 0-0"},
		{p, b, end(0, 8), ""},
		{p, made(t, cfg), end(0, 8), "the link to M0D1/0 has an EDM at this end already"},
		{p, b, end(1, 0), "the builder has made the EDM at M0D0/8 already"},
	} {
		if err := l.Generate(c.p, c.b, c.at); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if _, err := b.AddSenderChannel(0, 1, worker11, 16); err == nil || !strings.Contains(err.Error(), "the kernel at M0D0/8 was generated already") {
		t.Error(err)
	}
	if err := l.Check(); err == nil || err.Error() != "link M0D0/8 to M0D1/0: only M0D0/8 has an EDM" {
		t.Errorf("one end only: %v", err)
	}
	if !strings.HasPrefix(l.Dump(), "EDM at M0D0/8: ") {
		t.Errorf("the dump is %q", l.Dump())
	}
}

// TestPath checks the links of lines and rings, and that a ring of two chips has different links
// for the two directions.
func TestPath(t *testing.T) {
	n := func(ids ...wire.ChipID) (all []wire.FabricNodeID) {
		for _, i := range ids {
			all = append(all, wire.FabricNodeID{Chip: i})
		}
		return all
	}
	m, err := topo.Named("mesh:2x3")
	if err != nil {
		t.Fatal(err)
	}
	line, err := NewLine(m, n(0, 1, 2), 2)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := NewRing(m, n(0, 1, 2, 5, 4, 3), 1)
	if err != nil {
		t.Fatal(err)
	}
	two, err := NewRing(m, n(0, 1), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Path{line, ring, two} {
		seen := map[wire.PortID]bool{}
		for i := range p.Chips {
			for link := range len(p.Hops[0]) {
				next, ok := p.Clockwise(i, link)
				if ok != (p.Ring || i < len(p.Chips)-1) {
					t.Errorf("chip %d of %v: clockwise link %v", i, p.Chips, ok)
				}
				if _, ok := p.Counter(i, link); ok != (p.Ring || i > 0) {
					t.Errorf("chip %d of %v: counter-clockwise link %v", i, p.Chips, ok)
				}
				if ok {
					q, _ := kernel.ConnectedEthernetCore(m, next.Node, next.Channel)
					if other, _ := p.Counter((i+1)%len(p.Chips), link); q != other || seen[next] || seen[q] {
						t.Errorf("chip %d of %v: the ends are %v and %v", i, p.Chips, q, other)
					}
					seen[next], seen[q] = true, true
				}
			}
		}
	}
	for want, make := range map[string]func() (*Path, error){
		"from chip M0D0 to chip M0D2: 0 links are free, and 1 are wanted": func() (*Path, error) { return NewLine(m, n(0, 2), 1) },
		"from chip M0D1 to chip M0D0: 0 links are free, and 2 are wanted": func() (*Path, error) { return NewRing(m, n(0, 1), 2) },
		"chip M0D0 is in the path twice":                                  func() (*Path, error) { return NewLine(m, n(0, 1, 0), 1) },
		"a path of 1 chips with 1 links a hop":                            func() (*Path, error) { return NewLine(m, n(0), 1) },
	} {
		if _, err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPagesPerPacket checks that packets have 4 KiB to 16 KiB where the pages and the buffer allow.
func TestPagesPerPacket(t *testing.T) {
	for page := 16; page <= MaxPacket; page += 16 {
		n, err := PagesPerPacket(page, 23000)
		if size := n * page; err != nil || size > MaxPacket || size < MinPacket {
			t.Errorf("pages of %d bytes: packets of %d bytes, %v", page, n*page, err)
		}
	}
	if n, err := PagesPerPacket(2048, 3000); n != 1 || err != nil {
		t.Errorf("%d pages, %v", n, err)
	}
	for _, page := range []int{0, 24, 32768} {
		if _, err := PagesPerPacket(page, 23000); err == nil {
			t.Errorf("pages of %d bytes have no error", page)
		}
	}
}
