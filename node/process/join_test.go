package process

import (
	"sync"
	"testing"
	"time"
)

// TestJoinGate checks when a chip may join the gossip. The times are arguments.
func TestJoinGate(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	const chips = 2 * joinsAtOnce
	latest := chips * (joinRest + joinPace)
	if small := (&joinGate{chips: joinsAtOnce, launching: func() bool { return true }, begin: begin}); !small.open(begin) {
		t.Errorf("a chip of a fabric of %d chips waits", joinsAtOnce)
	}
	launching := true
	g := &joinGate{chips: chips, launching: func() bool { return launching }, begin: begin}
	if g.open(begin) || g.open(begin.Add(launchPatience)) {
		t.Error("the chip joins during the launch")
	}
	launching = false
	ended := begin.Add(launchPatience)
	if g.open(ended) || g.open(ended.Add(chips*joinRest-1)) {
		t.Error("the chip joins too early after the launch")
	}
	if !g.open(ended.Add(latest)) {
		t.Errorf("the chip does not join %v after the launch", latest)
	}
	endless := &joinGate{chips: chips, launching: func() bool { return true }, begin: begin}
	late := begin.Add(launchPatience + 1)
	if endless.open(late) || !endless.open(late.Add(latest)) {
		t.Error("a launch without an end keeps the chip out for another time than launchPatience")
	}
}

// TestJoinGateOfTwoPools asks from the goroutines of two pools, as an exit node does. The race detector
// finds a gate without a lock. Both pools must be allowed to join at the same moment.
func TestJoinGateOfTwoPools(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	g := &joinGate{chips: 1000, launching: func() bool { return false }, begin: begin}
	var pools sync.WaitGroup
	var joined [2]time.Time
	for p := range joined {
		pools.Go(func() {
			at := begin
			for !g.open(at) {
				at = at.Add(time.Millisecond)
			}
			joined[p] = at
		})
	}
	pools.Wait()
	if !joined[0].Equal(joined[1]) { // the first call, with the time begin, sets the moment for both
		t.Errorf("the pools join at %v and %v", joined[0], joined[1])
	}
}
