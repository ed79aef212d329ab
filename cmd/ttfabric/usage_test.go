package main

import (
	"os"
	"strings"
	"testing"
)

func TestUnknownNamesAreUsageErrors(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for line, want := range map[string]string{
		"inspct":                          `unknown command "inspct" for "ttfabric"; did you mean inspect?`,
		"chip bogus":                      `unknown command "bogus" for "ttfabric chip"`,
		"chip kil M0D0":                   `did you mean kill?`,
		"traffic all-to-all --packets -1": `invalid argument "-1" for "--packets" flag: want a whole number, 0 or more`,
		"traffic all-to-all --size 1e3":   `invalid argument "1e3" for "--size" flag: want a whole number`,
		"traffic all-to-all --size 9999999999999999999": `the number is too large`,
		"bench link --plot x.png":                       `--plot x.png: plots are drawn as SVG`,
		"traffic uniform --load much":                   `invalid argument "much" for "--load" flag: want a number`,
	} {
		out, errs, code := c.run(strings.Fields(line)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) || strings.Contains(errs, "strconv") {
			t.Errorf("%s: exit code %d, out %q, said %q; want %q", line, code, out, errs, want)
		}
	}
	for _, line := range []string{"help", "chip", "chip --help", "help chip"} {
		if out, errs, code := c.run(strings.Fields(line)...); code != exitOK || errs != "" || !strings.Contains(out, "[command]") || strings.Contains(out, "chip [flags]") {
			t.Errorf("%q: exit code %d, said %q, printed %q", line, code, errs, out)
		}
	}
}

// TestOutputThatIsLost lets commands print to a full disk. The commands must fail.
func TestOutputThatIsLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, line := range []string{"ls", "ls -o json", "version"} {
		cmd := newCLI(t).command(strings.Fields(line)...)
		var said strings.Builder
		cmd.Stdout, cmd.Stderr = full, &said
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(said.String(), "no space left") {
			t.Errorf("%s: %v, said %q", line, err, said.String())
		}
	}
}

// TestUpAgain runs 'up' for a fabric that runs already. 'up' must accept the running
// fabric's options, and must refuse other options.
func TestUpAgain(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	up := []string{"up", "n300", "-d", "--profile", "crowded", "--name", "again"}
	c.must(up...)
	c.must(up...)
	c.must(append(up, "--slots", "spec", "--ttl", "0", "--stuck-after", "10000ms", "--runtime", "process", "--offload", "on")...)
	for flag, value := range map[string]string{"profile": "lan", "slots": "fast", "order": "yx", "ttl": "3", "port-base": "7000", "stuck": "drop",
		"stuck-after": "2s", "local-first": "true", "keep-unreliable": "true", "offload": "off", "runtime": "docker"} {
		_, errs, code := c.run("up", "n300", "-d", "--name", "again", "--"+flag+"="+value)
		if code != exitUsage || !strings.Contains(errs, "--"+flag) || !strings.Contains(errs, "runs already") {
			t.Errorf("--%s=%s: exit code %d, said %q", flag, value, code, errs)
		}
	}
}
