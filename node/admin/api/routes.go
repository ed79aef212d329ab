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
		all = append(all, Failure{Status: http.StatusBadRequest, When: "The body is not the JSON that is documented: such as a field that does not exist, or a word that an enumeration does not have."},
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

var batchParam = Param{Name: "batch", Type: "", Max: MaxID, Doc: "The id that the batch was sent with."}

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
		Errors: []Failure{{Status: http.StatusNotFound, When: "Nobody described the fabric to this chip."}}},
	{Method: "GET", Path: "/v1/chip", Summary: "Returns the chip's state, links and counters.", Answers: one(ChipView{})},
	{Method: "GET", Path: "/v1/losses", Summary: "Returns the packets that the chip has counted, by class, port and session.", Answers: one(losses.Chip{}),
		Errors: []Failure{{Status: http.StatusServiceUnavailable, When: "The chip has been closed."}}},
	{Method: "GET", Path: "/v1/ends", Summary: "Returns how the chip's requests have ended, by destination.", Answers: one(flow.Moment{}),
		Errors: []Failure{{Status: http.StatusServiceUnavailable, When: "The chip has been closed."}}},
	{Method: "GET", Path: "/v1/members", Summary: "Lists the chips that the gossip pool believes alive.", Answers: one([]MemberView{})},
	{Method: "GET", Path: "/v1/events", Summary: "Streams the chip's events, those of the past first.",
		Answers: []Answer{{Status: http.StatusOK, Media: MediaEvents, Doc: "Server-sent events until the caller leaves. The data of each event is one object.", Types: []any{EventView{}}}}},
	{Method: "GET", Path: "/v1/profile/{kind}", Summary: "Takes a profile of the chip's process.",
		Params: []Param{{Name: "kind", Path: true, Required: true, Type: "", Enum: ProfileKinds, Doc: "What the profile is of."},
			{Name: "for", Type: "", Doc: "How long a CPU profile takes: a duration such as 5s, up to 5m. The other kinds do not use it."}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaProfile, Doc: "The profile in pprof's format."}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "The duration of a CPU profile is missing or out of range."}, {Status: http.StatusNotFound, When: "There is no such kind of profile."},
			{Status: http.StatusConflict, When: "Somebody takes a CPU profile already."}}},
}

// requestRoutes are the calls that send NoC commands.
var requestRoutes = []Route{
	{Method: "POST", Path: "/v1/requests", Summary: "Sends one NoC command and answers when the command has ended; or sends a batch of commands in order and streams their ends.",
		Params: []Param{{Name: "batch", Type: "", Max: MaxID, Doc: "An id for the batch, at most 64 bytes, by which DELETE stops the batch."}},
		Bodies: []any{RequestBody{}, []RequestBody{}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaJSON, Doc: "How one command ended.", Types: []any{ResultBody{}}},
			{Status: http.StatusOK, Media: MediaLines, Doc: "Of a batch of 1 to 256 commands: one BatchStart, and a BatchEnd for each command that was started, as they come, one JSON object a line.", Types: []any{BatchStart{}, BatchEnd{}}}},
		Errors: []Failure{{Status: http.StatusConflict, When: "There is a batch of that id already."},
			{Status: http.StatusUnprocessableEntity, When: "The chip started no command, such as for a destination that the fabric does not have."}}},
	{Method: "DELETE", Path: "/v1/requests", Summary: "Stops the start of further commands of a batch. Commands that were started go on.", Params: []Param{required(batchParam)}, Answers: noContent,
		Errors: []Failure{{Status: http.StatusNotFound, When: "There is no batch of that id: the batch has not come yet, or all of its commands have ended."}}},
	{Method: "POST", Path: "/v1/bench", Summary: "Writes batches of packets and times each in the chip.", Bodies: []any{BenchBody{}}, Answers: one(BenchResult{}),
		Errors: []Failure{{Status: http.StatusConflict, When: "A packet was refused, lost, or is of unknown outcome."}, {Status: http.StatusUnprocessableEntity, When: "A value is out of range, or the chip did not start the packets."}}},
	{Method: "GET", Path: "/v1/traces", Summary: "Lists the traced packets that came to the chip, oldest first.", Answers: one([]SightingView{})},
	{Method: "POST", Path: "/v1/traffic", Summary: "Begins a traffic run in this chip, or lets the source of a run send.", Bodies: []any{TrafficStart{}}, Answers: one(OK{}),
		Errors: unprocessable("A value of the run is out of range.")},
	{Method: "GET", Path: "/v1/traffic", Summary: "Returns the report of the traffic run so far.", Answers: one(traffic.Report{}),
		Errors: []Failure{{Status: http.StatusNotFound, When: "No traffic runs in this chip."}}},
	{Method: "DELETE", Path: "/v1/traffic", Summary: "Ends the traffic run.", Answers: one(OK{})},
}

