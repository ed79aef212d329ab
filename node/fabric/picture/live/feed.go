// Package live keeps a picture of a running fabric. A [Collector] asks the chips once a second while
// at least one subscriber watches, however many subscribers there are. A [Feed] hands each state and
// each event to all subscribers.
package live

import (
	"encoding/json"
	"errors"
	"sync"

	"ttfabric/node/fabric/picture"
)

// Limits of a feed.
const (
	MaxSubscribers = 32                     // subscribers at once
	maxQueue       = 2 * picture.KeptEvents // largest number of updates that wait for one subscriber; the feed cuts off a slower subscriber; all past events of a fabric come at once
)

// ErrFull says that a feed has as many subscribers as it may have.
var ErrFull = errors.New("there are as many viewers as there may be at once: 32; close another page first")

// Update is a new state or a new event. All subscribers share the update, and must not change it.
type Update struct {
	State   *picture.State   // the new state; nil: the update is an event
	Changes *picture.Changes // what differs from the state before
	Event   *picture.Event

	once sync.Once
	text []byte
}

// JSON returns the changes or the event as JSON. The first call encodes them for all subscribers.
func (u *Update) JSON() []byte {
	u.once.Do(func() {
		if u.Event != nil {
			u.text, _ = json.Marshal(u.Event)
		} else {
			u.text, _ = json.Marshal(u.Changes)
		}
	})
	return u.text
}

// Feed hands updates to subscribers. The zero value has no subscribers.
type Feed struct {
	mu   sync.Mutex
	subs map[chan *Update]bool
	wake chan struct{}
}

// NewFeed returns a feed without subscribers.
func NewFeed() *Feed {
	return &Feed{subs: map[chan *Update]bool{}, wake: make(chan struct{}, 1)}
}

// Subscribe returns a channel with all updates from now on. The feed closes the channel if the
// subscriber is too slow. The subscriber must call leave at its end. If there are too many
// subscribers, the error is [ErrFull].
func (f *Feed) Subscribe() (updates <-chan *Update, leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.subs) >= MaxSubscribers {
		return nil, nil, ErrFull
	}
	ch := make(chan *Update, maxQueue)
	f.subs[ch] = true
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return ch, func() { f.drop(ch) }, nil
}

func (f *Feed) drop(ch chan *Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subs[ch] {
		delete(f.subs, ch)
		close(ch)
	}
}

// Publish hands an update to all subscribers, and does not wait for any of them.
func (f *Feed) Publish(u *Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.subs {
		select {
		case ch <- u:
		default: // the subscriber is too slow
			delete(f.subs, ch)
			close(ch)
		}
	}
}

// Watched reports whether the feed has a subscriber.
func (f *Feed) Watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.subs) > 0
}

// Wake returns a channel that receives a value when a subscriber comes.
func (f *Feed) Wake() <-chan struct{} { return f.wake }
