package api

import (
	"net/http"
	"slices"

	"ttfabric/node/flow"
	"ttfabric/node/losses"
	"ttfabric/node/traffic"
)

// Media types of answers.
const (
	MediaJSON    = "application/json"
	MediaLines   = "application/x-ndjson"      // one JSON object in each line
	MediaEvents  = "text/event-stream"         // server-sent events; the data of each event is a JSON object
	MediaText    = "text/plain; charset=utf-8" // plain text, for people and for Prometheus
	MediaHTML    = "text/html; charset=utf-8"
	MediaCapture = "application/x-pcapng"
	MediaProfile = "application/octet-stream" // the format of pprof
	MediaImage   = "application/octet-stream" // the format of package image
	MediaProblem = "application/problem+json" // RFC 9457, see [Problem]
)

// Route describes one call of the API.
type Route struct {
	Method, Path string
	Summary      string // one or more sentences that say what the chip does
	Params       []Param
	Bodies       []any // a zero value of each type that the body may have; empty: the body is no JSON
	Image        bool  // whether the body is a memory image, see package image
	Answers      []Answer
	Errors       []Failure // errors of this call; [Route.Failures] adds the errors that many calls have
	Open         bool      // whether the call needs no token
}

// Param is a parameter of the query, of the path, or of the header.
type Param struct {
	Name, Doc string
	Type      any      // a zero value of the type: string, int, uint64, bool (1 stands for true) or Channels (numbers separated by commas)
	Enum      []string // allowed values; empty: any value
	Max       int      // largest value of a number or largest length of a text; 0: no limit
	Path      bool     // whether the parameter is part of the path
	Header    bool     // whether the parameter is a header; if Path and Header are false, the parameter is part of the query
	Required  bool
	Repeat    bool // the parameter may come more than once
}

// Answer describes an answer of the chip to a call that succeeds.
type Answer struct {
	Status  int
	Media   string // media type; "": no content
	Doc     string
	Types   []any   // a zero value of each type that the JSON may have
	Headers []Param // headers of the answer, except those that every answer has
}

// Failure describes an error that the chip may return for a call. The answer is a [Problem].
type Failure struct {
	Status int
	When   string
}

// Pattern returns the route as a pattern of [http.ServeMux].
func (r *Route) Pattern() string {
	if r.Path == "/v1/" { // match only the path /v1/, and no longer paths
		return r.Method + " /v1/{$}"
	}
	return r.Method + " " + r.Path
}

// Failures returns the documented errors of the call, sorted by status. The list has the call's own
// errors, and the errors of all calls that need a token or have a body.
func (r *Route) Failures() []Failure {
	all := slices.Clone(r.Errors)
	if !r.Open {
		all = append(all, Failure{Status: http.StatusUnauthorized, When: "The token is missing or wrong."})
	}
	if len(r.Bodies) > 0 {
		all = append(all, Failure{Status: http.StatusBadRequest, When: "The body differs from the documented JSON. For example, the type has no such field, or the enumeration has no such name."},
			Failure{Status: http.StatusRequestEntityTooLarge, When: "The body is too long."},
			Failure{Status: http.StatusRequestTimeout, When: "The body came too slowly."},
			Failure{Status: http.StatusServiceUnavailable, When: "The chip reads as many large bodies as it may."})
	}
	slices.SortStableFunc(all, func(a, b Failure) int { return a.Status - b.Status })
	return all
}

// Limit returns the largest length of the call's body, in bytes.
func (r *Route) Limit() int64 {
	if r.Image {
		return MaxImage
	}
	if slices.ContainsFunc(r.Bodies, func(b any) bool { _, list := b.([]RequestBody); return list }) {
		return MaxBatchBody
	}
	return MaxBody
}

// Stream reports whether the answer is a capture, which the caller may read as slowly as the caller
// likes. The chip drops datagrams that the caller does not read in time.
func (r *Route) Stream() bool {
	return slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.Media == MediaCapture })
}

