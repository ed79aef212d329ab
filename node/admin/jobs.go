package admin

import (
	"fmt"
	"net/http"
	"strconv"

	"ttfabric/node/admin/api"
	"ttfabric/node/firmware"
	"ttfabric/node/kernel"
)

// jobs lists the chip's kernels and jobs.
func (s *Server) jobs(w http.ResponseWriter, _ *http.Request) {
	v := api.JobsView{Kernels: s.n.Kernels(), Jobs: s.n.Jobs()}
	answer(w, v)
}

// host lists the base firmware's queues and counters of the chip's ethernet tiles.
func (s *Server) host(w http.ResponseWriter, _ *http.Request) {
	answer(w, s.n.HostQueues())
}

// startJob starts the chip's part of a job.
func (s *Server) startJob(w http.ResponseWriter, r *http.Request) {
	var j kernel.Job
	if err := decode(r, &j); err != nil {
		badBody(w, err)
		return
	}
	if err := s.n.StartJob(j); err != nil {
		problem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// jobID reads the query parameter "id". If the parameter is wrong, jobID answers and returns false.
func jobID(w http.ResponseWriter, r *http.Request) (kernel.JobID, bool) {
	id, err := strconv.ParseUint(r.URL.Query().Get("id"), 10, 64)
	if err != nil {
		problem(w, http.StatusBadRequest, fmt.Sprintf("id %q: want the number of a job", r.URL.Query().Get("id")))
	}
	return kernel.JobID(id), err == nil
}

// waitJob answers when a job has ended. If the caller is the job's owner and goes away first, waitJob ends
// the job.
func (s *Server) waitJob(w http.ResponseWriter, r *http.Request) {
	id, ok := jobID(w, r)
	if !ok {
		return
	}
	end, err := s.n.WaitJob(r.Context(), id)
	switch {
	case err == nil:
		answer(w, end)
	case r.Context().Err() != nil: // the caller has gone
		if owner := r.URL.Query().Get("owner"); owner != "" && !s.closing.Load() {
			_ = s.n.EndOfRank(id, owner[:min(len(owner), kernel.MaxOwner)]) // the job may have ended meanwhile
		}
	default:
		problem(w, http.StatusNotFound, err.Error())
	}
}

// stopJob stops a job.
func (s *Server) stopJob(w http.ResponseWriter, r *http.Request) {
	id, ok := jobID(w, r)
	if !ok {
		return
	}
	text := r.URL.Query().Get("text")
	if err := s.n.EndJob(id, text[:min(len(text), api.MaxID)]); err != nil {
		problem(w, http.StatusNotFound, err.Error())
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// firmwareEvent writes an event of the base firmware into v.
func firmwareEvent(v *api.EventView, e *firmware.Event) {
	v.Type, v.Action = "host request", "refused"
	if e.Unreachable() {
		v.Action = "unreachable"
	}
	v.Detail["channel"], v.Detail["why"], v.Detail["request"], v.Detail["flags"] = fmt.Sprint(e.Channel), e.Why, e.Request, fmt.Sprintf("%#x", uint32(e.Flags))
	v.Detail["text"] = e.String()
}

// kernelEvent writes an event of a job into v.
func kernelEvent(v *api.EventView, e *kernel.Event) {
	v.Type, v.Action = "job", [...]string{"", "started", "ended", "violation", "stop ignored", "prints"}[min(int(e.Kind), 5)]
	v.Detail["job"] = fmt.Sprint(e.Job)
	if e.Name != "" {
		v.Detail["name"] = e.Name
	}
	if e.Kernel != "" {
		v.Detail["kernel"] = e.Kernel
	}
	switch e.Kind {
	case kernel.JobEnded:
		v.Detail["why"], v.Detail["by"] = e.End.Why.String(), e.End.By.String()
		if e.End.Kernel != "" {
			v.Detail["kernel"] = e.End.Kernel
		}
		if e.End.Text != "" {
			v.Detail["text"] = e.End.Text
		}
	case kernel.Violated:
		v.Detail["text"] = e.Violation.String()
	case kernel.KernelPrints:
		v.Detail["text"] = e.Text
	}
}
