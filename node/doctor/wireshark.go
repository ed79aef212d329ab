package doctor

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"ttfabric/wire/capture/wireshark"
)

// leastWireshark is the oldest major version of Wireshark that can load the dissector.
const leastWireshark = 4

func lookWireshark(ctx context.Context, _ *patient) Finding {
	path, err := exec.LookPath("tshark")
	if err != nil {
		if path, err = exec.LookPath("wireshark"); err != nil {
			return bad(Warning, "install wireshark or tshark, 4.0 or later, to look into captures", "this machine has neither tshark nor wireshark")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	version, _, err := wireshark.Version(ctx, path)
	if err != nil {
		return bad(Warning, "reinstall Wireshark", "%s does not print its version: %v", path, err)
	}
	name := filepath.Base(path)
	if major, _ := strconv.Atoi(strings.Split(version, ".")[0]); major < leastWireshark {
		return bad(Warning, "install Wireshark 4.0 or later", "%s %s is too old for the dissector", name, version)
	}
	if name != "tshark" {
		return ok("wireshark %s; whether Wireshark has the dissector is unknown, because only tshark lists dissectors", version)
	}
	switch loads, err := wireshark.Loads(ctx, path); {
	case err != nil:
		return bad(Warning, "", "tshark -G protocols: %v", err)
	case !loads:
		return bad(Warning, "'ttfabric wireshark install' installs the dissector", "tshark %s does not have the dissector for TT-link", version)
	}
	return ok("tshark %s has the dissector for TT-link", version)
}