// faultRoutes are the calls that inject faults and report faults.
var faultRoutes = []Route{
	{Method: "GET", Path: "/v1/netem", Summary: "Lists what is done on purpose to the datagrams that each port sends.", Answers: one([]ImpairmentView{})},
	{Method: "PUT", Path: "/v1/netem", Summary: "Impairs what some ports send, or cuts their cables.", Bodies: []any{NetemBody{}}, Answers: one([]ImpairmentView{}),
		Errors: unprocessable("A channel has no cable, an option does not exist, or the body changes nothing.")},
	{Method: "DELETE", Path: "/v1/netem", Summary: "Takes away the impairments of some ports. Cuts stay.",
		Params:  []Param{{Name: "channel", Type: 0, Repeat: true, Max: 255, Doc: "A port, by its ethernet channel; without any, all ports."}},
		Answers: one([]ImpairmentView{}),
		Errors:  []Failure{{Status: http.StatusBadRequest, When: "A channel is not a number."}, {Status: http.StatusUnprocessableEntity, When: "A channel has no cable."}}},
	{Method: "POST", Path: "/v1/faults", Summary: "Writes an event about a fault of a chip that cannot tell of the fault itself.", Bodies: []any{FaultBody{}}, Answers: one(OK{}),
		Errors: unprocessable("The chip is not in this machine, the channel has no cable, or the kind of fault is done to ports.")},
	{Method: "GET", Path: "/v1/gossip", Summary: "Returns what is done on purpose to the chip's gossip, and how its pools fare.", Answers: one(GossipView{}),
		Errors: unprocessable("The chip does not gossip over a network, or has been closed.")},
	{Method: "PUT", Path: "/v1/gossip", Summary: "Impairs the chip's gossip, or cuts it off.", Bodies: []any{GossipBody{}}, Answers: one(GossipView{}),
		Errors: unprocessable("An option does not exist, or the chip does not gossip over a network, or has been closed.")},
	{Method: "DELETE", Path: "/v1/gossip", Summary: "Takes back the cuts of the chip's gossip, and its impairment.",
		Params:  []Param{{Name: "cuts", Type: "", Enum: []string{"only"}, Doc: "With this parameter the impairment stays."}},
		Answers: one(GossipView{}), Errors: unprocessable("The chip does not gossip over a network, or has been closed.")},
}

// operationRoutes are the calls for operators.
var operationRoutes = []Route{
	{Method: "GET", Path: "/v1/router", Summary: "Returns what the router of each port does.", Answers: one([]RouterView{})},
	{Method: "POST", Path: "/v1/router", Summary: "Tells the routers of some ports to resume, pause, drain, retrain or flush.", Bodies: []any{RouterBody{}}, Answers: one([]RouterView{}),
		Errors: unprocessable("A channel has no cable, there is no such action, or a link has no path to train on.")},
	{Method: "PUT", Path: "/v1/service", Summary: "Takes cables out of service, or puts them back into service.", Bodies: []any{ServiceBody{}}, Answers: one(ChipView{}),
		Errors: unprocessable("The chip has no such channel.")},
	{Method: "PUT", Path: "/v1/leaving", Summary: "Lets the chip take no new requests, or take them again.", Bodies: []any{DrainBody{}}, Answers: one(DrainBody{})},
	{Method: "GET", Path: "/v1/gossip/keys", Summary: "Lists the keys that the chip's gossip is encrypted with, by id.", Answers: one([]KeyView{}),
		Errors: unprocessable("The chip's gossip has no keys.")},
	{Method: "PUT", Path: "/v1/gossip/keys", Summary: "Installs, uses or removes a key of the chip's gossip.", Bodies: []any{KeyBody{}}, Answers: one([]KeyView{}),
		Errors: unprocessable("The key or the action makes no sense, the change came too late, or the chip's gossip has no keys.")},
	{Method: "GET", Path: "/v1/capture", Summary: "Streams the datagrams that pass the chip's ports, until the caller leaves or DELETE ends the capture.",
		Params: []Param{{Name: "ports", Type: Channels{}, Doc: "The ports, by ethernet channel; without them, all ports."},
			{Name: "snaplen", Type: 0, Max: MaxSnapLen, Doc: "Bytes kept of each Ethernet frame; 0: all."},
			{Name: "filter", Type: "", Doc: "Which datagrams to take, as 'ttfabric capture --help' explains it; without a filter, all."},
			{Name: "buffer", Type: 0, Doc: "MiB that may wait in the chip; 0: the default."},
			{Name: "keys", Type: false, Doc: "Put the TLS keys of QUIC ports into the capture."},
			{Name: "id", Type: "", Max: MaxID, Doc: "An id for the capture, at most 64 bytes, by which DELETE ends it."}},
		Answers: []Answer{{Status: http.StatusOK, Media: MediaCapture, Doc: "A pcapng file with one interface for each port."}},
		Errors: []Failure{{Status: http.StatusBadRequest, When: "A parameter is out of range, or the filter cannot be read."}, {Status: http.StatusConflict, When: "There is a capture of that id already."},
			{Status: http.StatusUnprocessableEntity, When: "A port has no cable, or as many captures run as the chip takes."}}},
	{Method: "DELETE", Path: "/v1/capture", Summary: "Ends a capture; its reader gets what the chip has taken, and then the end of the file.",
		Params: []Param{{Name: "id", Type: "", Required: true, Doc: "The id that the capture was begun with."}}, Answers: noContent,
		Errors: []Failure{{Status: http.StatusNotFound, When: "There is no such capture."}}},
	{Method: "DELETE", Path: "/v1/recording", Summary: "Ends the recording of the chip's calls.", Answers: one(RecordingView{}),
		Errors: []Failure{{Status: http.StatusConflict, When: "The chip records nothing."}}},
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