// The function "one" describes the answer of a call that returns one JSON value.
func one(v any) []Answer {
	return []Answer{{Status: http.StatusOK, Media: MediaJSON, Types: []any{v}}}
}

// noContent describes the answer of a call that returns no data.
var noContent = []Answer{{Status: http.StatusNoContent, Doc: "Done."}}

// unprocessable describes the error for a body or query that the chip can read but cannot carry
// out.
func unprocessable(when string) []Failure {
	return []Failure{{Status: http.StatusUnprocessableEntity, When: when}}
}

var ownerParam = Param{Name: "owner", Type: uint64(0), Doc: "The owner in POST /v1/traffic. Without this parameter, the call applies to the run of any owner."}

var badOwner = Failure{Status: http.StatusBadRequest, When: "The owner is no number of 64 bits."}

var batchParam = Param{Name: "batch", Type: "", Max: MaxID, Doc: "The id that the caller gave the batch in POST /v1/requests."}

// Routes are the calls of the API. Routes is the source of the API's page and of the OpenAPI
// document. The server serves exactly these calls.
var Routes = slices.Concat(stateRoutes, requestRoutes, waitRoutes, faultRoutes, operationRoutes, jobRoutes, hostRoutes, snapshotRoutes, memoryRoutes, documentRoutes)

// stateRoutes are the calls that return the chip's state.
var stateRoutes = []Route{
	{Method: "GET", Path: "/livez", Open: true, Summary: "Answers if the chip's process runs.", Answers: []Answer{{Status: http.StatusOK, Media: MediaText, Doc: "ok"}}},
	{Method: "GET", Path: "/readyz", Open: true, Summary: "Says whether all links of the chip are up.", Answers: []Answer{{Status: http.StatusOK, Media: MediaText, Doc: "ok"}},
		Errors: []Failure{{Status: http.StatusServiceUnavailable, When: "Some links are not up; the detail names them."}}},
	{Method: "GET", Path: "/metrics", Summary: "Returns counters and gauges for Prometheus.",
		Answers: []Answer{{Status: http.StatusOK, Media: "text/plain", Doc: "The metrics in the text format of Prometheus, or in the format OpenMetrics if the caller accepts OpenMetrics."},
			{Status: http.StatusOK, Media: "application/openmetrics-text"}}},
	{Method: "GET", Path: "/v1/fabric", Summary: "Returns the description of the fabric, which says how the fabric was started.", Answers: one(map[string]any(nil)),
		Errors: []Failure{{Status: http.StatusNotFound, When: "The chip has no description of the fabric."}}},
	{Method: "GET", Path: "/v1/chip", Summary: "Returns the chip's state, links and counters.", Answers: one(ChipView{}),
		Params: []Param{{Name: "ready", Type: "", Doc: "The longest time for which the answer waits until the chip is ready, such as 2s; at most 1m. A chip is ready when all its links are up and its tables use all cables. Without this parameter, the chip answers at once."}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "The time is not a duration, or out of range."},
			{Status: http.StatusServiceUnavailable, When: "The chip is not ready, and cannot wait, because it has as many event streams as it may have."}}},
	{Method: "GET", Path: "/v1/brief", Summary: "Returns the part of the chip's state that a monitor reads every second.", Answers: one(ChipBrief{})},
	{Method: "GET", Path: "/v1/losses", Summary: "Returns the packet counts of the chip, by port, class and session.", Answers: one(losses.Chip{}),
		Errors: []Failure{{Status: http.StatusServiceUnavailable, When: "The chip has been closed."}}},
	{Method: "GET", Path: "/v1/ends", Summary: "Returns how many of the chip's requests have ended, by destination and fate.", Answers: one(flow.Moment{}),
		Errors: []Failure{{Status: http.StatusServiceUnavailable, When: "The chip has been closed."}}},
	{Method: "GET", Path: "/v1/members", Summary: "Lists the chips that are alive according to the gossip pool.", Answers: one([]MemberView{})},
	{Method: "GET", Path: "/v1/events", Summary: "Streams the chip's events, past events first.",
		Params: []Param{{Name: "Last-Event-ID", Header: true, Type: "", Doc: "The id of an event, INCARNATION-SEQ. With this header, the stream begins after the event. If the chip no longer has the next event, the field lost of the first event counts the missing events. If the chip has restarted since the event, the stream begins with the first past event."}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaEvents, Doc: "Server-sent events until the caller disconnects. The data of each event is one object. The id of each event is its incarnation and its sequence number.", Types: []any{EventView{}},
			Headers: []Param{{Name: HeaderSeq, Header: true, Required: true, Type: uint64(0), Doc: "The sequence number of the chip's latest event when the stream began; 0 if the chip had no event. Events with higher numbers happened during the stream."}}}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "Last-Event-ID is not the id of an event."}, {Status: http.StatusServiceUnavailable, When: "The chip has as many event streams as it may have."}}},
	{Method: "GET", Path: "/v1/profile/{kind}", Summary: "Takes a performance profile of the chip's process.",
		Params: []Param{{Name: "kind", Path: true, Required: true, Type: "", Enum: ProfileKinds, Doc: "The kind of profile."},
			{Name: "for", Type: "", Doc: "The duration of a CPU profile, such as 5s; at most 5m. Other kinds of profiles do not use this parameter."}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaProfile, Doc: "The profile, in the format of pprof."}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "The duration of a CPU profile is missing or out of range."}, {Status: http.StatusNotFound, When: "The kind of profile does not exist."},
			{Status: http.StatusConflict, When: "Another call is taking a CPU profile."}}},
}

