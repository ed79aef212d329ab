package wireshark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// tsharkPatience is how long tshark may take to say whether it loads the dissector.
const tsharkPatience = 20 * time.Second

// TShark asks the user's tshark whether it loads the dissector. said is a sentence for people.
func TShark(ctx context.Context) (said string, loads bool) {
	ctx, stop := context.WithTimeout(ctx, tsharkPatience)
	defer stop()
	version, err := exec.CommandContext(ctx, "tshark", "--version").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "There is no tshark here to try the dissector with.", false
	} else if err != nil {
		return fmt.Sprintf("tshark does not run: %v", err), false
	}
	words := strings.Fields(string(version))
	name := "tshark"
	if len(words) > 2 {
		name = "tshark " + strings.Trim(words[2], ".,")
	}
	protocols, err := exec.CommandContext(ctx, "tshark", "-G", "protocols").Output()
	switch {
	case err == nil && slices.Contains(strings.Fields(string(protocols)), "ttlink"):
		return name + " loads the dissector.", true
	case !strings.Contains(string(version), "with Lua"):
		return name + " was built without Lua: it cannot load the dissector.", false
	case os.Geteuid() == 0:
		return name + " does not load the dissector: from 4.4 on, Wireshark loads no Lua for root. Run it as another user.", false
	}
	return name + " does not load the dissector; 'tshark -v' says why.", false
}
