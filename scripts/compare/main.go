// Compare checks the Wireshark dissector against the Go decoder. For every frame and packet of a
// capture, each field that tshark prints must equal the field that package capture decodes from the
// same bytes. The exceptions are fields that only the dissector has.
//
//	compare FILE...                    exit 1 at the first difference
//	compare -two-pass FILE             the same with tshark -2
//	compare -counters BEFORE,AFTER FILE   expert information against 'inspect --links -o json'
//	compare -undisturbed BEFORE,AFTER     exit 1 if a link went down between the two
//	compare -drive NAME                perform every NoC command in the running fabric of that name
//	compare -wrap IN OUT               shift sequence numbers so that they wrap
//	compare -mutate 1000 -seed 7 IN OUT   write 1000 damaged datagrams, made from those of IN
//
// A mutated capture is compared like any other capture: both decoders must give the same name to
// each damage.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	var o options
	flag.StringVar(&o.lua, "lua", "", "dissector to load; empty: the installed dissector")
	flag.StringVar(&o.tshark, "tshark", "tshark", "path of the program tshark")
	flag.BoolVar(&o.twoPass, "two-pass", false, "run tshark with its option -2")
	mutations := flag.Int("mutate", 0, "write this many damaged datagrams, and compare nothing")
	seed := flag.Uint64("seed", 1, "seed of the damage")
	wraps := flag.Bool("wrap", false, "write the capture again, with sequence numbers that wrap, and compare nothing")
	against := flag.String("counters", "", "compare only the expert information, with these two files of 'ttfabric inspect --links -o json'")
	between := flag.String("undisturbed", "", "only check whether a link went down between these two files of 'ttfabric inspect --links -o json'")
	driven := flag.String("drive", "", "perform every NoC command in the running fabric of this name, and compare nothing")
	flag.Parse()
	before, after, _ := strings.Cut(*between, ",")
	var err error
	switch {
	case *driven != "":
		err = drive(*driven)
	case *between != "":
		err = undisturbed(before, after)
	case *wraps && flag.NArg() == 2:
		err = wrap(flag.Arg(0), flag.Arg(1))
	default:
		err = run(&o, *mutations, *seed, *against, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(o *options, mutations int, seed uint64, against string, files []string) error {
	if mutations > 0 {
		if len(files) != 2 {
			return fmt.Errorf("-mutate: want a capture and the file to write, got %d names", len(files))
		}
		return mutate(files[0], files[1], mutations, seed)
	}
	if before, after, ok := strings.Cut(against, ","); ok && len(files) == 1 {
		return counters(o, before, after, files[0])
	} else if against != "" {
		return fmt.Errorf("-counters: want two files with a comma between them, and one capture")
	}
	if len(files) == 0 {
		return fmt.Errorf("no capture; see compare -h")
	}
	for _, name := range files {
		n, err := compare(o, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("%s: %d datagrams, %d frames, %d packets (%d of several frames, %d partial), %d fields equal; %d with a fault\n",
			name, n.datagrams, n.frames, n.packets, n.assembled, n.partial, n.fields, n.faults)
	}
	return nil
}
