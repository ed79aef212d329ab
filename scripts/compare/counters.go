package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"

	"ttfabric/node/admin/api"
)

// seen is a kind of expert information, and the counter of the port that counts the same events.
type seen struct {
	field     string
	direction string // value of frame.packet_flags_direction: 1 in, 2 out
	counter   string
}

// counted lists the kinds of expert information whose number must equal a counter exactly. The
// capture must come from 'ttfabric capture'. A port captures an outgoing frame before impairments
// change the frame, and an incoming frame afterwards.
var counted = []seen{
	{"ttlink.analysis.retransmission", "2", "retransmitted"},
	{"ttlink.analysis.nack", "2", "nacks_sent"},
	{"ttlink.analysis.nack", "1", "nacks_received"},
	{"ttlink.crc.bad", "1", "checksum"},
}

// readLinks reads the counters in the list "counted" of all ports, by interface and counter, and
// the incarnation of each chip. A chip that restarts has another incarnation, and counts from 0
// again.
func readLinks(name string) (out map[string]int, lives map[string]string, err error) {
	chips, err := readFile(name)
	if err != nil {
		return nil, nil, err
	}
	out, lives = map[string]int{}, map[string]string{}
	for _, c := range chips {
		lives[c.Chip.String()] = c.Incarnation
		for _, l := range c.Links {
			for _, k := range counted {
				n, ok := l.Counters[k.counter]
				if !ok {
					if n, ok = l.FrameDrops[k.counter]; !ok {
						return nil, nil, fmt.Errorf("%s: no counter %s of %s channel %d", name, k.counter, c.Chip, l.Channel)
					}
				}
				out[fmt.Sprintf("%s/eth%d %s", c.Chip, l.Channel, k.counter)] = int(n)
			}
		}
	}
	return out, lives, nil
}

// undisturbed returns an error if a link went down between two files of 'inspect --links -o json',
// or was down in one of them. In that case another port sent the link's frames, and the counters of
// the two ports are not comparable with the capture.
func undisturbed(before, after string) error {
	var retrains [2]map[string]int
	for i, name := range []string{before, after} {
		chips, err := readFile(name)
		if err != nil {
			return err
		}
		retrains[i] = map[string]int{}
		for _, c := range chips {
			for _, l := range c.Links {
				port := fmt.Sprintf("%s/eth%d of incarnation %s", c.Chip, l.Channel, c.Incarnation)
				if l.State != "up" || l.By != nil {
					return fmt.Errorf("%s: %s is %s, or another port carries its frames", name, port, l.State)
				}
				retrains[i][port] = l.Retrains
			}
		}
	}
	if !maps.Equal(retrains[0], retrains[1]) {
		return fmt.Errorf("links went down between %s and %s", before, after)
	}
	return nil
}

// readFile reads the chips of a file that 'inspect --links -o json' wrote.
func readFile(name string) ([]api.ChipView, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var v struct {
		Chips []api.ChipView `json:"chips"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v.Chips, nil
}

// counters compares the expert information of a capture of 'ttfabric capture' with the counters of
// the ports before and after the capture. Chips that restarted meanwhile are left out. If one of
// the counters has not moved at any port, counters returns an error.
func counters(o *options, before, after, name string) error {
	was, livesBefore, err := readLinks(before)
	if err != nil {
		return err
	}
	is, lives, err := readLinks(after)
	if err != nil {
		return err
	}
	shown, err := experts(o, name)
	if err != nil {
		return err
	}
	totals := map[string]int{}
	var wrong []string
	for key, n := range is {
		chip, _, _ := strings.Cut(key, "/")
		if lives[chip] != livesBefore[chip] {
			continue
		}
		_, counter, _ := strings.Cut(key, " ")
		totals[counter] += shown[key]
		if d := n - was[key]; d != shown[key] {
			wrong = append(wrong, fmt.Sprintf("%s: the port counted %d, tshark shows %d", key, d, shown[key]))
		}
	}
	if len(wrong) > 0 {
		sort.Strings(wrong)
		return fmt.Errorf("expert information and counters differ:\n%s", strings.Join(wrong, "\n"))
	}
	for _, k := range counted {
		if totals[k.counter] == 0 {
			return fmt.Errorf("the capture has no %s; so nothing was compared", k.counter)
		}
	}
	fmt.Printf("%s: expert information equals the counters of all ports: %d retransmitted, %d NACKs sent, %d received, %d damaged\n",
		name, totals["retransmitted"], totals["nacks_sent"], totals["nacks_received"], totals["checksum"])
	return nil
}

// experts counts the expert information of a capture by interface and counter.
func experts(o *options, name string) (map[string]int, error) {
	args := []string{"-r", name, "-T", "fields", "-e", "frame.interface_name", "-e", "frame.packet_flags_direction", "-e", "ttlink.channel"}
	column := map[string]int{} // tshark prints a field once, even if the command line names the field several times
	for _, k := range counted {
		if _, known := column[k.field]; !known {
			column[k.field] = 3 + len(column)
			args = append(args, "-e", k.field)
		}
	}
	cmd := exec.Command(o.tshark, o.with(args)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	shown := map[string]int{}
	for s := bufio.NewScanner(out); s.Scan(); {
		f := strings.Split(s.Text(), "\t")
		if len(f) != 3+len(column) {
			return nil, fmt.Errorf("tshark printed %q: want %d fields", s.Text(), 3+len(column))
		}
		direction, err := strconv.ParseUint(f[1], 0, 32)
		if err != nil {
			return nil, fmt.Errorf("direction %q: want a capture that 'ttfabric capture' wrote", f[1])
		}
		for _, k := range counted {
			if f[column[k.field]] != "" && strconv.FormatUint(direction, 10) == k.direction {
				port := f[0]
				if chip, _, ok := strings.Cut(port, "/"); ok && k.direction == "1" {
					port = chip + "/eth" + f[2] // the link that counts the frame, even if damage changed the frame's channel
				}
				shown[port+" "+k.counter]++
			}
		}
	}
	return shown, cmd.Wait()
}
