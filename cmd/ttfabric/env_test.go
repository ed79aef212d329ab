package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestYAMLSaysWhatJSONSays runs commands with -o json and -o yaml, and compares the
// values in the two outputs.
func TestYAMLSaysWhatJSONSays(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, args := range []string{"validate mesh:2x2", "routes --topology mesh:2x2", "scenario list", "ls", "version"} {
		var j, y any
		if err := json.Unmarshal([]byte(c.must(append(strings.Fields(args), "-o", "json")...)), &j); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		if err := yaml.Unmarshal([]byte(c.must(append(strings.Fields(args), "-o", "yaml")...)), &y); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		b, err := json.Marshal(y)
		if err != nil {
			t.Fatal(err)
		}
		var again any
		if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(j, again) {
			t.Errorf("%s: %v: YAML says %s", args, err, b)
		}
	}
	if _, errs, code := c.run("ls", "-o", "xml"); code != exitUsage || !strings.Contains(errs, `--output "xml"`) {
		t.Errorf("-o xml: exit code %d: %s", code, errs)
	}
}

// TestEnvironmentStandsForFlags sets flags by environment variables. A flag on the
// command line must overrule the variable.
func TestEnvironmentStandsForFlags(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	run := func(env []string, args ...string) (string, int) {
		cmd := c.command(args...)
		cmd.Env = append(cmd.Env, env...)
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run([]string{"TTFABRIC_OUTPUT=json", "TTFABRIC_VALIDATE_ORDER=yx"}, "validate", "mesh:2x2"); code != 0 || !strings.Contains(out, "dor, yx, dateline") || !json.Valid([]byte(out)) {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := run([]string{"TTFABRIC_OUTPUT=json", "TTFABRIC_VALIDATE_ORDER=yx"}, "validate", "mesh:2x2", "--order", "xy"); code != 0 || !strings.Contains(out, "dor, xy, dateline") {
		t.Errorf("beside a flag: exit code %d: %s", code, out)
	}
	if out, code := run([]string{"TTFABRIC_UP_TIMEOUT=soon"}, "up"); code != exitUsage || !strings.Contains(out, "TTFABRIC_UP_TIMEOUT") {
		t.Errorf("of a bad value: exit code %d: %s", code, out)
	}
	if out, code := run([]string{"TTFABRIC_NAME=other", "TTFABRIC_UP_DETACH=true"}, "up", "ring:3"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, _ := run(nil, "ls"); !strings.Contains(out, "other") {
		t.Errorf("a fabric named by the environment is not there: %s", out)
	}
}
