package wireshark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// tsharkPatience is the longest time that tshark may take to say whether it loads the dissector.
const tsharkPatience = 20 * time.Second

// TShark asks the user's tshark whether it loads the dissector. The result said is a sentence for
// people.
func TShark(ctx context.Context) (said string, loads bool) {
	ctx, stop := context.WithTimeout(ctx, tsharkPatience)
	defer stop()
	version, about, err := Version(ctx, "tshark")
	name := "tshark " + version
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "There is no tshark here to try the dissector with.", false
	case errors.Is(err, errNoVersion):
		name = "tshark"
	case err != nil:
		return fmt.Sprintf("tshark does not run: %v", err), false
	}
	loads, err = Loads(ctx, "tshark")
	switch {
	case err == nil && loads:
		return name + " loads the dissector.", true
	case !strings.Contains(about, "with Lua"):
		return name + " was built without Lua: it cannot load the dissector.", false
	case os.Geteuid() == 0:
		return name + " does not load the dissector: from 4.4 on, Wireshark loads no Lua for root. Run it as another user.", false
	}
	return name + " does not load the dissector; 'tshark -v' says why.", false
}

// errNoVersion is the error for a program that runs but does not print its version.
var errNoVersion = errors.New("what it says has no version in it")

// Version asks tshark or wireshark, by name or path, for its version, such as 4.0.17. The result
// about is all that the program prints about itself. If there is no such program, the error is
// [exec.ErrNotFound].
func Version(ctx context.Context, program string) (version, about string, err error) {
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return "", "", err
	}
	if version = parseVersion(string(out)); version == "" {
		err = errNoVersion
	}
	return version, string(out), err
}

// parseVersion finds the version in "TShark (Wireshark) 4.0.17 (Git …)". If the text has no
// version, parseVersion returns "".
func parseVersion(about string) string {
	first, _, _ := strings.Cut(about, "\n")
	for word := range strings.FieldsSeq(first) {
		if word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return strings.TrimRight(word, ".,")
		}
	}
	return ""
}

// Loads asks tshark, by name or path, whether it loads the dissector.
func Loads(ctx context.Context, tshark string) (bool, error) {
	out, err := exec.CommandContext(ctx, tshark, "-G", "protocols").Output()
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(out)) { // each line has the name, the short name, and the name in filters
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) > 2 && f[2] == "ttlink" {
			return true, nil
		}
	}
	return false, nil
}
