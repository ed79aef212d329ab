package spec

import (
	"fmt"

	"ttfabric/router/topo"
	"ttfabric/wire"
)

// DryRun says what 'up' would start. 'up --dry-run' prints a DryRun, and starts nothing. Package fabric makes a DryRun.
type DryRun struct {
	Name      string    `json:"name"`              // name of the fabric
	Topology  string    `json:"topology"`          // name of the topology
	Folder    string    `json:"folder"`            // run folder of the fabric
	Running   int       `json:"running"`           // number of chips that run already
	Runtime   string    `json:"runtime"`           // how the chips would run: process or docker
	Program   string    `json:"program,omitempty"` // executable of the chips' processes; absent for containers
	Image     string    `json:"image,omitempty"`   // image of the containers; absent for processes
	Transport string    `json:"transport"`         // what would carry the links
	Auth      string    `json:"auth"`              // how the chips would authenticate each other
	Profile   string    `json:"profile"`           // timers of the links: lan, crowded or paced
	Sockets   int       `json:"udp_sockets"`       // number of UDP sockets of links that the chips would open; each chip also opens sockets for gossip and for its API
	Chips     []DryChip `json:"chips"`             // chips that would start
	Remarks   []string  `json:"-"`                 // sentences for people about the topology; the field remarks of 'up' has them
}

// DryChip is a chip that 'up' would start.
type DryChip struct {
	Chip  wire.FabricNodeID `json:"chip"`      // name of the chip
	Row   int               `json:"row"`       // row of the chip in its mesh
	Col   int               `json:"col"`       // column of the chip in its mesh
	Links int               `json:"links"`     // number of the chip's links; each link has a UDP socket of its own
	Ports []int             `json:"udp_ports"` // UDP ports of the links, by channel; empty: any free ports
}

// String returns the summary of a dry run, in one sentence or two.
func (d *DryRun) String() string {
	what, already := "process", ""
	if d.Runtime == Docker {
		what = "container"
	}
	number := topo.Count(len(d.Chips), what)
	if what == "process" && len(d.Chips) != 1 {
		number = fmt.Sprintf("%d processes", len(d.Chips))
	}
	if d.Running > 0 {
		already = fmt.Sprintf(" %s run already.", topo.Count(d.Running, "chip"))
	}
	return fmt.Sprintf("'up' would start %s with %s for links, in the run folder %s (transport %s, auth %s, profile %s).%s Nothing was started.",
		number, topo.Count(d.Sockets, "UDP socket"), d.Folder, d.Transport, d.Auth, d.Profile, already)
}

// PortWords returns the UDP ports of a chip's links in words, such as "17000-17003, 17008".
func (c *DryChip) PortWords() string {
	if len(c.Ports) == 0 {
		return "any free"
	}
	words := ""
	for i := 0; i < len(c.Ports); {
		j := i
		for j+1 < len(c.Ports) && c.Ports[j+1] == c.Ports[j]+1 {
			j++
		}
		if words != "" {
			words += ", "
		}
		words += fmt.Sprint(c.Ports[i])
		if j > i {
			words += fmt.Sprintf("-%d", c.Ports[j])
		}
		i = j + 1
	}
	return words
}
