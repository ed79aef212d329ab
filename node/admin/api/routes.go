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
	MediaText    = "text/plain; charset=utf-8" // text for people and Prometheus
	MediaHTML    = "text/html; charset=utf-8"
	MediaCapture = "application/x-pcapng"
	MediaProfile = "application/octet-stream" // pprof's format
	MediaProblem = "application/problem+json" // RFC 9457, see [Problem]
)

// Route is one call of the API. The documentation, the OpenAPI document and the
// server's handlers all follow [Routes].
type Route struct {
	Method, Path string
	Summary      string // sentence that says what the chip does
	Params       []Param
	Bodies       []any // a zero value of each type that the body may have; empty: the call has no body
	Answers      []Answer
	Errors       []Failure // errors besides the errors that [Route.Failures] adds
	Open         bool      // the call needs no token
}

// Param is a parameter of the query or of the path.
type Param struct {
	Name, Doc string
	Type      any      // a zero value of the type: string, int, bool (1 for true) or Channels (numbers with commas between)
	Enum      []string // allowed values; empty: any value
	Max       int      // largest value of a number or largest length of a text; 0: no limit
	Path      bool     // the parameter is a part of the path, not of the query
	Required  bool
	Repeat    bool // the parameter may come more than once
}

// Answer is a chip's answer to a call that succeeded.
type Answer struct {
	Status int
	Media  string // media type; "": no content
	Doc    string
	Types  []any // a zero value of each type that the JSON may have
}

// Failure is an error with which the chip may answer a call.
type Failure struct {
	Status int
	When   string
	Media  string // media type; "": [MediaProblem]
}

// Pattern returns the route as a pattern of [http.ServeMux].
func (r *Route) Pattern() string {
	if r.Path == "/v1/" { // the path /v1/ alone, without longer paths
		return r.Method + " /v1/{$}"
	}
	return r.Method + " " + r.Path
}

// Failures lists all errors of the route, sorted by status: the route's own errors, and
// the common errors of calls that need a token or have a body.
func (r *Route) Failures() []Failure {
	all := slices.Clone(r.Errors)
	if !r.Open {
		all = append(all, Failure{Status: http.StatusUnauthorized, When: "The token is missing or wrong."})
	}
	if len(r.Bodies) > 0 {
		all = append(all, Failure{Status: http.StatusBadRequest, When: "The body differs from the documented JSON. For example, a field does not exist, or a word is missing in an enumeration."},
			Failure{Status: http.StatusRequestEntityTooLarge, When: "The body is too long."})
	}
	slices.SortFunc(all, func(a, b Failure) int { return a.Status - b.Status })
	return all
}

// Limit returns the largest length of the route's body, in bytes.
func (r *Route) Limit() int64 {
	if slices.ContainsFunc(r.Bodies, func(b any) bool { _, list := b.([]RequestBody); return list }) {
		return MaxBatchBody
	}
	return MaxBody
}

// Stream reports whether the answer is a capture, which the caller may read as slowly as the caller
// likes. The chip drops what the caller does not read in time.
func (r *Route) Stream() bool {
	return slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.Media == MediaCapture })
}

// one returns the answers of a call that answers with one JSON value.
func one(v any) []Answer {
	return []Answer{{Status: http.StatusOK, Media: MediaJSON, Types: []any{v}}}
}

// noContent is the answer of a call without a result.
var noContent = []Answer{{Status: http.StatusNoContent, Doc: "Done."}}

// unprocessable returns the failure for a body or a query that the chip can read but
// that makes no sense to this chip.
func unprocessable(when string) []Failure {
	return []Failure{{Status: http.StatusUnprocessableEntity, When: when}}
}

var batchParam = Param{Name: "batch", Type: "", Max: MaxID, Doc: "The id with which the caller sent the batch."}

// Routes are the calls of the API.
var Routes = slices.Concat(stateRoutes, requestRoutes, faultRoutes, operationRoutes, documentRoutes)

