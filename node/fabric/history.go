package fabric

import (
	"encoding/json"

	"ttfabric/node/admin/api"
	"ttfabric/node/archive"
	"ttfabric/wire"
)

// History calls the function f for each event in the folder of an event archive, in the
// order of time. History leaves out chips for which the function "want" returns false. The
// events of one chip keep their order even if the chip's clock was set back. No chip needs
// to run. The result counts the parts of the archive that History skipped. History returns
// an error if the folder cannot be read.
func History(dir string, want func(wire.FabricNodeID) bool, f func(api.EventView)) (archive.Skipped, error) {
	var skipped archive.Skipped
	names, err := archive.Names(dir)
	if err != nil {
		return skipped, err
	}
	var heads []*history
	for _, name := range names {
		n, err := wire.ParseFabricNodeID(name)
		if err != nil || !want(n) {
			continue
		}
		r, err := archive.Read(dir, name)
		if err != nil {
			return skipped, err
		}
		if h := (&history{r: r}); h.next() {
			heads = append(heads, h)
		} else {
			h.count(&skipped)
		}
	}
	for len(heads) > 0 {
		first := 0
		for i, h := range heads {
			if h.e.Time.Before(heads[first].e.Time) {
				first = i
			}
		}
		h := heads[first]
		f(h.e)
		if !h.next() {
			h.count(&skipped)
			heads = append(heads[:first], heads[first+1:]...)
		}
	}
	return skipped, nil
}

// history reads one chip's part of an event archive.
type history struct {
	r   *archive.Reader
	e   api.EventView
	bad int // number of lines that are no event
}

// next reads the next event into h.e. next returns false if there are no more events.
func (h *history) next() bool {
	for b, ok := h.r.Next(); ok; b, ok = h.r.Next() {
		h.e = api.EventView{}
		if json.Unmarshal(b, &h.e) == nil && h.e.Type != "" {
			return true
		}
		h.bad++
	}
	return false
}

func (h *history) count(s *archive.Skipped) {
	k := h.r.Skipped()
	s.Torn += k.Torn
	s.Damaged += k.Damaged + h.bad
}
