package live

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric"
	"ttfabric/node/fabric/picture"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo/pick"
	"ttfabric/wire"
)

// answer is an answer of chips that all viewers share for a short time.
type answer[T any] struct {
	mu    sync.Mutex
	at    time.Time
	value T
}

// get returns the value, or asks anew if the value is older than detailEvery. While one caller asks,
// other callers wait for the same answer.
func (a *answer[T]) get(ask func() (T, error)) (T, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.at) < detailEvery {
		return a.value, nil
	}
	v, err := ask()
	if err == nil {
		a.value, a.at = v, time.Now()
	}
	return v, err
}

// chip returns the fabric as last opened, and the address of a chip of the fabric.
func (c *Collector) chip(name string) (*fabric.Fabric, wire.FabricNodeID, error) {
	c.mu.Lock()
	fab := c.fab
	c.mu.Unlock()
	n, err := wire.ParseFabricNodeID(name)
	if err != nil {
		return fab, n, spec.AsUsage(err)
	}
	if c.m.Chip(n) < 0 {
		return fab, n, spec.Usagef("chip %s is not in topology %s", n, fab.Topology.Name)
	}
	return fab, n, nil
}

// Chip returns a chip with the channels of its routers. Viewers of one chip share the answer.
func (c *Collector) Chip(ctx context.Context, name string) (d picture.ChipDetail, err error) {
	fab, n, err := c.chip(name)
	if err != nil {
		return d, err
	}
	c.mu.Lock()
	a := c.details[n]
	if a == nil {
		a = &answer[picture.ChipDetail]{}
		c.details[n] = a
	}
	c.mu.Unlock()
	return a.get(func() (d picture.ChipDetail, err error) {
		cl, err := fab.Client(n)
		if err != nil {
			return d, err
		}
		defer cl.Close()
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		v, err := cl.Chip(ctx)
		if err != nil {
			return d, err
		}
		held, err := cl.RouterChannels(ctx)
		if err != nil {
			return d, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.pic.Detail(time.Now(), &v, held, c.sizes), nil
	})
}

// Losses returns the balance of all packets. Viewers share the answer.
func (c *Collector) Losses(ctx context.Context) (fabric.Balance, error) {
	return c.balance.get(func() (b fabric.Balance, err error) {
		c.mu.Lock()
		fab := c.fab
		c.mu.Unlock()
		cs, missing, err := fab.Clients()
		if err != nil {
			return b, err
		}
		defer func() {
			for _, cl := range cs {
				cl.Close()
			}
		}()
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return fabric.Losses(ctx, cs, missing, 0), nil
	})
}

// Route returns the route of requests between two chips by the present tables, according to the latest answers of
// the chips. If "all" is true, Route returns the tree of a multicast, see [picture.Machine.Tree]. Route sends no
// packet.
func (c *Collector) Route(src, dst string, plane int, all bool) (r picture.Route, err error) {
	fab, a, err := c.chip(src)
	if err != nil {
		return r, err
	}
	_, b, err := c.chip(dst)
	if err != nil {
		return r, err
	}
	pl, err := spec.Plane(fab.Topology, plane)
	if err != nil {
		return r, spec.Usagef("plane %d: want 0 to %d", plane, max(c.m.Planes, 1)-1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if out := c.pic.OutOfService(); !slices.Equal(out, c.out) {
		c.around, c.out = c.plan.Around(out), out
	}
	if all {
		return c.m.Tree(c.around, a, b, pl), nil
	}
	return c.m.Route(c.around, a, b, pl), nil
}

// Action is a fault that a viewer injects or ends.
type Action struct {
	Do      string            `json:"do"`                // one of [Actions]
	Chip    string            `json:"chip,omitempty"`    // for pause, resume, kill and start
	Cable   string            `json:"cable,omitempty"`   // for cut, restore, impair and clear: a name of cables as in commands, such as M0D0-M0D1
	Options map[string]string `json:"options,omitempty"` // for impair: the impairments, such as {"loss":"1%"}
}

// Actions are the words of [Action].Do.
var Actions = []string{"cut", "restore", "impair", "clear", "pause", "resume", "kill", "start", "heal"}

// actionTime is the longest time of an action.
const actionTime = 20 * time.Second

// Do carries out an action, and returns in one line what it did.
func (c *Collector) Do(ctx context.Context, a Action) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, actionTime)
	defer cancel()
	fab, err := c.open()
	if err != nil {
		return "", err
	}
	switch a.Do {
	case "cut", "restore", "impair", "clear":
		return c.onCable(ctx, fab, a)
	case "pause", "resume", "kill", "start":
		return c.onChip(ctx, fab, a)
	case "heal":
		return heal(ctx, fab)
	}
	return "", spec.Usagef("action %q: want one of %v", a.Do, Actions)
}

func (c *Collector) onCable(ctx context.Context, fab *fabric.Fabric, a Action) (string, error) {
	links, err := pick.Links(fab.Topology, []string{a.Cable})
	if err != nil {
		return "", spec.AsUsage(err)
	}
	s, err := fab.Chips()
	if err != nil {
		return "", err
	}
	defer closeAll(s)
	where, _ := spec.Ends(links, "both")
	done := ""
	switch a.Do {
	case "cut":
		done = "cut"
		_, err = s.Cut(ctx, links, true, 0)
	case "restore":
		done = "put back"
		_, err = s.Cut(ctx, links, false, 0)
	case "clear":
		done = "no longer impaired"
		_, err = s.ResetImpairments(ctx, where)
	case "impair":
		done = "impaired"
		if len(a.Options) == 0 {
			return "", spec.Usagef("no impairment is named; want options such as {\"loss\":\"1%%\"}")
		}
		_, err = s.Impair(ctx, where, api.NetemBody{Options: a.Options})
	}
	if err != nil {
		return "", err
	}
	names := make([]string, len(links))
	for i, l := range links {
		names[i] = l.String()
	}
	return fmt.Sprintf("%s: %s", done, joined(names)), nil
}

func (c *Collector) onChip(ctx context.Context, fab *fabric.Fabric, a Action) (string, error) {
	_, n, err := c.chip(a.Chip)
	if err != nil {
		return "", err
	}
	done := ""
	switch a.Do {
	case "pause":
		done, err = "paused", fab.PauseChip(ctx, n)
	case "resume":
		done, err = "resumed", fab.ResumeChip(ctx, n)
	case "kill":
		done, err = "killed", fab.KillChip(ctx, n)
	case "start":
		done, err = "started", fab.StartChip(ctx, n, spec.Records{})
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("chip %s %s", n, done), nil
}

// heal ends the disturbances that commands began on purpose; see [fabric.Chips.Heal].
func heal(ctx context.Context, fab *fabric.Fabric) (string, error) {
	s, err := fab.Chips()
	if err != nil {
		return "", err
	}
	defer closeAll(s)
	h, err := s.Heal(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("healed: %d cables put back, %d back in service, %d routers resumed", len(h.Cables), len(h.Service), len(h.Routers))
	for _, l := range h.Left {
		text += "; left: " + l
	}
	return text, nil
}

func closeAll(s *fabric.Chips) {
	for _, cl := range s.Clients() {
		cl.Close()
	}
}

// joined joins names with commas. Of many names, joined returns the first and the number of the others.
func joined(names []string) string {
	const most = 8
	text := ""
	for i, n := range names {
		switch {
		case i == most:
			return fmt.Sprintf("%s and %d more", text, len(names)-most)
		case i > 0:
			text += ", "
		}
		text += n
	}
	return text
}
