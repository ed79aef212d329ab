package capture_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNamesAreDocumented compares the names of fields in the source with the section "Names" of the
// package documentation. Each side must have all names of the other.
func TestNamesAreDocumented(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	emitted := map[string]bool{}
	one := regexp.MustCompile(`\bf\.(?:num|hex|flag|text)\("(tt(?:link|fabric)\.[a-z_.]+)",`)
	port := regexp.MustCompile(`"(ttlink\.hello\.)"\+e\.name\+"(_[a-z]+)"`)
	ranges := regexp.MustCompile(`rangeFields\(f, "(ttfabric\.[a-z]+)"`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range one.FindAllStringSubmatch(string(b), -1) {
			emitted[m[1]] = true
		}
		for _, m := range port.FindAllStringSubmatch(string(b), -1) {
			emitted[m[1]+"from"+m[2]], emitted[m[1]+"expected"+m[2]] = true, true
		}
		for _, m := range ranges.FindAllStringSubmatch(string(b), -1) {
			emitted[m[1]+".hops"], emitted[m[1]+".skip"] = true, true
		}
	}
	page, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, line := range strings.Split(string(page), "\n") {
		line, ok := strings.CutPrefix(line, "//\ttt")
		if !ok {
			continue
		}
		names, _, _ := strings.Cut("tt"+line, "  ")
		stem := ""
		for _, n := range strings.Split(strings.ReplaceAll(names, " (four)", ""), ", ") {
			n, _, _ = strings.Cut(strings.TrimSpace(n), " ")
			if k := strings.LastIndex(n, "."); k >= 0 {
				stem = n[:k+1]
			} else {
				n = stem + n
			}
			listed[n] = true
		}
	}
	if len(emitted) < 90 {
		t.Errorf("only %d names were found in the source", len(emitted))
	}
	var wrong []string
	for n := range emitted {
		if !listed[n] {
			wrong = append(wrong, n+" is missing in doc.go")
		}
	}
	for n := range listed {
		if !emitted[n] {
			wrong = append(wrong, n+" is in doc.go, but no field has this name")
		}
	}
	slices.Sort(wrong)
	for _, w := range wrong {
		t.Error(w)
	}
}
