package admin_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"ttfabric/node"
	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/wire"
)

// scrape gets the metrics of a chip, with the headers that Prometheus sends.
func scrape(t *testing.T, addr, token, accept string) (*http.Response, []byte) {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, b
}

// value adds up the series of a family that have the given labels. The labels are a list of name,
// value, name, value and so on. value also returns the number of these series.
func value(f *dto.MetricFamily, labels ...string) (sum float64, n int) {
	for _, m := range f.GetMetric() {
		have := map[string]string{}
		for _, l := range m.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && have[labels[i]] == labels[i+1]
		}
		if fits {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			n++
		}
	}
	return sum, n
}

// TestMetrics reads a chip's metrics after traffic with Prometheus' parser, checks
// their names with Prometheus' linter, and compares them with the API's view.
func TestMetrics(t *testing.T) {
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := api.NewClient(addrs[0], token, machine.Chips[0].Node, machine)
	s := session.New(c)
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := s.Write(ctx, machine.Chips[1].Node, wire.NewNocAddr(1, 1, 0), []byte("counted")); err != nil {
			t.Fatal(err)
		}
	}
	if res, _ := scrape(t, addrs[0], "wrong", ""); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %s", res.Status)
	}
	res, text := scrape(t, addrs[0], token, "text/plain;version=0.0.4")
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Fatalf("%s, %s", res.Status, got)
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %+v", err, problems)
	}
	words := regexp.MustCompile(`^[A-Za-z0-9_:. /-]+$`)
	series := 0
	for name, f := range families {
		if !strings.HasPrefix(name, "ttfabric_") {
			continue
		}
		series += len(f.GetMetric())
		if f.GetHelp() == "" || f.GetType() == dto.MetricType_UNTYPED {
			t.Errorf("%s has no help or type", name)
		}
		if _, n := value(f, "chip", "M0D0"); n != len(f.GetMetric()) {
			t.Errorf("%s: only %d of %d series name their chip", name, n, len(f.GetMetric()))
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if !words.MatchString(l.GetValue()) {
					t.Errorf("%s: label %s is %q", name, l.GetName(), l.GetValue())
				}
			}
		}
	}
	v, err := c.Chip(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if most := 100 + 150*len(v.Links); series > most || series < 60*len(v.Links) {
		t.Errorf("%d series of %d ports, want at most %d", series, len(v.Links), most)
	}
	for _, l := range v.Links {
		ch := fmt.Sprint(l.Channel)
		if up, n := value(families["ttfabric_link_up"], "port", ch); up != 1 || n != 1 {
			t.Errorf("port %s: up %v, %d series", ch, up, n)
		}
	}
	if n, _ := value(families["ttfabric_requests_ended_total"], "fate", "done"); n < 11 {
		t.Errorf("%v requests done", n)
	}
	for _, name := range []string{"tables_chips_silent", "chip_starved_times_total", "chip_starved_seconds_total"} {
		if _, n := value(families["ttfabric_"+name]); n != 1 {
			t.Errorf("%d series of %s, want 1", n, name)
		}
	}
	_, known := node.CPUPressure()
	if _, n := value(families["ttfabric_cpu_pressure"]); (n == 1) != known || (v.CPUPressure != nil) != known {
		t.Errorf("the kernel measures pressure: %v; %d series, and %v in the chip's state", known, n, v.CPUPressure)
	}
	sent, _ := value(families["ttfabric_link_packets_sent_total"])
	routed, _ := value(families["ttfabric_router_packets_total"], "what", "sent")
	injected, _ := value(families["ttfabric_router_packets_total"], "what", "injected", "class", "request")
	if sent < 11 || routed != sent || injected < 11 {
		t.Errorf("links sent %v packets, routers %v, %v of them the chip's own", sent, routed, injected)
	}
	res, text = scrape(t, addrs[0], token, "application/openmetrics-text;version=1.0.0")
	if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/openmetrics-text; version=1.0.0") || !bytes.HasSuffix(text, []byte("# EOF\n")) {
		t.Errorf("OpenMetrics: %s, ends in %q", got, text[max(0, len(text)-40):])
	}
}
