package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"ttfabric/node/fabric/spec"
	"ttfabric/node/output/screen"
	"ttfabric/node/scenario"
	"ttfabric/node/scenario/live"
	"ttfabric/node/sim"
	"ttfabric/router/topo"
)

func newScenario() *cobra.Command {
	c := &cobra.Command{Use: "scenario", Short: "Run timed faults with assertions, live or simulated",
		Long: `A scenario is a YAML file with a machine, traffic, a timeline of faults, and
assertions about the results. The same file runs on real processes and, with --sim,
in virtual time. Some scenarios come with the program. 'scenario list' lists these
scenarios. 'scenario show' prints the file of one scenario. You can save this file,
and change it into a scenario of your own.`}
	c.AddCommand(newScenarioRun(), newScenarioList(), newScenarioShow(), newScenarioValidate())
	return c
}

// scenarioFlags are the flags of 'scenario run'.
type scenarioFlags struct {
	sim, all, running bool
	topology          string
	seed              uint64
	junit, report     string
	timeout           time.Duration
}

func newScenarioRun() *cobra.Command {
	var f scenarioFlags
	c := &cobra.Command{Use: "run FILE|NAME...", Short: "Run scenarios and judge their assertions", ValidArgsFunction: completeScenarios,
		Long: `The command brings up a new fabric, lets the chips send, carries out the timeline,
and judges the assertions. Afterwards, or after Ctrl-C, the command takes the new
fabric down. With --running the command uses the running fabric that --name names,
and afterwards ends all faults that the scenario set.

With --sim, no process starts. The scenario runs on the simulator, in virtual time,
and the same seed gives the same run. The simulator cannot carry out some kinds of
steps, and a real fabric cannot carry out some other kinds. The report marks these
steps as skipped.

The seed decides every random choice, such as the choice of a "random" chip or
link. The command prints the seed.

Exit code 5 if an assertion fails.`,
		Example: `  ttfabric scenario run partition
  ttfabric scenario run --all --sim
  ttfabric scenario run my.yaml --seed 7 --junit out.xml --report out.json
  ttfabric scenario run fallback --topology mesh:4x4
  ttfabric scenario run my.yaml --running --name lab`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.all && len(args) > 0:
				return spec.Usagef("--all runs every scenario that comes with the program; leave out --all, or the argument %s", args[0])
			case f.all:
				args = scenario.Names()
			case len(args) == 0:
				return spec.Usagef("no scenario is named; want a file, or a name that 'ttfabric scenario list' lists, or --all")
			case f.sim && f.running:
				return spec.Usagef("--sim and --running exclude each other; leave out one of the two flags")
			}
			return runScenarios(c, args, f)
		}}
	fl := c.Flags()
	fl.BoolVar(&f.sim, "sim", false, "run in the simulator, in virtual time")
	fl.BoolVar(&f.all, "all", false, "run all scenarios that come with the program")
	fl.BoolVar(&f.running, "running", false, "use the running fabric that --name names, instead of bringing up a new fabric")
	fl.StringVar(&f.topology, "topology", "", "topology to use instead of the topology in the file")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of all choices (default: the seed in the file, or a random seed)")
	fl.StringVar(&f.junit, "junit", "", "write the verdicts to this file, as JUnit XML")
	fl.StringVar(&f.report, "report", "", "write the reports to this file, as JSON")
	fl.DurationVar(&f.timeout, "timeout", live.DefaultTimeout, "give up if the links of the new fabric are not all up after this time")
	_ = c.RegisterFlagCompletionFunc("topology", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return completeTopology(c, nil, "")
	})
	return c
}

