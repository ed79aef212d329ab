package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ttfabric/node/kernel"
	"ttfabric/node/model"
	"ttfabric/node/model/control"
	"ttfabric/ttlink/fault"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// maxSpeed is the largest speed other than "max".
const maxSpeed = 1000

// serve answers commands at the model's socket, until the socket is closed.
func (x *Model) serve(l net.Listener, kernels kernel.Table) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+control.Path, func(w http.ResponseWriter, r *http.Request) {
		var b control.Body
		err := json.NewDecoder(io.LimitReader(r.Body, control.MaxBody)).Decode(&b)
		var reply control.Answer
		if err == nil {
			reply, err = x.do(r.Context(), b.Words, kernels)
		}
		if err != nil {
			var u *control.UsageError
			reply.Error, reply.Usage = err.Error(), errors.As(err, &u)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply) // the caller may have gone
	})
	s := http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	_ = s.Serve(l) // ends when the listener is closed
}

// usage returns the error of a command with wrong words.
func usage(format string, args ...any) error {
	return &control.UsageError{Text: fmt.Sprintf(format, args...)}
}

// do carries out a command.
func (x *Model) do(ctx context.Context, words []string, kernels kernel.Table) (r control.Answer, err error) {
	verb, args := "status", words
	if len(words) > 0 {
		verb, args = words[0], words[1:]
	}
	switch verb {
	case "status", "stop":
		if len(args) > 0 {
			return r, usage("%s: want no further words", verb)
		}
		x.mu.Lock()
		if verb == "stop" {
			x.stop()
		}
		x.mu.Unlock()
	case "run":
		err = x.doRun(ctx, args)
	case "step":
		err = x.doStep(ctx, args)
	case "speed":
		err = x.doSpeed(args)
	case "back":
		err = x.doBack(ctx, args, kernels)
	case "break":
		err = x.doBreak(args)
	case "snapshot":
		r.Snapshot, err = x.snapshot(args)
	case fault.KindKilled.String(), fault.KindPaused.String(), fault.KindResumed.String(), fault.KindRemoved.String(), "started":
		err = x.doChips(ctx, verb, args, kernels)
	default:
		err = usage("%q: want status, run, stop, step, speed, back, break or snapshot", verb)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	r.State = x.state()
	if !x.running {
		r.Hit = x.hit
	}
	return r, err
}

// doRun carries out "run" and "run until CONDITION".
func (x *Model) doRun(ctx context.Context, args []string) error {
	if len(args) == 0 {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.failed != nil {
			return x.failed
		}
		x.m.Until(nil)
		x.start(x.speed, mono.Never, 0)
		return nil
	}
	if args[0] != "until" {
		return usage("run %s: want run, or run until CONDITION", strings.Join(args, " "))
	}
	c, err := model.ParseCondition(x.topo, args[1:])
	if err != nil {
		return usage("%v", err)
	}
	x.mu.Lock()
	if x.failed != nil {
		x.mu.Unlock()
		return x.failed
	}
	if hit := x.m.Until(c); hit != nil {
		x.stop()
		x.hit = hit
		x.mu.Unlock()
		return nil
	}
	x.start(x.speed, mono.Never, 0)
	return x.wait(ctx)
}

// wait waits until the model stops, or ctx ends. The model then stops. The caller holds the lock, which wait frees.
func (x *Model) wait(ctx context.Context) error {
	ended := x.ended
	x.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
		x.mu.Lock()
		x.stop()
		x.mu.Unlock()
		return ctx.Err()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failed
}

// doStep carries out "step", "step N" and "step DURATION".
func (x *Model) doStep(ctx context.Context, args []string) error {
	events, d := 1, time.Duration(0)
	if len(args) > 0 {
		var err error
		if events, err = strconv.Atoi(args[0]); err != nil {
			events = 0
			d, err = time.ParseDuration(args[0])
		}
		if err != nil || len(args) > 2 || len(args) == 2 && (args[1] != "events" || events == 0) || events < 0 || events == 0 && d <= 0 {
			return usage("step %s: want step, step N (events), or step and a duration, such as step 20us", strings.Join(args, " "))
		}
	}
	x.mu.Lock()
	if x.failed != nil {
		x.mu.Unlock()
		return x.failed
	}
	x.stop()
	speed, until := x.speed, mono.Never
	if d > 0 {
		until = x.m.Now().Add(d)
	}
	x.start(0, until, events)
	err := x.wait(ctx)
	x.mu.Lock()
	x.speed = speed
	x.mu.Unlock()
	return err
}

// doSpeed carries out "speed".
func (x *Model) doSpeed(args []string) error {
	v := 0.0
	if len(args) != 1 || args[0] != "max" {
		var err error
		if len(args) == 1 {
			v, err = strconv.ParseFloat(args[0], 64)
		}
		if len(args) != 1 || err != nil || !(v > 0 && v <= maxSpeed) || math.IsNaN(v) {
			return usage("speed %s: want virtual seconds for each second of the wall clock, at most %d, or max", strings.Join(args, " "), maxSpeed)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.speed, x.from, x.since = v, x.m.Now(), time.Now()
	x.poke()
	return nil
}

// doBreak carries out "break add", "break list" and "break delete".
func (x *Model) doBreak(args []string) error {
	verb := "list"
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch {
	case verb == "list" && len(args) == 0:
		return nil
	case verb == "add":
		c, err := model.ParseCondition(x.topo, args)
		if err != nil {
			return usage("%v", err)
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		_, err = x.m.Break(c)
		return err
	case verb == "delete" && len(args) == 1:
		x.mu.Lock()
		defer x.mu.Unlock()
		if err := x.m.Delete(args[0]); err != nil {
			return usage("%v", err)
		}
		return nil
	}
	return usage("break %s: want break add CONDITION, break list, or break delete with a number or all", verb)
}

// doBack carries out "back", "back DURATION" and "back to DURATION". The model stands still afterwards.
func (x *Model) doBack(ctx context.Context, args []string, kernels kernel.Table) error {
	want := usage("back %s: want back, back DURATION, or back to and a virtual time, such as back to 20ms", strings.Join(args, " "))
	to := len(args) == 2 && args[0] == "to"
	if to {
		args = args[1:]
	}
	if len(args) > 1 || to && len(args) == 0 {
		return want
	}
	x.mu.Lock()
	x.stop()
	at := x.m.Begin()
	if len(args) == 1 {
		d, err := time.ParseDuration(args[0])
		if err != nil || d < 0 {
			x.mu.Unlock()
			return want
		}
		if at = x.m.Now().Add(-d); to {
			at = x.m.Begin().Add(d)
		}
	}
	if at > x.m.Now() {
		x.mu.Unlock()
		return usage("back to %v: the model has not come so far; 'run until time' goes on", at.Sub(x.m.Begin()))
	}
	if x.failed != nil {
		x.mu.Unlock()
		return x.failed
	}
	err := x.m.Back(at)
	x.now.Store(int64(x.m.Now()))
	x.late, x.hit = nil, nil
	var died, born []*seat
	for _, s := range x.seats {
		switch alive := x.m.Chip(s.i) != nil; {
		case s.n != nil && alive:
			s.n.Hosted().Rewind()
		case alive:
			born = append(born, s)
		case s.n != nil:
			died = append(died, s)
		}
	}
	x.mu.Unlock()
	for _, s := range died {
		s.close()
	}
	for _, s := range born {
		err = errors.Join(err, s.open(context.WithoutCancel(ctx), kernels))
	}
	return err
}

// snapshot returns the state of the fabric at this instant. The words "memory" and "payload" add these.
func (x *Model) snapshot(args []string) (json.RawMessage, error) {
	payload, memory := false, false
	for _, a := range args {
		switch a {
		case "payload":
			payload = true
		case "memory":
			memory = true
		default:
			return nil, usage("snapshot %q: want payload or memory", a)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.m.Snapshot(payload, memory).Encode()
}

// doChips kills, pauses, resumes, removes or starts chips. The verbs are those of [fault.Kind].
func (x *Model) doChips(ctx context.Context, verb string, args []string, kernels kernel.Table) error {
	for _, a := range args {
		id, err := wire.ParseFabricNodeID(a)
		if _, ok := x.topo.Chip(id); err != nil || !ok {
			return usage("%q is no chip of %s", a, x.topo)
		}
		s := x.seats[x.topo.Index(id)]
		x.mu.Lock()
		alive := x.m.Chip(s.i) != nil
		switch verb {
		case fault.KindPaused.String():
			x.m.Pause(s.i, true)
		case fault.KindResumed.String():
			x.m.Pause(s.i, false)
		case "started":
			if !alive {
				x.m.Start(s.i)
			}
		default:
			if alive {
				x.m.Pause(s.i, false)
				x.m.End(s.i, verb == fault.KindRemoved.String())
			}
		}
		x.poke()
		x.mu.Unlock()
		switch {
		case verb == "started" && !alive:
			err = s.open(context.WithoutCancel(ctx), kernels)
		case verb == fault.KindKilled.String(), verb == fault.KindRemoved.String():
			s.close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