// requestRoutes are the calls that send NoC commands.
var requestRoutes = []Route{
	{Method: "POST", Path: "/v1/requests", Summary: "Sends one request with a NoC command, and returns the result when the request has ended. Of a batch, the chip starts the requests in order, and streams each result as soon as its request has ended.",
		Params: []Param{{Name: "batch", Type: "", Max: MaxID, Doc: "An id for the batch, at most 64 bytes, by which DELETE stops the batch."}},
		Bodies: []any{RequestBody{}, []RequestBody{}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaJSON, Doc: "The result of one request.", Types: []any{ResultBody{}}},
			{Status: http.StatusOK, Media: MediaLines, Doc: "For a batch of 1 to 256 requests: one BatchStart, and one BatchEnd for each started request as soon as the request has ended. Each line is one JSON object.", Types: []any{BatchStart{}, BatchEnd{}}}},
		Errors: []Failure{{Status: http.StatusConflict, When: "A batch with this id is already open."},
			{Status: http.StatusUnprocessableEntity, When: "The chip started no request, because a value is out of range or names nothing, or because the chip has no route. For example, an address names no tile, or the fabric does not have the destination."},
			{Status: http.StatusServiceUnavailable, When: "The chip has as many batches under way as it may have."}}},
	{Method: "DELETE", Path: "/v1/requests", Summary: "Makes the chip start no further requests of a batch. Started requests continue.", Params: []Param{required(batchParam)}, Answers: noContent,
		Errors: []Failure{{Status: http.StatusNotFound, When: "No open batch has this id. The batch has not arrived yet, or all its requests have ended."}}},
	{Method: "POST", Path: "/v1/bench", Summary: "Sends batches of packets, and measures the time of each batch in the chip.", Bodies: []any{BenchBody{}}, Answers: one(BenchResult{}),
		Errors: []Failure{{Status: http.StatusConflict, When: "A packet was refused, was lost, or has an unknown fate."}, {Status: http.StatusUnprocessableEntity, When: "A value is out of range, or the chip did not start the packets."}}},
	{Method: "GET", Path: "/v1/traces", Summary: "Lists the traced packets that the chip has seen, oldest first.", Answers: one([]SightingView{})},
	{Method: "POST", Path: "/v1/traffic", Summary: "Begins a traffic run in this chip, or sets whether the chip sends in a run that has begun.", Bodies: []any{TrafficStart{}}, Answers: one(OK{}),
		Errors: []Failure{{Status: http.StatusConflict, When: "The chip takes part in the run of another owner."}, {Status: http.StatusUnprocessableEntity, When: "A value of the run is out of range."}}},
	{Method: "GET", Path: "/v1/traffic", Summary: "Returns the chip's report of the traffic run so far.", Answers: one(traffic.Report{}),
		Params: []Param{ownerParam, {Name: "counts", Type: false, Doc: "Leaves out the latencies, which are most of a report."}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "The owner is no number of 64 bits, or counts is neither true nor false."}, {Status: http.StatusNotFound, When: "This chip runs no traffic of this owner."}}},
	{Method: "DELETE", Path: "/v1/traffic", Summary: "Ends the traffic run in this chip.", Params: []Param{ownerParam}, Answers: one(OK{}), Errors: []Failure{badOwner}},
}

