package gossip

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"ttfabric/membership"
)

// delegate is the part of the pool that memberlist calls.
type delegate Pool

func (d *delegate) pool() *Pool { return (*Pool)(d) }

// NodeMeta returns this chip's metadata.
func (d *delegate) NodeMeta(limit int) []byte {
	p := d.pool()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.meta) > limit {
		panic("gossip: metadata of 64 bytes exceeds memberlist's limit")
	}
	return p.meta
}

func (d *delegate) alive(n *memberlist.Node) {
	a, _ := netip.AddrFromSlice(n.Addr)
	at := n.Address()
	d.mu.Lock()
	if _, known := d.here[n.Name]; known || len(d.here) < membership.MaxClaims {
		d.here[n.Name] = at
	}
	if m, err := membership.DecodeMeta(n.Meta); err == nil && m.Node != d.cfg.Node {
		d.pool().net.know(m.Node, at)
		if _, known := d.last[m.Node]; known || len(d.last) < membership.MaxClaims {
			d.last[m.Node] = at
		}
	}
	d.mu.Unlock()
	d.pool().heard(func(v *membership.View) []membership.Event { return v.Alive(n.Name, a.Unmap(), n.Meta) })
}

func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.alive(n) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.alive(n) }
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	d.mu.Lock()
	delete(d.here, n.Name)
	d.mu.Unlock()
	d.pool().heard(func(v *membership.View) []membership.Event { return v.Gone(n.Name) })
}

// NotifyAlive refuses claims that [membership.View.Judge] rejects. NotifyAlive also refuses claims
// without a valid address, claims under a name that is not the process's own name, claims of a
// former process of a chip, and claims of an older process of this chip. Memberlist then neither
// believes such a claim nor passes it on.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	p := d.pool()
	d.mu.Lock()
	m, err := d.view.Judge(n.Name, n.Meta)
	if err != nil {
		d.refused++
		tell := p.first(n.Name)
		d.mu.Unlock()
		if tell {
			a, _ := netip.AddrFromSlice(n.Addr)
			p.heard(func(*membership.View) []membership.Event {
				return []membership.Event{{Kind: membership.Rejected, Member: membership.Member{Name: n.Name, Addr: a.Unmap(), Meta: m}, Reason: err.Error()}}
			})
		}
		return err
	}
	defer d.mu.Unlock()
	own := &d.cfg.Meta
	switch name := m.Name(); {
	case name != n.Name:
		err = fmt.Errorf("the metadata belongs to %s", name)
	case len(n.Addr) != net.IPv4len && len(n.Addr) != net.IPv6len:
		err = fmt.Errorf("an address of %d bytes", len(n.Addr))
	// This chip may never have heard about its own former processes. NotifyAlive therefore compares
	// their metadata.
	case d.view.Former(n.Name) || m.Node == own.Node && n.Name != own.Name() && own.Newer(&m):
		err = fmt.Errorf("a later incarnation of chip %s is known", m.Node)
	}
	if err != nil {
		d.refused++
		return err
	}
	p.relocate(n)
	return nil
}

// first reports whether the pool shall report a rejected claim of a process. The pool reports each
// process once in a rejectedPeriod, and at most maxRejected processes.
func (p *Pool) first(name string) bool {
	if now := time.Now(); now.Sub(p.period) >= rejectedPeriod {
		p.period = now
		p.reported = map[string]bool{}
	}
	if p.reported[name] || len(p.reported) >= maxRejected {
		return false
	}
	p.reported[name] = true
	return true
}

// The pool gossips only metadata.
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// unread holds the texts that memberlist logs for a stream that it cannot read. Such a stream is
// encrypted with a key that is not installed, or is not encrypted, or is encrypted while this chip
// has no keys.
var unread = []string{"no installed keys could decrypt", "remote state is not encrypted", "encryption is not configured"}

// logWriter turns memberlist's log lines into debug records. A logWriter also searches the lines
// for gossip that cannot be read. The library reports such gossip in no other way.
type logWriter struct {
	l *slog.Logger
	p *Pool
}

func (w *logWriter) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if w.l != nil {
		w.l.Debug("memberlist", "line", line)
	}
	for _, words := range unread {
		// A line about a single packet does not count: a packet that was damaged on the way causes
		// the same text.
		if strings.Contains(line, words) && !strings.Contains(line, "acket failed") {
			w.p.unread(line)
			break
		}
	}
	return len(b), nil
}

// unread reports gossip that this chip cannot read, at most once a minute.
func (p *Pool) unread(line string) {
	p.mu.Lock()
	p.unreadable++
	now := time.Now()
	again := !p.told.IsZero() && now.Sub(p.told) < unreadablePause
	if !again {
		p.told = now
	}
	p.mu.Unlock()
	if again {
		return
	}
	keys := "has none"
	if p.cfg.Keys != nil {
		var ids []string
		for _, k := range p.cfg.Keys.List() {
			ids = append(ids, k.ID)
		}
		keys = "has " + strings.Join(ids, ", ")
	}
	who := "another chip"
	if i := strings.LastIndex(line, "from="); i >= 0 {
		who = strings.Fields(line[i+len("from="):] + " ")[0]
	}
	reason := fmt.Sprintf("gossip with %s cannot be read: the two have no key in common, and this chip %s; "+
		"'ttfabric gossip keys list' shows whose keys differ, and 'ttfabric chip restart' of that chip gives it those of the fabric", who, keys)
	if p.cfg.Logger != nil {
		p.cfg.Logger.Warn(reason)
	}
	p.heard(func(*membership.View) []membership.Event {
		return []membership.Event{{Kind: membership.Rejected, Reason: reason,
			Member: membership.Member{Name: p.cfg.Meta.Name(), Meta: p.cfg.Meta}}}
	})
}

var _ io.Writer = (*logWriter)(nil)