// stateRoutes are the calls that return the chip's state.
var stateRoutes = []Route{
	{Method: "GET", Path: "/livez", Open: true, Summary: "Says that the chip's process runs.", Answers: []Answer{{Status: http.StatusOK, Media: MediaText, Doc: "ok"}}},
	{Method: "GET", Path: "/readyz", Open: true, Summary: "Says whether every declared link is up.", Answers: []Answer{{Status: http.StatusOK, Media: MediaText, Doc: "ok"}},
		Errors: []Failure{{Status: http.StatusServiceUnavailable, When: "Some links are not up; the text names them.", Media: MediaText}}},
	{Method: "GET", Path: "/metrics", Summary: "Returns counters and gauges for Prometheus.",
		Answers: []Answer{{Status: http.StatusOK, Media: "text/plain", Doc: "Prometheus' text format, or OpenMetrics if the caller prefers it."},
			{Status: http.StatusOK, Media: "application/openmetrics-text"}}},
	{Method: "GET", Path: "/v1/fabric", Summary: "Returns how the fabric was started, in the words of its starter.", Answers: one(map[string]any(nil)),
		Errors: []Failure{{Status: http.StatusNotFound, When: "The chip has no description of the fabric."}}},
	{Method: "GET", Path: "/v1/chip", Summary: "Returns the chip's state, links and counters.", Answers: one(ChipView{})},
	{Method: "GET", Path: "/v1/losses", Summary: "Returns the packets that the chip has counted, by class, port and session.", Answers: one(losses.Chip{}),
		Errors: []Failure{{Status: http.StatusServiceUnavailable, When: "The chip has been closed."}}},
	{Method: "GET", Path: "/v1/ends", Summary: "Returns how the chip's requests have ended, by destination.", Answers: one(flow.Moment{}),
		Errors: []Failure{{Status: http.StatusServiceUnavailable, When: "The chip has been closed."}}},
	{Method: "GET", Path: "/v1/members", Summary: "Lists the chips that the gossip pool believes alive.", Answers: one([]MemberView{})},
	{Method: "GET", Path: "/v1/events", Summary: "Streams the chip's events, past events first.",
		Answers: []Answer{{Status: http.StatusOK, Media: MediaEvents, Doc: "Server-sent events until the caller disconnects. The data of each event is one object.", Types: []any{EventView{}}}}},
	{Method: "GET", Path: "/v1/profile/{kind}", Summary: "Takes a profile of the chip's process.",
		Params: []Param{{Name: "kind", Path: true, Required: true, Type: "", Enum: ProfileKinds, Doc: "The kind of profile."},
			{Name: "for", Type: "", Doc: "The time that a CPU profile takes: a duration such as 5s, up to 5m. The other kinds do not use this parameter."}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaProfile, Doc: "The profile in pprof's format."}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "The duration of a CPU profile is missing or out of range."}, {Status: http.StatusNotFound, When: "There is no such kind of profile."},
			{Status: http.StatusConflict, When: "Another call takes a CPU profile now."}}},
}

