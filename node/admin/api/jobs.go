package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"ttfabric/node/firmware"
	"ttfabric/node/kernel"
)

// jobLimit is the longest time that StartJob and EndJob wait for the chip's answer. A process that is paused
// gives no answer. The value is our own choice.
const jobLimit = 10 * time.Second

// JobsView lists the kernels that a chip can run, and the jobs that run on the chip.
type JobsView struct {
	Kernels []string         `json:"kernels"` // names of the kernels that the chip can run
	Jobs    []kernel.Running `json:"jobs"`    // jobs that run on the chip
}

// jobRoutes are the calls for jobs of kernels.
var jobRoutes = []Route{
	{Method: "GET", Path: "/v1/jobs", Summary: "Lists the kernels that the chip can run, and the jobs that run on the chip.", Answers: one(JobsView{})},
	{Method: "POST", Path: "/v1/jobs", Summary: "Starts the chip's part of a job of kernels.", Bodies: []any{kernel.Job{}}, Answers: noContent,
		Errors: unprocessable("The chip has no such kernel or tile, a range belongs to another job, or too many jobs run.")},
	{Method: "GET", Path: "/v1/jobs/end", Summary: "Waits until a job has ended on the chip, and returns how.", Params: []Param{jobParam, {Name: "owner", Type: "", Max: kernel.MaxOwner, Doc: "The name of the program that started the chip's part of the job, such as \"rank 3\", at most 64 bytes. If the caller goes away before the job has ended, the chip ends the job on all its chips, and the reports of these chips say that this rank died."}}, Answers: one(kernel.End{}),
		Errors: []Failure{{Status: http.StatusBadRequest, When: "The number of the job is wrong."}, {Status: http.StatusNotFound, When: "The job does not run, and is not among the last jobs that ended."}}},
	{Method: "DELETE", Path: "/v1/jobs", Summary: "Stops a job on all its chips.", Params: []Param{jobParam, {Name: "text", Type: "", Max: MaxID, Doc: "Why the job is stopped, at most 64 bytes. The reports of the job's chips show the text."}}, Answers: noContent,
		Errors: []Failure{{Status: http.StatusBadRequest, When: "The number of the job is wrong."}, {Status: http.StatusNotFound, When: "The job does not run on this chip."}}},
}

// hostRoutes are the calls for hosts.
var hostRoutes = []Route{
	{Method: "GET", Path: "/v1/host", Summary: "Lists the base firmware's queues and counters of the chip's ethernet tiles. Chips of the architecture Blackhole have none.", Answers: one([]firmware.Tile{})},
}

// HostTiles lists the base firmware's queues and counters of the chip's ethernet tiles, by channel.
func (c *Client) HostTiles(ctx context.Context) (v []firmware.Tile, err error) {
	return v, c.call(ctx, "GET", "/v1/host", nil, &v)
}

var jobParam = Param{Name: "id", Type: uint64(0), Required: true, Doc: "The number of the job."}

// Jobs lists the kernels that the chip can run, and the jobs that run on the chip.
func (c *Client) Jobs(ctx context.Context) (v JobsView, err error) {
	return v, c.call(ctx, "GET", "/v1/jobs", nil, &v)
}

// Own sets the name of the program for reports about its jobs, such as "rank 3". The jobs that the program
// starts and waits for then end with the program. Own must be called before the first job.
func (c *Client) Own(name string) { c.owner = name }

// StartJob starts the chip's part of a job, see [session.Runner]. If the job names no owner,
// StartJob sets the owner to the name from [Client.Own].
func (c *Client) StartJob(j kernel.Job) error {
	if j.Owner == "" {
		j.Owner = c.owner
	}
	return c.callWithin(c.limit, "POST", "/v1/jobs", j)
}

// EndJob stops a job on all its chips, see [session.Runner].
func (c *Client) EndJob(id kernel.JobID, text string) error {
	return c.callWithin(c.limit, "DELETE", fmt.Sprintf("/v1/jobs?id=%d&text=%s", id, url.QueryEscape(text[:min(len(text), MaxID)])), nil)
}

// callWithin makes a call without a result, and waits at most for the time "limit".
func (c *Client) callWithin(limit time.Duration, method, path string, body any) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return c.call(ctx, method, path, body, nil)
}

// WaitJob waits until a job has ended on the chip, see [session.Runner].
func (c *Client) WaitJob(ctx context.Context, id kernel.JobID) (e kernel.End, err error) {
	path := fmt.Sprintf("/v1/jobs/end?id=%d", id)
	if c.owner != "" {
		path += "&owner=" + url.QueryEscape(c.owner)
	}
	return e, c.call(ctx, "GET", path, nil, &e)
}
