package admin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ttfabric/node"
	"ttfabric/node/chip"
	"ttfabric/node/flow"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// The chip offers metrics in the text format of Prometheus and in the format OpenMetrics. Each
// series with the prefix ttfabric_ has the label chip. A series of a port also has the label port,
// which is the port's channel. Counters restart at 0 when the chip's process restarts. The number
// of series depends on the chip's ports, the classes of packets, and the reasons for dropping
// packets and frames. The number of series does not grow with the number of chips, flows or
// sessions.

// metric is one family of series: all series with one name.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("ttfabric_"+name+"_total", help, append([]string{"chip"}, labels...), nil), prometheus.CounterValue}
}

func gauge(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("ttfabric_"+name, help, append([]string{"chip"}, labels...), nil), prometheus.GaugeValue}
}

// portMetric is a family with one series for each port.
type portMetric[T any] struct {
	metric
	value func(*T) float64
}

func count[T any](name, help string, f func(*T) uint64) portMetric[T] {
	return portMetric[T]{counter(name, help, "port"), func(x *T) float64 { return float64(f(x)) }}
}

func level[T any](name, help string, f func(*T) float64) portMetric[T] {
	return portMetric[T]{gauge(name, help, "port"), f}
}

// exporter reads the state of a node whenever a client asks for the metrics.
type exporter struct{ n *node.Node }

// Describe sends no descriptions. Prometheus' library then learns the families from Collect.
func (c exporter) Describe(chan<- *prometheus.Desc) {}

// sink passes the series of one chip to Prometheus' library.
type sink struct {
	ch   chan<- prometheus.Metric
	chip string
}

func (s sink) put(m metric, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, append([]string{s.chip}, labels...)...)
}

// Collect sends all series of the chip.
func (c exporter) Collect(ch chan<- prometheus.Metric) {
	st, now := c.n.Status()
	s := sink{ch, st.Node.String()}
	s.ofChip(c.n, &st)
	socks := c.n.Sockets()
	for i := range st.Ports {
		s.ofPort(&st.Ports[i], now)
		if k, ok := socks[st.Ports[i].Local.Channel]; ok {
			s.ofSocket(st.Ports[i].Local.Channel, &k)
		}
	}
}

var (
	chipInfo    = gauge("chip_info", "The chip, its fabric and the incarnation of its process; always 1.", "fabric", "incarnation")
	chipStart   = gauge("chip_start_time_seconds", "When the chip's process began to run, in seconds since the epoch.")
	chipMembers = gauge("gossip_members", "Chips that are alive according to the gossip pool.")
	gossipOut   = counter("gossip_refused", "Gossip that the chip refused, by reason: claims to be a chip and datagrams that are too long, encryption of another version, streams without a common key.", "reason")
	chipLinks   = gauge("chip_links", "Links that the chip has in the topology; ttfabric_link_up says which links are up.")
	chipOpen    = gauge("requests_open", "Requests of the chip that have not ended yet.")
	chipFlight  = gauge("router_packets_in_flight", "Packets in the router's channels.")
	chipTiles   = gauge("tile_memory_bytes", "Memory that holds the data that programs wrote to the chip's tiles.")
	chipBuffers = gauge("packet_buffer_bytes", "Memory that holds packets.")
	outOf       = gauge("tables_links_out_of_service", "Cables of the fabric that the routing tables in force do not use.")
	unreachable = gauge("tables_chips_unreachable", "Chips of this mesh, and other meshes, to which the routing tables in force have no route.")
	silent      = gauge("tables_chips_silent", "Chips of this mesh, and other meshes, to which requests wait, because nothing is heard from them.")
	starved     = counter("chip_starved_times", "Times that the chip's process waited for a processor, or was stopped, for at least 100 ms.")
	starvedTime = counter("chip_starved_seconds", "Total time that the chip's process waited for a processor, or was stopped, in times of at least 100 ms.")
	pressure    = gauge("cpu_pressure", "Percent of the last 10 s in which at least one process of the machine waited for a processor; absent if the kernel does not measure it.")
	pressureSum = counter("cpu_pressure_seconds", "Total time in which at least one process of the machine waited for a processor; absent if the kernel does not measure it.")
	requests    = counter("requests", "Requests that the chip has sent, probes included.")
	ended       = counter("requests_ended", "Requests that have ended, by fate: done, refused, lost, unknown.", "fate")
	performed   = counter("requests_performed", "Commands of other chips that this chip performed.")
	flowFaults  = counter("flow_requests_irregular", "Packets of flows that came twice, out of order or too late, or that the chip refused, by kind; the chip performs no request twice.", "kind")
	flowProbes  = counter("flow_probes", "Probes that the chip sent for flows without progress.")
	flowResets  = counter("flow_resets", "Flows that the chip gave up, after a timeout or without a route.")
	packetLost  = counter("packets_dropped", "Packets that the chip dropped, by reason.", "reason")
	reportsLost = counter("drop_reports_lost", "Reports of dropped packets that the chip could not send, for lack of room or of a route.")
	stuckHeads  = counter("router_timeouts", "Times that the first packet of a channel could not move for the time of the router's timeout.")
	eventsLost  = counter("events_dropped", "Events of the chip that are lost, because the node did not fetch them in time.")
	loopSteps   = counter("loop_steps", "Times that the node ran the chip, by cause: received, submitted, timed, asked.", "cause")
	loopTime    = counter("loop_seconds", "Time that the node spent on running the chip, by cause, including the sending of datagrams.", "cause")
)

