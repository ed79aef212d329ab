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

// NodeMeta returns this chip's encoded metadata, which has [membership.MetaLen] bytes. NodeMeta
// implements memberlist's Delegate. If the limit is less than this length, NodeMeta panics.
func (d *delegate) NodeMeta(limit int) []byte {
	p := d.pool()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.own.meta) > limit {
		panic(fmt.Sprintf("gossip: the metadata has %d bytes (membership.MetaLen), more than memberlist's limit of %d bytes", len(p.own.meta), limit))
	}
	return p.own.meta
}

// The method "alive" passes memberlist's news about the living process n to the pool's view. The
// method also remembers the address of the process.
func (d *delegate) alive(n *memberlist.Node) {
	a, _ := netip.AddrFromSlice(n.Addr)
	at := n.Address()
	d.mu.Lock()
	if n.Name == d.cfg.Meta.Name() {
		d.own.accepted = n.Meta
	}
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
// returns an error, memberlist ignores the claim, and does not forward the claim. NotifyAlive
// refuses a claim in each of these cases:
//
//   - [membership.View.Judge] rejects the claim.
//   - The member's name in the claim differs from the name in the claim's metadata.
//   - The address in the claim is neither an IPv4 nor an IPv6 address.
//   - The view knows that the claim is of a former process of a chip.
//   - The claim is of another process of this chip, and that process is older than this process.
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
		err = fmt.Errorf("the metadata belongs to process %s", name)
	case len(n.Addr) != net.IPv4len && len(n.Addr) != net.IPv6len:
		err = fmt.Errorf("the address has %d bytes", len(n.Addr))
	// The view may not know an older process of this chip. NotifyAlive therefore also compares the
	// metadata of the claim with the metadata of this process.
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

// The type "refusals" counts the gossip that this chip refused. The type also limits the
// number of reports about refused gossip.
type refusals struct {
	claims     uint64          // number of claims that NotifyAlive refused
	reported   map[string]bool // names of the processes whose claims the pool reported in the present period of length rejectedPeriod
	period     time.Time       // time at which the present period began
	unreadable uint64          // number of streams that this chip could not read, see the variable "unread"
	told       time.Time       // time of the pool's last report of an unreadable stream; zero: no report yet
}

// The method "first" decides whether the pool reports a rejected claim of the process with the
// given name. In each rejectedPeriod, the pool reports claims of at most maxRejected processes, and
// at most one claim of each process.
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

// memberlist's Delegate requires the following methods. These methods do nothing, because the
// pool gossips only metadata, and does not use memberlist's user messages.
func (d *delegate) NotifyMsg([]byte)                {}
func (d *delegate) GetBroadcasts(_, _ int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// The variable "unread" lists texts that occur in the lines that memberlist logs about a stream
// that it cannot read.
var unread = []string{
	"no installed keys could decrypt", // the stream was encrypted with a key that this chip does not have
	"remote state is not encrypted",   // the stream was not encrypted, but this chip has keys
	"encryption is not configured",    // the stream was encrypted, but this chip has no keys
}

// queueFull is a text in the line that memberlist logs when memberlist drops a message because its
// queue is full.
const queueFull = "handler queue full"

// logWriter writes memberlist's log lines to a slog.Logger at debug level. A logWriter also finds
// lines about streams that memberlist cannot read, and lines about messages that memberlist drops
// because its queue is full. memberlist reports these streams and messages only in its log.
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
		// Lines about single packets do not count, because memberlist logs the same text for a
		// packet that the network has damaged.
		if strings.Contains(line, words) && !strings.Contains(line, "acket failed") {
			w.p.unread(line)
			break
		}
	}
	return len(b), nil
}

// The method "unread" counts a stream that this chip cannot read, and reports the stream in the log
// and as an event. If the last report is less than unreadablePause ago, the method only counts the
// stream. The parameter "line" is the line that memberlist logged.
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
	keys := "has no keys"
	if p.cfg.Keys != nil {
		var ids []string
		for _, k := range p.cfg.Keys.List() {
			ids = append(ids, k.ID)
		}
		keys = "has the keys " + strings.Join(ids, ", ")
	}
	who := "another chip"
	if i := strings.LastIndex(line, "from="); i >= 0 {
		who = strings.Fields(line[i+len("from="):] + " ")[0]
	}
	reason := fmt.Sprintf("this chip cannot read the gossip of %s: either that chip encrypts with a key that this chip does not have, or only one of the two chips encrypts; this chip %s; "+
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
