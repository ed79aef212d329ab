package fabric

import (
	"context"
	"fmt"
	"io"
	"time"

	"ttfabric/node/fabric/folder"
)

// Hold waits until ctx ends, and then removes the fabric. Meanwhile, Hold writes messages about chips that end
// to out. If another command takes the fabric down, Hold returns.
func (f *Fabric) Hold(ctx context.Context, out io.Writer, exits Exits) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	tell := func(e folder.Exit) {
		_, how := e.How()
		fmt.Fprintf(out, "chip %s has ended %s: %s\n'ttfabric up -d' or 'ttfabric chip start %s' starts the chip again.\n", e.Chip, how, f.LastWords(e.Chip), e.Chip)
	}
	var stopped []folder.Exit // chips that ended with exit code 0; perhaps 'down' stopped them, so the command waits before it reports them
	var since time.Time       // time at which the first chip in stopped ended
	for {
		select {
		case e := <-exits:
			if e.Err != nil {
				tell(e)
				continue
			}
			if len(stopped) == 0 {
				since = time.Now()
			}
			stopped = append(stopped, e)
		case <-tick.C:
			if f.Gone() {
				fmt.Fprintln(out, "Another command has taken the fabric down.")
				return nil
			}
			if time.Since(since) > folder.StopTime { // 'down' would have removed the run folder by now
				for _, e := range stopped {
					tell(e)
				}
				stopped = nil
			}
		case <-ctx.Done():
			fmt.Fprintln(out, "Stopping.")
			return f.Remove()
		}
	}
}
