package admin

import (
	"errors"
	"io"
	"net/http"

	"ttfabric/node"
	"ttfabric/node/admin/api"
)

// saveMemory answers with an image of the chip's memory.
func (s *Server) saveMemory(w http.ResponseWriter, r *http.Request) {
	if !s.imaging.take(w, "memory images") {
		return
	}
	defer s.imaging.leave()
	w.Header().Set("Content-Type", api.MediaImage)
	out := &imageWriter{ResponseWriter: w}
	if _, err := s.n.SaveMemory(r.Context(), out); err != nil {
		if out.any { // without the last block, the caller knows that the image is incomplete
			panic(http.ErrAbortHandler)
		}
		problem(w, http.StatusServiceUnavailable, err.Error())
	}
}

// imageWriter notes whether any byte of an answer was written.
type imageWriter struct {
	http.ResponseWriter
	any bool
}

// Write implements io.Writer.
func (b *imageWriter) Write(p []byte) (int, error) {
	b.any = true
	return b.ResponseWriter.Write(p)
}

// restoreMemory replaces the chip's memory by the image in the body.
func (s *Server) restoreMemory(w http.ResponseWriter, r *http.Request) {
	if !s.imaging.take(w, "memory images") {
		return
	}
	defer s.imaging.leave()
	sum, err := s.n.RestoreMemory(r.Context(), r.Body)
	_, _ = io.Copy(io.Discard, r.Body) // a caller who still sends reads the answer only afterwards
	switch {
	case err == nil:
		answer(w, sum)
	case errors.Is(err, node.ErrClosed):
		problem(w, http.StatusServiceUnavailable, err.Error())
	case errors.As(err, new(*node.BusyError)):
		problem(w, http.StatusConflict, err.Error())
	default:
		problem(w, http.StatusUnprocessableEntity, err.Error())
	}
}
