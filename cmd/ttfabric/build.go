package main

import "runtime/debug"

func version() string {
	v, rev, date := "devel", "", ""
	if bi, ok := debug.ReadBuildInfo(); ok {
		if bi.Main.Version != "" && bi.Main.Version != "(devel)" {
			v = bi.Main.Version
		}
		for _, s := range bi.Settings {
			switch s.Key {
			case "vcs.revision":
				rev = " " + s.Value[:min(12, len(s.Value))]
			case "vcs.time":
				date = " " + s.Value
			}
		}
	}
	return v + rev + date
}