// ofChip sends the series of the chip as a whole.
func (s sink) ofChip(n *node.Node, st *chip.Status) {
	k := &st.Counters
	s.put(chipInfo, 1, n.Topology().Name, fmt.Sprintf("%016x", uint64(st.Incarnation)))
	s.put(chipStart, float64(n.Started().UnixMilli())/1e3)
	s.put(chipMembers, float64(len(n.Members())))
	if _, pools, err := n.Gossip(); err == nil {
		var refused, version, unreadable uint64
		for _, p := range pools {
			refused, version, unreadable = refused+p.Refused, version+p.Version, unreadable+p.Unreadable
		}
		s.put(gossipOut, float64(refused), "claim")
		s.put(gossipOut, float64(version), "version")
		s.put(gossipOut, float64(unreadable), "no_common_key")
	}
	s.put(chipLinks, float64(len(st.Ports)))
	s.put(chipOpen, float64(st.Open))
	s.put(chipFlight, float64(st.InFlight))
	s.put(chipTiles, float64(st.Resident))
	s.put(chipBuffers, float64(st.Buffers))
	s.put(outOf, float64(len(st.Out)/2))
	s.put(unreachable, float64(len(st.Unreachable)))
	s.put(silent, float64(len(st.Silent)))
	lates := n.Starved()
	s.put(starved, float64(lates.Times))
	s.put(starvedTime, lates.Total.Seconds())
	if p, ok := node.CPUPressure(); ok {
		s.put(pressure, p.Percent)
		s.put(pressureSum, p.Total.Seconds())
	}
	s.put(requests, float64(k.Requests))
	for f, fate := range map[flow.Fate]string{flow.FateDone: "done", flow.FateRefused: "refused", flow.FateLost: "lost", flow.FateUnknown: "unknown"} {
		s.put(ended, float64(k.Results[f]), fate)
	}
	s.put(performed, float64(k.Performed))
	for kind, v := range map[string]uint64{"duplicate": k.Duplicates, "gap": k.Gaps, "overflow": k.Overflows,
		"stale_request": k.StaleRequests, "stale_completion": k.StaleCompletions, "stale_reply": k.StaleReplies} {
		s.put(flowFaults, float64(v), kind)
	}
	s.put(flowProbes, float64(k.Probes))
	s.put(flowResets, float64(k.FlowResets))
	s.put(reportsLost, float64(k.ReportsLost))
	s.put(stuckHeads, float64(k.Timeouts))
	s.put(eventsLost, float64(k.EventsDropped))
	for reason, v := range dropCounters(k.Dropped) {
		s.put(packetLost, float64(v), label(reason))
	}
	l := n.Load()
	for cause, w := range map[string]node.Work{"received": l.Received, "submitted": l.Submitted, "timed": l.Timed, "asked": l.Asked} {
		s.put(loopSteps, float64(w.Steps), cause)
		s.put(loopTime, w.Time.Seconds(), cause)
	}
}

