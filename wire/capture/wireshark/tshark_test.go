package wireshark

import "testing"

func TestParseVersion(t *testing.T) {
	for about, want := range map[string]string{
		"TShark (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u1).\n\nCopyright": "4.0.17",
		"TShark (Wireshark) 4.4.6.\n": "4.4.6",
		"Wireshark 3.6.2.":            "3.6.2",
		"Wireshark\n4.0 was before":   "",
		"none":                        "",
		"":                            "",
	} {
		if got := parseVersion(about); got != want {
			t.Errorf("version of %q is %q, want %q", about, got, want)
		}
	}
}
