package live

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"ttfabric/node/scenario"
)

// WriteReports writes the verdicts of runs that began at the time "begin" as JUnit XML into the file "junit",
// and the reports as JSON into the file "report". An empty name writes no file.
func WriteReports(junit, report string, begin time.Time, reports []scenario.Report) error {
	var errs []error
	if junit != "" {
		b, err := scenario.JUnit(begin.UTC().Format("2006-01-02T15:04:05"), reports...)
		if err == nil {
			err = os.WriteFile(junit, b, 0o644)
		}
		errs = append(errs, err)
	}
	if report != "" {
		b, err := json.MarshalIndent(reports, "", "  ")
		if err == nil {
			err = os.WriteFile(report, append(b, '\n'), 0o644)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