func runScenarios(c *cobra.Command, args []string, f scenarioFlags) error {
	out, err := format(c)
	if err != nil {
		return err
	}
	var all []*scenario.Scenario
	for _, a := range args {
		s, err := live.Load(c.Context(), a)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	begin := time.Now()
	if err := live.WriteReports(f.junit, f.report, begin, nil); err != nil { // before the run, to find out whether the files can be written
		return err
	}
	reports := []scenario.Report{}
	failed, broken := 0, 0
	for i, s := range all {
		rep, err := runScenario(c, s, f)
		if err != nil {
			return errors.Join(err, live.WriteReports(f.junit, f.report, begin, reports))
		}
		reports = append(reports, rep)
		if out == "table" {
			printScenario(c, rep, args[i], f)
		}
		switch {
		case rep.Error != "":
			broken++
		case !rep.Passed:
			failed++
		}
	}
	if err := live.WriteReports(f.junit, f.report, begin, reports); err != nil {
		return err
	}
	if out == "json" {
		if err := printJSON(c, reports); err != nil {
			return err
		}
	}
	switch {
	case broken > 0:
		return fmt.Errorf("%d of %s could not be carried out", broken, topo.Count(len(reports), "scenario"))
	case failed > 0:
		return assertf("%d of %s failed", failed, topo.Count(len(reports), "scenario"))
	}
	return nil
}

// runScenario runs one scenario, live or in the simulator. The function returns an
// error if the scenario could not begin, or was interrupted.
func runScenario(c *cobra.Command, s *scenario.Scenario, f scenarioFlags) (scenario.Report, error) {
	seed := rand.Uint64N(1e9) // a seed that is short enough to type
	switch {
	case c.Flags().Changed("seed"):
		seed = f.seed
	case s.Seed != nil:
		seed = *s.Seed
	}
	if !f.sim {
		return runLive(c, s, f, seed)
	}
	t, err := live.Topology(c.Context(), s, f.topology)
	if err != nil {
		return scenario.Report{}, err
	}
	rep, err := sim.Play(sim.PlayConfig{Scenario: s, Topology: t, Seed: seed})
	return rep, spec.AsUsage(err)
}

// runLive runs a scenario on real chips. With --running, runLive uses the fabric that
// --name names. Without --running, runLive uses a new fabric.
func runLive(c *cobra.Command, s *scenario.Scenario, f scenarioFlags, seed uint64) (rep scenario.Report, err error) {
	cfg := live.Config{Scenario: s, Seed: seed, Timeout: f.timeout}
	if f.running {
		cfg.Fabric, err = openFabric(c)
	} else {
		cfg.Topology, err = live.Topology(c.Context(), s, f.topology)
	}
	if err != nil {
		return rep, err
	}
	start, play := screen.NewProgress(c.ErrOrStderr(), "links up", 0), screen.NewProgress(c.ErrOrStderr(), s.Name, 0)
	defer start.Stop()
	defer play.Stop()
	cfg.Starting = func(links, of int) {
		start.Rename("links up", of)
		start.Set(links)
	}
	cfg.Playing = func(done, of int, at, length time.Duration) {
		start.Stop()
		play.Rename(fmt.Sprintf("%s: %d of %s, seconds", s.Name, done, topo.Count(of, "action")), int(length.Seconds()))
		play.Set(int(min(at, length).Seconds()))
	}
	return live.Run(c.Context(), cfg)
}

// sentenceWidth is the width at which a table wraps sentences, in characters.
const sentenceWidth = 72

// statusSigns maps each outcome to the sign that stands for the outcome in tables.
var statusSigns = map[scenario.Status]string{scenario.Passed: "✓", scenario.Failed: "✗", scenario.Skipped: "–", scenario.Open: "?"}

// printScenario prints the assertions of a run on stdout, and the timeline and a
// summary on stderr.
func printScenario(c *cobra.Command, r scenario.Report, arg string, f scenarioFlags) {
	for _, e := range r.Timeline {
		fmt.Fprintf(c.ErrOrStderr(), "%8.3fs %s %s", e.At, statusSigns[e.Status], e.What)
		if e.Why != "" {
			fmt.Fprint(c.ErrOrStderr(), ": ", e.Why)
		}
		fmt.Fprintln(c.ErrOrStderr())
	}
	tw := newTable(c, "", "Assertion of "+r.Scenario, "Measured", "At")
	tw.Least("At")
	tw.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: sentenceWidth, WidthMaxEnforcer: text.WrapSoft}})
	for _, v := range r.Assertions {
		measured := v.Measured
		if v.Why != "" {
			measured = strings.TrimPrefix(measured+", "+v.Why, ", ")
		}
		tw.AppendRow(table.Row{statusSigns[v.Status], v.Text, measured, fmt.Sprintf("%.2fs", v.At)})
	}
	tw.Render()
	passed, failed, skipped := r.Count()
	word := "passed"
	switch {
	case r.Error != "":
		word = "could not be carried out: " + r.Error
	case failed > 0:
		word = "FAILED"
	}
	flags, virtual := fmt.Sprintf(" --seed %d", r.Seed), ""
	if r.Driver == "sim" {
		flags, virtual = flags+" --sim", " of virtual time, trace "+r.Trace
	}
	if f.topology != "" {
		flags += " --topology " + f.topology
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s on %s %s: %d held, %d failed, %d skipped in %.1f s%s\n", r.Scenario, r.Topology, word, passed, failed, skipped, r.Seconds, virtual)
	fmt.Fprintf(c.ErrOrStderr(), "seed %d; to run again with the same choices: ttfabric scenario run %s%s\n", r.Seed, arg, flags)
}

