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

// delegate is the Pool with the methods that memberlist calls.
type delegate Pool

func (d *delegate) pool() *Pool { return (*Pool)(d) }

// NodeMeta returns this chip's encoded metadata. NodeMeta implements memberlist's Delegate.
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

// NotifyAlive decides whether memberlist accepts a claim that a process is alive. If NotifyAlive
// returns an error, memberlist ignores the claim and does not forward it. NotifyAlive refuses a
// claim that [membership.View.Judge] rejects, and a claim without a valid address. The member's
// name in a claim must also be the name in the metadata. NotifyAlive also refuses claims of former
// processes of a chip, and claims of older processes that claim to be this chip.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	p := d.pool()
	d.mu.Lock()
	m, err := d.view.Judge(n.Name, n.Meta)
	if err != nil {
		d.refusals.claims++
		tell := d.refusals.first(n.Name, time.Now())
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
		err = fmt.Errorf("the metadata is that of process %s", name)
	case len(n.Addr) != net.IPv4len && len(n.Addr) != net.IPv6len:
		err = fmt.Errorf("an address of %d bytes", len(n.Addr))
	// The view may not know older processes that claimed to be this chip. NotifyAlive therefore
	// also compares the metadata of the claim with this process's own.
	case d.view.Former(n.Name) || m.Node == own.Node && n.Name != own.Name() && own.Newer(&m):
		err = fmt.Errorf("a later process of chip %s is known", m.Node)
	}
	if err != nil {
		d.refusals.claims++
		return err
	}
	p.relocate(n)
	return nil
}

// refusals counts the gossip that a chip refused, and limits the reports about it.
type refusals struct {
	claims     uint64          // number of claims that NotifyAlive refused
	reported   map[string]bool // names of the processes whose claims were reported in the present period
	period     time.Time       // when the present period began
	unreadable uint64          // number of streams that this chip could not read (see unread)
	told       time.Time       // when the pool last reported unreadable streams
}

// The method "first" reports whether the pool shall report a rejected claim of a process. In each
// rejectedPeriod, the pool reports at most maxRejected processes, and each process at most once.
func (r *refusals) first(name string, now time.Time) bool {
	if now.Sub(r.period) >= rejectedPeriod {
		r.period, r.reported = now, map[string]bool{}
	}
	if r.reported[name] || len(r.reported) >= maxRejected {
		return false
	}
	r.reported[name] = true
	return true
}

// The pool gossips only metadata, and does not use memberlist's user messages.
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// unread lists parts of the lines that memberlist logs about a stream that it cannot read. The
// three texts stand for three cases. The stream was encrypted with a key that this chip does not
// have. The stream was not encrypted, but this chip has keys. The stream was encrypted, but this
// chip has no keys.
var unread = []string{"no installed keys could decrypt", "remote state is not encrypted", "encryption is not configured"}

// queueFull is a part of the line that memberlist logs when it drops a message because its queue is
// full.
const queueFull = "handler queue full"

// logWriter writes memberlist's log lines to a slog.Logger at debug level. A logWriter also finds
// the lines about streams that memberlist cannot read, and about messages that memberlist drops.
// memberlist reports these streams and messages only in its log.
type logWriter struct {
	l *slog.Logger
	p *Pool
}

func (w *logWriter) Write(b []byte) (int, error) {
	line := strings.TrimSpace(string(b))
	if w.l != nil {
		w.l.Debug("memberlist", "line", line)
	}
	if strings.Contains(line, queueFull) && !w.p.net.keyed() {
		w.p.net.repeats.full.Store(true)
	}
	for _, words := range unread {
		// Ignore lines about single packets, because memberlist logs the same text for a packet
		// that the network has damaged.
		if strings.Contains(line, words) && !strings.Contains(line, "acket failed") {
			w.p.unread(line)
			break
		}
	}
	return len(b), nil
}

// unread counts a stream that this chip cannot read, and reports it in the log and as an event.
// unread reports at most once a minute.
func (p *Pool) unread(line string) {
	p.mu.Lock()
	p.refusals.unreadable++
	now := time.Now()
	again := !p.refusals.told.IsZero() && now.Sub(p.refusals.told) < unreadablePause
	if !again {
		p.refusals.told = now
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
	reason := fmt.Sprintf("this chip cannot read the gossip of %s, because the two chips have no key in common; this chip %s; "+
		"'ttfabric gossip keys list' shows which chip's keys differ, and 'ttfabric chip restart' gives that chip the fabric's keys", who, keys)
	if p.cfg.Logger != nil {
		p.cfg.Logger.Warn(reason)
	}
	p.heard(func(*membership.View) []membership.Event {
		return []membership.Event{{Kind: membership.Rejected, Reason: reason,
			Member: membership.Member{Name: p.cfg.Meta.Name(), Meta: p.cfg.Meta}}}
	})
}

var _ io.Writer = (*logWriter)(nil)