// requestRoutes are the calls that send NoC commands.
var requestRoutes = []Route{
	{Method: "POST", Path: "/v1/requests", Summary: "Sends one NoC command and answers when the command has ended. For a batch, sends the commands in order and streams how each command ended.",
		Params: []Param{{Name: "batch", Type: "", Max: MaxID, Doc: "An id for the batch, at most 64 bytes, by which DELETE stops the batch."}},
		Bodies: []any{RequestBody{}, []RequestBody{}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaJSON, Doc: "How one command ended.", Types: []any{ResultBody{}}},
			{Status: http.StatusOK, Media: MediaLines, Doc: "For a batch of 1 to 256 commands: one BatchStart, and a BatchEnd for each started command as soon as the command ends. Each line is one JSON object.", Types: []any{BatchStart{}, BatchEnd{}}}},
		Errors: []Failure{{Status: http.StatusConflict, When: "A batch with this id is already open."},
			{Status: http.StatusUnprocessableEntity, When: "The chip started no command, for example because the fabric does not have the destination."}}},
	{Method: "DELETE", Path: "/v1/requests", Summary: "Stops the start of further commands of a batch. Started commands continue.", Params: []Param{required(batchParam)}, Answers: noContent,
		Errors: []Failure{{Status: http.StatusNotFound, When: "There is no batch with this id: the batch has not arrived yet, or all its commands have ended."}}},
	{Method: "POST", Path: "/v1/bench", Summary: "Writes batches of packets and measures the time of each batch in the chip.", Bodies: []any{BenchBody{}}, Answers: one(BenchResult{}),
		Errors: []Failure{{Status: http.StatusConflict, When: "A packet was refused, was lost, or has an unknown outcome."}, {Status: http.StatusUnprocessableEntity, When: "A value is out of range, or the chip did not start the packets."}}},
	{Method: "GET", Path: "/v1/traces", Summary: "Lists the traced packets that came to the chip, oldest first.", Answers: one([]SightingView{})},
	{Method: "POST", Path: "/v1/traffic", Summary: "Begins a traffic run in this chip, or makes the chip send in a run that has begun.", Bodies: []any{TrafficStart{}}, Answers: one(OK{}),
		Errors: unprocessable("A value of the run is out of range.")},
	{Method: "GET", Path: "/v1/traffic", Summary: "Returns the report of the traffic run so far.", Answers: one(traffic.Report{}),
		Errors: []Failure{{Status: http.StatusNotFound, When: "No traffic run is active in this chip."}}},
	{Method: "DELETE", Path: "/v1/traffic", Summary: "Ends the traffic run.", Answers: one(OK{})},
}

// faultRoutes are the calls that inject faults and report faults.
var faultRoutes = []Route{
	{Method: "GET", Path: "/v1/netem", Summary: "Lists the impairments of the datagrams that each port sends.", Answers: one([]ImpairmentView{})},
	{Method: "PUT", Path: "/v1/netem", Summary: "Impairs the datagrams that some ports send, or cuts the ports' cables.", Bodies: []any{NetemBody{}}, Answers: one([]ImpairmentView{}),
		Errors: unprocessable("A channel has no cable, an option does not exist, or the body changes nothing.")},
	{Method: "DELETE", Path: "/v1/netem", Summary: "Removes the impairments of some ports. Cuts stay.",
		Params:  []Param{{Name: "channel", Type: 0, Repeat: true, Max: 255, Doc: "A port, by its ethernet channel. Without this parameter, the call applies to all ports."}},
		Answers: one([]ImpairmentView{}),
		Errors:  []Failure{{Status: http.StatusBadRequest, When: "A channel is not a number."}, {Status: http.StatusUnprocessableEntity, When: "A channel has no cable."}}},
	{Method: "POST", Path: "/v1/faults", Summary: "Writes an event about a fault of a chip that cannot report the fault itself.", Bodies: []any{FaultBody{}}, Answers: one(OK{}),
		Errors: unprocessable("The chip is not in this fabric, the channel has no cable, or the kind of fault applies to ports only.")},
	{Method: "GET", Path: "/v1/gossip", Summary: "Returns the faults that were injected into the chip's gossip, and the state of the chip's gossip pools.", Answers: one(GossipView{}),
		Errors: unprocessable("The chip does not gossip over a network, or has been closed.")},
	{Method: "PUT", Path: "/v1/gossip", Summary: "Impairs the chip's gossip, or cuts the chip off from the gossip.", Bodies: []any{GossipBody{}}, Answers: one(GossipView{}),
		Errors: unprocessable("An option does not exist, or the chip does not gossip over a network, or has been closed.")},
	{Method: "DELETE", Path: "/v1/gossip", Summary: "Removes the cuts and the impairment of the chip's gossip.",
		Params:  []Param{{Name: "cuts", Type: "", Enum: []string{"only"}, Doc: "With this parameter, the impairment stays."}},
		Answers: one(GossipView{}), Errors: unprocessable("The chip does not gossip over a network, or has been closed.")},
}

