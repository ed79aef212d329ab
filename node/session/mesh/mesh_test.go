package mesh

import (
	"strings"
	"testing"
)

// FuzzTarget reads texts of targets. The text form of a target that was read must be read as the
// same target.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"E2,N1", "E2-4", "M0:0-3,7", "m1:255", "M1024:0", "M0:256", "0:1", "M:1", "M0:", "", ":", "M0:3-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		to, err := ParseTarget(s)
		if err != nil {
			if !strings.Contains(err.Error(), "E2,") {
				t.Fatalf("%q: %v names no form that is accepted", s, err)
			}
			return
		}
		if again, err := ParseTarget(to.String()); err != nil || again != to || to.Len() == 0 && to.members.Any() {
			t.Fatalf("%q is read as %s, and then as %s: %v", s, to, again, err)
		}
	})
}

func TestParseTarget(t *testing.T) {
	for s, want := range map[string]string{"e2,n1": "E2,N1 5", "M0:7,0-3": "M0:0-3,7 5", "m12:255": "M12:255 1"} {
		if to, err := ParseTarget(s); err != nil || to.String()+" "+string(rune('0'+to.Len())) != want {
			t.Errorf("%s is read as %s, %d chips: %v", s, to, to.Len(), err)
		}
	}
	for s, want := range map[string]string{"M1024:0": `"M1024" is no mesh`, "0:1": `"0" is no mesh`, "M0:256": `chips "256"`, "M0:": `chips ""`, "Q3": "ranges"} {
		if _, err := ParseTarget(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", s, err, want)
		}
	}
}