// completeScenarios returns the names of the scenarios that come with the program, for
// shell completion. The shell also completes file names.
func completeScenarios(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, n := range scenario.Names() {
		if s, err := live.Load(context.Background(), n); err == nil {
			out = append(out, n+"\t"+scenario.Summary(s.Description))
		}
	}
	return out, cobra.ShellCompDirectiveDefault
}

// listedScenario is a scenario as `scenario list -o json` prints it.
type listedScenario struct {
	Name        string `json:"name"`        // name of the scenario
	Description string `json:"description"` // description of the scenario
	Topology    string `json:"topology"`    // topology of the scenario
	Steps       int    `json:"steps"`       // number of steps
	Assertions  int    `json:"assertions"`  // number of assertions
}

func newScenarioList() *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the scenarios that come with the program", Args: cobra.NoArgs, Example: "  ttfabric scenario list",
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := format(c)
			if err != nil {
				return err
			}
			var all []listedScenario
			for _, n := range scenario.Names() {
				s, err := live.Load(c.Context(), n)
				if err != nil {
					return err
				}
				all = append(all, listedScenario{n, s.Description, s.Fabric.Topology, len(s.Steps), len(s.Assertions)})
			}
			if f == "json" {
				return printJSON(c, all)
			}
			tw := newTable(c, "Scenario", "Machine", "Assertions", "Description")
			tw.Least("Assertions", "Machine")
			tw.SetColumnConfigs([]table.ColumnConfig{{Number: 4, WidthMax: sentenceWidth, WidthMaxEnforcer: text.WrapSoft}})
			for _, s := range all {
				tw.AppendRow(table.Row{s.Name, s.Topology, s.Assertions, scenario.Summary(s.Description)})
			}
			tw.Render()
			return nil
		}}
}

func newScenarioShow() *cobra.Command {
	return &cobra.Command{Use: "show NAME", Short: "Print a scenario that comes with the program", Args: cobra.ExactArgs(1), ValidArgs: scenario.Names(),
		Long:    "The command prints the file of a scenario. To write a scenario of your own, save the\nfile and change it.",
		Example: "  ttfabric scenario show partition > my.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			source, ok := scenario.Source(args[0])
			if !ok {
				return spec.Usagef("scenario %q: no scenario of the program has this name; 'ttfabric scenario list' lists the scenarios", args[0])
			}
			_, err := c.OutOrStdout().Write(source)
			return err
		}}
}

func newScenarioValidate() *cobra.Command {
	var topology string
	c := &cobra.Command{Use: "validate FILE|NAME...", Short: "Check scenario files without running them", Args: cobra.MinimumNArgs(1), ValidArgsFunction: completeScenarios,
		Example: "  ttfabric scenario validate my.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			for _, a := range args {
				s, err := live.Load(c.Context(), a)
				if err != nil {
					return err
				}
				t, err := live.Topology(c.Context(), s, topology)
				if err != nil {
					return err
				}
				if _, err := scenario.New(s, t, 1, sim.ScenarioDriver); err != nil {
					return spec.AsUsage(err)
				}
				fmt.Fprintf(c.OutOrStdout(), "%s: ok, %s and %s on %s\n", s.File, topo.Count(len(s.Steps), "step"), topo.Count(len(s.Assertions), "assertion"), t)
			}
			return nil
		}}
	c.Flags().StringVar(&topology, "topology", "", "topology to use instead of the topology in the file")
	return c
}