// faultRoutes are the calls that inject faults and report faults.
var faultRoutes = []Route{
	{Method: "GET", Path: "/v1/netem", Summary: "Lists the impairments of each port of the chip.", Answers: one([]ImpairmentView{})},
	{Method: "PUT", Path: "/v1/netem", Summary: "Changes the impairments of the datagrams that some ports send, or cuts or repairs the cables in the sending direction.", Bodies: []any{NetemBody{}}, Answers: one([]ImpairmentView{}),
		Errors: unprocessable("A channel has no cable, an option does not exist, or the body changes nothing.")},
	{Method: "DELETE", Path: "/v1/netem", Summary: "Removes the impairments of some ports. Cut cables stay cut.",
		Params:  []Param{{Name: "channel", Type: 0, Repeat: true, Max: 255, Doc: "A port, by its ethernet channel. Without this parameter, the call applies to all ports."}},
		Answers: one([]ImpairmentView{}),
		Errors:  []Failure{{Status: http.StatusBadRequest, When: "A channel is not a number."}, {Status: http.StatusUnprocessableEntity, When: "A channel has no cable."}}},
	{Method: "POST", Path: "/v1/faults", Summary: "Publishes an event about a fault of another chip's process, or about an impairment by the kernel.", Bodies: []any{FaultBody{}}, Answers: one(OK{}),
		Errors: unprocessable("The chip is not in this fabric, the channel has no cable, an option does not exist, or the kind of fault cannot be reported.")},
	{Method: "GET", Path: "/v1/gossip", Summary: "Returns the faults injected into the chip's gossip, and the state of the chip's gossip pools.", Answers: one(GossipView{}),
		Errors: unprocessable("The chip does not gossip over a network, or has been closed.")},
	{Method: "PUT", Path: "/v1/gossip", Summary: "Changes the impairments of the chip's gossip, or cuts the gossip off from other chips.", Bodies: []any{GossipBody{}}, Answers: one(GossipView{}),
		Errors: unprocessable("An option does not exist, the chip does not gossip over a network, or the chip has been closed.")},
	{Method: "DELETE", Path: "/v1/gossip", Summary: "Ends the cuts of the chip's gossip, and removes its impairments.",
		Params:  []Param{{Name: "cuts", Type: "", Enum: []string{"only"}, Doc: "With this parameter, the call only ends the cuts, and the impairments stay in force."}},
		Answers: one(GossipView{}), Errors: unprocessable("The chip does not gossip over a network, or has been closed.")},
}