// operationRoutes are the calls for operators.
var operationRoutes = []Route{
	{Method: "GET", Path: "/v1/router", Summary: "Returns the state of each port's router.", Answers: one([]RouterView{})},
	{Method: "POST", Path: "/v1/router", Summary: "Tells the routers of some ports to resume, pause, drain, retrain or flush.", Bodies: []any{RouterBody{}}, Answers: one([]RouterView{}),
		Errors: unprocessable("A channel has no cable, there is no such action, or a link has no path to train on.")},
	{Method: "PUT", Path: "/v1/service", Summary: "Takes cables out of service, or puts cables back into service.", Bodies: []any{ServiceBody{}}, Answers: one(ChipView{}),
		Errors: unprocessable("The chip has no such channel.")},
	{Method: "PUT", Path: "/v1/leaving", Summary: "Makes the chip refuse new requests, or accept new requests again.", Bodies: []any{DrainBody{}}, Answers: one(DrainBody{})},
	{Method: "GET", Path: "/v1/gossip/keys", Summary: "Lists the keys of the chip's encrypted gossip, by id.", Answers: one([]KeyView{}),
		Errors: unprocessable("The chip's gossip has no keys.")},
	{Method: "PUT", Path: "/v1/gossip/keys", Summary: "Installs, uses or removes a key of the chip's gossip.", Bodies: []any{KeyBody{}}, Answers: one([]KeyView{}),
		Errors: unprocessable("The key or the action makes no sense, the change came too late, or the chip's gossip has no keys.")},
	{Method: "GET", Path: "/v1/capture", Summary: "Streams the datagrams that pass the chip's ports, until the caller disconnects or DELETE ends the capture.",
		Params: []Param{{Name: "ports", Type: Channels{}, Doc: "The ports, by ethernet channel. Without this parameter, the capture takes all ports."},
			{Name: "snaplen", Type: 0, Max: MaxSnapLen, Doc: "The number of bytes to keep of each Ethernet frame; 0: all bytes."},
			{Name: "filter", Type: "", Doc: "The filter of the datagrams to take, in the notation of 'ttfabric capture --help'. Without a filter, the capture takes all datagrams."},
			{Name: "buffer", Type: 0, Doc: "The amount of datagrams that may wait in the chip, in MiB; 0: the default."},
			{Name: "keys", Type: false, Doc: "Puts the TLS keys of QUIC ports into the capture."},
			{Name: "id", Type: "", Max: MaxID, Doc: "An id for the capture, at most 64 bytes, by which DELETE ends the capture."}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaCapture, Doc: "A pcapng file with one interface for each port."}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "A parameter is out of range, or the filter cannot be read."}, {Status: http.StatusConflict, When: "A capture with this id is already open."},
			{Status: http.StatusUnprocessableEntity, When: "A port has no cable, or the chip already runs its largest number of captures."}}},
	{Method: "DELETE", Path: "/v1/capture", Summary: "Ends a capture. The capture's reader gets all datagrams that the chip has taken, and then the end of the file.",
		Params: []Param{{Name: "id", Type: "", Required: true, Doc: "The id with which the capture began."}}, Answers: noContent,
		Errors: []Failure{{Status: http.StatusNotFound, When: "There is no such capture."}}},
	{Method: "DELETE", Path: "/v1/recording", Summary: "Ends the recording of the chip's calls.", Answers: one(RecordingView{}),
		Errors: []Failure{{Status: http.StatusConflict, When: "The chip makes no recording."}}},
}

// documentRoutes are the calls that describe the API itself.
var documentRoutes = []Route{
	{Method: "GET", Path: "/v1/", Open: true, Summary: "Shows this list of calls to people.", Answers: []Answer{{Status: http.StatusOK, Media: MediaHTML, Doc: "A page."}}},
	{Method: "GET", Path: "/v1/openapi.json", Open: true, Summary: "Returns this description of the API.", Answers: []Answer{{Status: http.StatusOK, Media: MediaJSON, Doc: "An OpenAPI 3.1 document.", Types: []any{map[string]any(nil)}}}},
}

func required(p Param) Param {
	p.Required = true
	return p
}