// label converts a reason to the value of a label. label replaces spaces and hyphens by
// underscores.
func label(reason string) string {
	return strings.ReplaceAll(strings.ReplaceAll(reason, " ", "_"), "-", "_")
}

// port returns the value of the label port for a channel.
func port(c wire.Channel) string { return fmt.Sprint(c) }

var (
	linkInfo  = gauge("link_info", "The peer, direction and routing plane of a port's cable; always 1.", "port", "direction", "plane", "peer", "peer_port")
	linkUp    = gauge("link_up", "1 while the port's link is up, by its own cable or by the cable of another link.", "port")
	linkFall  = gauge("link_fallback", "1 while the frames of the link go by the cable of another link.", "port")
	linkTime  = counter("link_up_seconds", "Total time that the link has been up since the chip started.", "port")
	linkDown  = counter("link_down_seconds", "Total time that the link has been down since it first came up.", "port")
	linkDrops = counter("link_frames_dropped", "Received frames that the port dropped, by reason.", "port", "reason")
	linkCred  = gauge("link_credits_packets", "Packets that the port may send now, for each virtual channel in use.", "port", "vc")
	routed    = counter("router_packets", "Packets that the router handled at a port, by class and by event: received over the link, "+
		"injected by this chip, copied for multicasts, delivered to this chip, forwarded to another port, sent over the link, redirected to another route.", "port", "class", "what")
	routeDrop = counter("router_packets_dropped", "Packets that the router dropped at a port, by reason.", "port", "reason")
	queued    = gauge("router_queue_packets", "Packets in the channels of a port.", "port", "side")
	stateCode = gauge("router_state", "State of the port's router: 0 initializing, 1 running, 2 paused, 3 draining, 4 retraining.", "port")
)

// linkLevels and linkCounts are the families of a link whose series have only the labels chip and
// port.
var linkLevels = []portMetric[ttlink.Status]{
	level("link_round_trip_seconds", "Smoothed round trip time of the link; 0 before the first measurement.", func(l *ttlink.Status) float64 { return l.RTT.Seconds() }),
	level("link_frame_payload_bytes", "Largest frame payload that the link uses at present.", func(l *ttlink.Status) float64 { return float64(l.MaxPayload) }),
	level("link_frame_payload_wanted_bytes", "Largest frame payload that both ends take; the link uses less if longer frames do not pass the network path.", func(l *ttlink.Status) float64 { return float64(l.PayloadWanted) }),
	level("link_window_used_bytes", "Bytes that the peer has not acknowledged yet, including bytes that the link still has to send.", func(l *ttlink.Status) float64 { return float64(l.WindowUsed) }),
	level("link_held", "1 while damping holds the cable out of use, because the cable failed too often or is unreliable.", func(l *ttlink.Status) float64 { return truth(l.HeldUntil != 0 && l.HeldUntil != mono.Never) }),
	level("link_unreliable", "1 while too many of the frames on the link's own cable are sent again or come damaged.", func(l *ttlink.Status) float64 { return truth(l.Unreliable) }),
	level("link_rerouted", "1 while an operator has taken the cable out of service.", func(l *ttlink.Status) float64 { return truth(l.Rerouted) }),
	level("link_miswired", "1 while the last hello over the cable came from a wrong port.", func(l *ttlink.Status) float64 { return truth(l.Miswired && l.State != ttlink.StateUp) }),
	{counter("link_retrains", "Times that the link came up again.", "port"), func(l *ttlink.Status) float64 { return float64(l.Retrains) }},
	{counter("link_flaps", "Failures of the link's own cable.", "port"), func(l *ttlink.Status) float64 { return float64(l.Flaps) }},
}