// operationRoutes are the calls for operators.
var operationRoutes = []Route{
	{Method: "GET", Path: "/v1/router", Summary: "Returns the state of the chip's router at each port.", Answers: one([]RouterView{})},
	{Method: "GET", Path: "/v1/router/channels", Summary: "Lists the sender and receiver channels that hold packets, with the headers of the packets.", Answers: one([]ChannelView{})},
	{Method: "POST", Path: "/v1/router", Summary: "Makes the router resume, pause, drain, retrain or flush some ports, or changes the mode of the ports.", Bodies: []any{RouterBody{}}, Answers: one([]RouterView{}),
		Errors: unprocessable("A channel has no cable, the action does not exist, or a link has no path on which to train.")},
	{Method: "PUT", Path: "/v1/service", Summary: "Takes cables of the chip out of service, or puts the cables back into service.", Bodies: []any{ServiceBody{}}, Answers: one(ChipView{}),
		Errors: unprocessable("The chip has no such channel.")},
	{Method: "PUT", Path: "/v1/fallback", Summary: "Assigns a fallback path to a link.", Bodies: []any{FallbackBody{}}, Answers: one(ChipView{}),
		Errors: unprocessable("The chip has no such channel, or the two cables do not lead to the same chip in the same direction.")},
	{Method: "PUT", Path: "/v1/leaving", Summary: "Makes the chip refuse new requests, or accept new requests again.", Bodies: []any{DrainBody{}}, Answers: one(DrainBody{})},
	{Method: "GET", Path: "/v1/gossip/keys", Summary: "Lists the ids and properties of the keys that encrypt the chip's gossip.", Answers: one([]KeyView{}),
		Errors: unprocessable("The chip's gossip is not encrypted.")},
	{Method: "PUT", Path: "/v1/gossip/keys", Summary: "Installs a key for the chip's gossip, encrypts with an installed key from now on, or removes a key.", Bodies: []any{KeyBody{}}, Answers: one([]KeyView{}),
		Errors: unprocessable("The key or the action is invalid, the change came too late, or the chip's gossip is not encrypted.")},
	{Method: "GET", Path: "/v1/capture", Summary: "Captures the datagrams that the chip's ports send and receive, and streams them until the caller disconnects or DELETE ends the capture.",
		Params: []Param{{Name: "ports", Type: Channels{}, Doc: "The ports to capture, by ethernet channel. Without this parameter, the chip captures at all ports."},
			{Name: "snaplen", Type: 0, Max: MaxSnapLen, Doc: "The number of bytes to keep of each Ethernet frame; 0: all bytes."},
			{Name: "filter", Type: "", Doc: "A filter that selects the datagrams to capture, in the notation that 'ttfabric capture --help' explains. Without a filter, the chip captures all datagrams."},
			{Name: "buffer", Type: 0, Doc: "The size of the chip's memory for datagrams that wait to be streamed, in MiB; 0: the default."},
			{Name: "keys", Type: false, Doc: "Includes the TLS keys of QUIC ports in the capture."},
			{Name: "id", Type: "", Max: MaxID, Doc: "An id for the capture, at most 64 bytes, by which DELETE ends the capture."}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaCapture, Doc: "A pcapng file with one interface for each port."}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "A parameter is out of range, or the filter cannot be read."}, {Status: http.StatusConflict, When: "A capture with this id is already open."},
			{Status: http.StatusUnprocessableEntity, When: "A port has no cable."}, {Status: http.StatusServiceUnavailable, When: "The chip has as many captures under way as it may have."}}},
	{Method: "DELETE", Path: "/v1/capture", Summary: "Ends a capture. The caller of GET still gets all captured datagrams, and then the end of the file.",
		Params: []Param{{Name: "id", Type: "", Required: true, Doc: "The id that the caller gave the capture in GET /v1/capture."}}, Answers: noContent,
		Errors: []Failure{{Status: http.StatusNotFound, When: "No open capture has this id."}}},
	{Method: "DELETE", Path: "/v1/recording", Summary: "Ends the recording of the chip's calls.", Answers: one(RecordingView{}),
		Errors: []Failure{{Status: http.StatusConflict, When: "The chip is not being recorded."}}},
}

// documentRoutes are the calls that describe the API itself.
var documentRoutes = []Route{
	{Method: "GET", Path: "/v1/", Open: true, Summary: "Returns this list of calls as an HTML page.", Answers: []Answer{{Status: http.StatusOK, Media: MediaHTML, Doc: "An HTML page."}}},
	{Method: "GET", Path: "/v1/openapi.json", Open: true, Summary: "Returns the API's description as an OpenAPI document.", Answers: []Answer{{Status: http.StatusOK, Media: MediaJSON, Doc: "An OpenAPI 3.1 document.", Types: []any{map[string]any(nil)}}}},
}

func required(p Param) Param {
	p.Required = true
	return p
}
