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

// tsharkPatience is the longest time for which TShark waits for the program tshark.
const tsharkPatience = 20 * time.Second

// TShark runs the user's tshark to find out whether tshark loads the dissector. The result "said"
// tells people in one or two sentences what TShark found out. The result "loads" is true if tshark
// loads the dissector.
func TShark(ctx context.Context) (said string, loads bool) {
	ctx, stop := context.WithTimeout(ctx, tsharkPatience)
	defer stop()
	version, about, err := Version(ctx, "tshark")
	name := "tshark " + version
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "The program tshark is not installed, so the dissector was not tried.", false
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
		return name + " was built without Lua, and cannot load the dissector.", false
	case os.Geteuid() == 0:
		return name + " does not load the dissector, because Wireshark 4.4 and later load no Lua plugins for root. Run tshark as another user.", false
	}
	return name + " does not load the dissector; 'tshark -v' says why.", false
}

// errNoVersion is the error if the first line of a program's output for --version has no version.
var errNoVersion = errors.New("the output has no version")

// Version runs tshark or wireshark, given by name or path, with --version. The result "version" is
// the program's version, such as "4.0.17". The result "about" is the whole output. If the program
// is given by name and is not installed, the error is [exec.ErrNotFound]. If the first line of the
// output has no version, the error is errNoVersion.
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

// parseVersion returns the version in an output such as "TShark (Wireshark) 4.0.17 (Git …)". If the
// first line has no version, parseVersion returns "".
func parseVersion(about string) string {
	first, _, _ := strings.Cut(about, "\n")
	for word := range strings.FieldsSeq(first) {
		if word[0] >= '0' && word[0] <= '9' && strings.Contains(word, ".") {
			return strings.TrimRight(word, ".,")
		}
	}
	return ""
}

// Loads runs tshark, given by name or path, and reports whether tshark has loaded the dissector.
func Loads(ctx context.Context, tshark string) (bool, error) {
	out, err := exec.CommandContext(ctx, tshark, "-G", "protocols").Output()
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(out)) { // a line has a protocol's name, short name, and name in filters
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) > 2 && f[2] == "ttlink" {
			return true, nil
		}
	}
	return false, nil
}