// linkRates are the families of the data rates of a port.
var linkRates = []portMetric[chip.Rate]{
	level("link_sent_bytes_per_second", "Bytes of frames that the link sent per second, over the latest window of at least a second.", func(r *chip.Rate) float64 { return r.BytesOut }),
	level("link_received_bytes_per_second", "Bytes of frames that the link received per second, over the latest window of at least a second.", func(r *chip.Rate) float64 { return r.BytesIn }),
	level("link_sent_packets_per_second", "Packets that the router handed to the link per second, over the latest window of at least a second.", func(r *chip.Rate) float64 { return r.PacketsOut }),
	level("link_received_packets_per_second", "Packets that the link received completely per second, over the latest window of at least a second.", func(r *chip.Rate) float64 { return r.PacketsIn }),
}

var linkCounts = []portMetric[ttlink.Counters]{
	count("link_frames_sent", "Frames of every kind that the link sent.", func(c *ttlink.Counters) uint64 { return c.FramesSent }),
	count("link_frames_received", "Well-formed frames of every kind that the link received.", func(c *ttlink.Counters) uint64 { return c.FramesReceived }),
	count("link_sent_bytes", "Bytes of the frames that the link sent, from envelope to checksum.", func(c *ttlink.Counters) uint64 { return c.BytesSent }),
	count("link_received_bytes", "Bytes of the frames that the link received, from envelope to checksum.", func(c *ttlink.Counters) uint64 { return c.BytesReceived }),
	count("link_data_frames_sent", "Data frames that the link sent, including those that it sent again.", func(c *ttlink.Counters) uint64 { return c.DataSent }),
	count("link_data_frames_received", "Data frames that the link accepted.", func(c *ttlink.Counters) uint64 { return c.DataReceived }),
	count("link_data_frames_retransmitted", "Data frames that the link sent again.", func(c *ttlink.Counters) uint64 { return c.Retransmitted }),
	count("link_packets_sent", "Packets that the router handed to the link for sending.", func(c *ttlink.Counters) uint64 { return c.PacketsSent }),
	count("link_packets_received", "Packets that the link received completely.", func(c *ttlink.Counters) uint64 { return c.PacketsReceived }),
	count("link_packets_sent_bytes", "Bytes of the packets that the router handed to the link for sending.", func(c *ttlink.Counters) uint64 { return c.PayloadSent }),
	count("link_packets_received_bytes", "Bytes of the packets that the link received completely.", func(c *ttlink.Counters) uint64 { return c.PayloadReceived }),
	count("link_retransmission_timeouts", "Times that the link sent frames again, because an acknowledgement was late.", func(c *ttlink.Counters) uint64 { return c.Timeouts }),
	count("link_go_backs", "Times that the link sent frames again, because the peer reported a missing frame.", func(c *ttlink.Counters) uint64 { return c.GoBacks }),
	count("link_nacks_sent", "NACKs that the link sent: requests to send again from a missing frame on.", func(c *ttlink.Counters) uint64 { return c.NACKsSent }),
	count("link_nacks_received", "NACKs that the link received: requests to send again from a missing frame on.", func(c *ttlink.Counters) uint64 { return c.NACKsReceived }),
	count("link_updates_sent", "Sequence updates that the link sent.", func(c *ttlink.Counters) uint64 { return c.UpdatesSent }),
	count("link_updates_received", "Sequence updates that the link received.", func(c *ttlink.Counters) uint64 { return c.UpdatesReceived }),
	count("link_solicits_sent", "Times that the link asked its peer for a sequence update.", func(c *ttlink.Counters) uint64 { return c.SolicitsSent }),
	count("link_hellos_sent", "Hellos that the link sent.", func(c *ttlink.Counters) uint64 { return c.HellosSent }),
	count("link_hellos_received", "Hellos that the link received.", func(c *ttlink.Counters) uint64 { return c.HellosReceived }),
	count("link_events_dropped", "Events of the link that are lost, because the link had no room for them.", func(c *ttlink.Counters) uint64 { return c.EventsDropped }),
}

