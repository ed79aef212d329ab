package top

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"

	"ttfabric/node/fabric/picture/live"
	"ttfabric/node/output/screen"
)

// Options say what [Run] shows.
type Options struct {
	Order string // one of Orders
	Once  bool   // show one screen with rates, and end
	Out   io.Writer
	Warn  func(format string, a ...any)
}

// onceStates is the number of states after which [Options.Once] shows the screen: rates need two.
const onceStates = 2

// Control sequences of a terminal: begin shows the alternate screen without a cursor, home clears the
// screen, and end shows the first screen again.
const (
	begin = "\x1b[?1049h\x1b[?25l"
	home  = "\x1b[H\x1b[2J"
	end   = "\x1b[?25h\x1b[?1049l"
)

// Run shows the fabric of a collector until ctx ends or the fabric is taken down. If the output is no
// terminal, Run shows one screen without colours, and ends.
func Run(ctx context.Context, c *live.Collector, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates, leave, err := c.Subscribe()
	if err != nil {
		return err
	}
	defer func() { leave() }()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, o.Warn) }()
	terminal := screen.Terminal(o.Out)
	once := o.Once || !terminal
	v := View{Machine: c.Machine(), Order: o.Order, Colour: terminal && os.Getenv("NO_COLOR") == ""}
	if !once {
		io.WriteString(o.Out, begin)
		defer io.WriteString(o.Out, end)
	}
	for {
		select {
		case u, ok := <-updates:
			if !ok { // this program was too slow, for example because it was stopped
				if updates, leave, err = c.Subscribe(); err != nil {
					return err
				}
				continue
			}
			if u.State == nil {
				continue
			}
			v.State, v.Events = u.State, c.Events()
			v.Loads.Add(u.State)
			if v.Width, v.Height = size(o.Out); once && u.State.Seq < onceStates {
				continue
			}
			if once {
				v.Height = max(v.Height, len(u.State.Cables)+len(u.State.Chips)+20)
				_, err := io.WriteString(o.Out, v.String())
				return err
			}
			if _, err := io.WriteString(o.Out, home+v.String()); err != nil {
				return err
			}
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// size returns the columns and rows of a terminal. Without a terminal, size returns no limits.
func size(w io.Writer) (width, height int) {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0, 0
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}
