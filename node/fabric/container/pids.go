package container

import (
	"context"
	"fmt"
	"strings"

	"ttfabric/wire"
)

// PIDs fills the map named "where" with the process id of each running chip of a fabric of
// containers. The process id is that of the first process in the chip's container, as this
// machine numbers processes.
func PIDs(ctx context.Context, fabric string, where map[wire.FabricNodeID]string) error {
	failed := func(err error) error {
		return fmt.Errorf("cannot ask Docker for the containers' processes: %w; name the process id of a chip with --netns", err)
	}
	out, err := docker(ctx, "ps", "-q", "--no-trunc", "--filter", "label="+labelFabric+"="+fabric)
	if err != nil {
		return failed(err)
	}
	ids := strings.Fields(string(out))
	if len(ids) == 0 {
		return nil
	}
	if out, err = docker(ctx, append([]string{"inspect", "-f", `{{index .Config.Labels "` + labelChip + `"}} {{.State.Pid}}`}, ids...)...); err != nil {
		return failed(err)
	}
	for words := strings.Fields(string(out)); len(words) >= 2; words = words[2:] {
		if n, err := wire.ParseFabricNodeID(words[0]); err == nil && words[1] != "0" {
			where[n] = words[1]
		}
	}
	return nil
}