// ofPort sends the series of a port's link, and of the router at the port.
func (s sink) ofPort(p *chip.PortStatus, now mono.Time) {
	ch, l := port(p.Local.Channel), &p.Link
	up := l.State == ttlink.StateUp
	s.put(linkInfo, 1, ch, p.Dir.String(), fmt.Sprint(p.Plane), p.Peer.Node.String(), port(p.Peer.Channel))
	s.put(linkUp, truth(up), ch)
	s.put(linkFall, truth(up && l.Path != ttlink.Own), ch)
	s.put(linkTime, l.UpFor(now).Seconds(), ch)
	s.put(linkDown, l.DownFor(now).Seconds(), ch)
	for _, m := range linkLevels {
		s.put(m.metric, m.value(l), ch)
	}
	for _, m := range linkRates {
		s.put(m.metric, m.value(&p.Rate), ch)
	}
	for _, m := range linkCounts {
		s.put(m.metric, m.value(&p.Frames), ch)
	}
	drops := frameDrops(&p.Frames)
	drops["duplicate"], drops["gap"], drops["stale_session"] = p.Frames.Duplicates, p.Frames.Gaps, p.Frames.StaleSession
	for reason, v := range drops {
		s.put(linkDrops, float64(v), ch, label(reason))
	}
	var sender, receiver int
	for vc := range wire.NumVCs {
		if l.PeerSlots[vc] > 0 {
			s.put(linkCred, float64(l.Credits[vc]), ch, wire.VC(vc).String())
		}
		sender, receiver = sender+p.Router.Sender[vc], receiver+p.Router.Receiver[vc]
	}
	s.put(queued, float64(sender), ch, "sender")
	s.put(queued, float64(receiver), ch, "receiver")
	s.put(stateCode, float64(p.Router.State), ch)
	for class, c := range p.Router.Classes {
		name := [wire.NumClasses]string{"request", "reply", "control"}[class]
		for what, v := range map[string]uint64{"received": c.Received, "injected": c.Injected, "copied": c.Copied, "delivered": c.Delivered,
			"forwarded": c.Forwarded, "sent": c.Sent, "redirected": c.Redirected} {
			s.put(routed, float64(v), ch, name, what)
		}
	}
	for reason, v := range dropCounters(p.Router.Counters.Dropped) {
		s.put(routeDrop, float64(v), ch, label(reason))
	}
}

var (
	sockSent   = counter("port_datagrams_sent", "Datagrams that the port handed to the kernel.", "port")
	sockGot    = counter("port_datagrams_received", "Datagrams that the port received from its peer.", "port")
	sockOut    = counter("port_sent_bytes", "Bytes of the datagrams that the port handed to the kernel.", "port")
	sockIn     = counter("port_received_bytes", "Bytes of the datagrams that the port received from its peer.", "port")
	sockCalls  = counter("port_system_calls", "System calls of the port's socket, by direction.", "port", "direction")
	sockFaults = counter("port_errors", "Datagrams that the port's socket lost, by reason. For reasons that begin with times: number of occurrences.", "port", "reason")
	sockAuth   = counter("port_auth_refused", "Datagrams or handshakes that the port refused while it checked its peer, by reason.", "port", "reason")
	sockLong   = gauge("port_largest_datagram_bytes", "The largest datagram that the network path takes, as far as the kernel knows.", "port")
)

// ofSocket sends the series of a port's socket.
func (s sink) ofSocket(c wire.Channel, k *transport.Stats) {
	ch := port(c)
	s.put(sockSent, float64(k.Sent), ch)
	s.put(sockGot, float64(k.Received), ch)
	s.put(sockOut, float64(k.SentBytes), ch)
	s.put(sockIn, float64(k.ReceivedBytes), ch)
	s.put(sockCalls, float64(k.SendCalls), ch, "send")
	s.put(sockCalls, float64(k.ReceiveCalls), ch, "receive")
	s.put(sockLong, float64(k.Largest), ch)
	v := socketView(*k).Counters
	for _, reason := range []string{"send_buffer_full", "no_peer", "too_long", "of_others", "truncated", "receive_buffer_full", "times_refused", "times_unreachable", "times_gso_given_up"} {
		s.put(sockFaults, float64(v[reason]), ch, reason)
	}
	for reason, v := range authCounters(k.Auth) {
		if reason != "keyings" {
			s.put(sockAuth, float64(v), ch, reason)
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// metrics answers with the series of the chip, of the Go runtime and of the process.
func metrics(n *node.Node) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(exporter{n}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
