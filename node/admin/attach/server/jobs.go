package server

import (
	"cmp"
	"context"
	"encoding/json"

	"ttfabric/node/admin/attach"
	"ttfabric/node/kernel"
)

// stranger is the name of a local program that does not say who it is.
const stranger = "a local program"

// startJob starts the chip's part of a job. The job ends with the connection.
func (c *client) startJob(number uint64, body []byte) {
	var j kernel.Job
	if err := json.Unmarshal(body, &j); err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	if len(c.jobs) >= kernel.MaxJobs {
		c.forgetJobs()
	}
	if err := c.s.n.StartJob(j); err != nil {
		c.refuse(number, codeOf(err), err.Error())
		return
	}
	c.jobs[j.ID] = cmp.Or(j.Owner, stranger)
	c.reply(number, attach.KindJob+attach.Answer, nil)
}

// forgetJobs forgets the client's jobs that do not run any more.
func (c *client) forgetJobs() {
	runs := map[kernel.JobID]bool{}
	for _, j := range c.s.n.Jobs() {
		runs[j.Job] = true
	}
	for id := range c.jobs {
		if !runs[id] {
			delete(c.jobs, id)
		}
	}
}

// endJobs ends the client's jobs that still run, because the client has gone. If the chip shuts down, its
// jobs end for that reason instead.
func (c *client) endJobs() {
	c.s.mu.Lock()
	closed := c.s.closed
	c.s.mu.Unlock()
	if closed {
		return
	}
	for id, owner := range c.jobs {
		_ = c.s.n.EndOfRank(id, owner) // most jobs have ended
	}
}

// stopJob stops a job.
func (c *client) stopJob(number uint64, body []byte) {
	s, err := attach.ParseStop(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	if err := c.s.n.EndJob(s.Job, s.Text); err != nil {
		c.refuse(number, codeOf(err), err.Error())
		return
	}
	c.reply(number, attach.KindStop+attach.Answer, nil)
}

// waitJob answers when a job has ended.
func (c *client) waitJob(number uint64, body []byte) {
	id, err := attach.ParseEnd(body)
	if err != nil {
		c.refuse(number, attach.CodeBad, err.Error())
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	if !c.open(number, func() bool { cancel(); return false }) {
		cancel()
		return
	}
	c.s.ended.Go(func() {
		defer cancel()
		end, err := c.s.n.WaitJob(ctx, id)
		c.shut(number, func(b []byte) []byte {
			switch {
			case ctx.Err() != nil:
				return attach.AppendError(b, number, attach.CodeCancelled, "the client cancelled the request")
			case err != nil:
				return attach.AppendError(b, number, codeOf(err), err.Error())
			}
			text, _ := json.Marshal(end)
			return append(attach.AppendHead(b, attach.KindEnd+attach.Answer, number, len(text)), text...)
		})
	})
}
