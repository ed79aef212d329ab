// Package output defines the data that commands print with -o json, and the JSON Schemas of this
// data. The data is stable within one major version of the program. Later versions may add fields,
// but never remove a field, or change the type, the unit or the meaning of a field. A later version
// may also add names to the names that a text may have. Programs that read the data must therefore
// ignore fields that they do not know. Tables, and messages on stderr, may change at any time.
package output

import (
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/wire"
)

// Up is the result of bringing up a fabric.
type Up struct {
	Topology string         `json:"topology"` // the name of the topology
	Seconds  float64        `json:"seconds"`  // the time until all links were up
	Remarks  []string       `json:"remarks"`  // sentences for people about the topology, for example about parts of the file that the topology lacks
	Chips    []api.ChipView `json:"chips"`    // the chips, sorted by mesh and chip

	DryRun *spec.DryRun `json:"dry_run,omitempty"` // with --dry-run: what would start; of the other fields, only topology and remarks are then set
}

// Chips is the state of the chips of a fabric.
type Chips struct {
	Topology   string              `json:"topology,omitempty"` // the name of the topology; absent for inspect
	Chips      []api.ChipView      `json:"chips"`              // the chips that answered
	NotRunning []wire.FabricNodeID `json:"not_running"`        // the chips without a process
	NoAnswer   []wire.FabricNodeID `json:"no_answer"`          // the chips with a process that did not answer
}

// ChipsOf returns the state of chips. Empty lists are empty in JSON, too.
func ChipsOf(topology string, views []api.ChipView, missing, silent []wire.FabricNodeID) Chips {
	return Chips{topology, append([]api.ChipView{}, views...), append([]wire.FabricNodeID{}, missing...), append([]wire.FabricNodeID{}, silent...)}
}

// Memory is what a command has read from the memory of a chip, or written to it.
type Memory struct {
	Chip      wire.FabricNodeID `json:"chip"`                // chip whose memory the command used; for a multicast: the source
	Address   string            `json:"address"`             // tile and offset of the first byte; "all" for the memory of all tiles
	Multicast string            `json:"multicast,omitempty"` // ranges of the chips that were written to, seen from Chip
	Chips     int               `json:"chips,omitempty"`     // number of chips that a multicast wrote to
	Bytes     int               `json:"bytes"`               // number of bytes that were read or written
	Hex       *string           `json:"hex,omitempty"`       // bytes that were read; nil if they are in File, and nil after a write
	File      string            `json:"file,omitempty"`      // name of the file with the bytes; "" if there is none
}

// Removed is the result of taking a chip out of the fabric.
type Removed struct {
	Chip    wire.FabricNodeID `json:"chip"`             // the chip
	Drained bool              `json:"drained"`          // whether the chip had no packets and requests under way when it ended
	Others  []RemovedChip     `json:"others,omitempty"` // further chips that the command removed; absent if there is none
}

// RemovedChip is one of several chips that `chip remove` removed.
type RemovedChip struct {
	Chip    wire.FabricNodeID `json:"chip"`    // chip that left
	Drained bool              `json:"drained"` // whether none of the chip's packets and requests was under way when the chip ended
}

// Cables is the result of a command that acts on cables.
type Cables struct {
	Action string   `json:"action"` // what the command has done, such as down
	Links  []string `json:"links"`  // the cables
}

// Healed is the result of the command 'link heal': what the command has put back.
type Healed struct {
	Action   string              `json:"action"`     // always put back
	Links    []string            `json:"links"`      // the cables that were cut
	Service  []string            `json:"in_service"` // the cables that were out of service
	Routers  []api.RouterView    `json:"routers"`    // the ports that were paused or draining
	Gossip   []wire.FabricNodeID `json:"gossip"`     // the chips whose gossip was cut
	Leaving  []wire.FabricNodeID `json:"accepting"`  // the chips that refused new requests, and accept them again
	Left     []string            `json:"left"`       // what the command left, each with the command that ends it
	NoAnswer []wire.FabricNodeID `json:"no_answer"`  // the chips that run and do not answer
}

// Channels is the list of sender and receiver channels that hold packets.
type Channels struct {
	Channels   []api.ChannelView   `json:"channels"`    // the channels
	NotRunning []wire.FabricNodeID `json:"not_running"` // the chips without a process
	NoAnswer   []wire.FabricNodeID `json:"no_answer"`   // the chips with a process that did not answer
}

// GossipChips is the result of a command that acts on the gossip of chips.
type GossipChips struct {
	Action string              `json:"action"` // what the command has done, such as cut off
	Chips  []wire.FabricNodeID `json:"chips"`  // the chips
}

// Reset is the result of removing the impairments of a network namespace.
type Reset struct {
	Action string `json:"action"` // always reset
	Ports  int    `json:"ports"`  // the number of ports that had an impairment
}

// Key is a new gossip key.
type Key struct {
	ID   string `json:"id"`             // the id of the key
	Bits int    `json:"bits"`           // the length of the key, in bits
	File string `json:"file,omitempty"` // the file with the key; absent if the field key has the key
	Key  string `json:"key,omitempty"`  // the key in base64; absent if the key is in a file
}

// Text is a text that a command makes of a topology, such as a picture.
type Text struct {
	Name   string  `json:"name"`           // the name of the topology
	Format string  `json:"format"`         // the format of the text
	File   string  `json:"file,omitempty"` // the file with the text; absent if the field text has the text
	Text   *string `json:"text,omitempty"` // the text; absent if the text is in a file
	Bytes  int     `json:"bytes"`          // the length of the text, in bytes
}

// Version is the version of the program.
type Version struct {
	Version string `json:"version"` // the version
}

// Fabric is a fabric that runs.
type Fabric struct {
	Name     string        `json:"name"`     // the name of the fabric
	Topology string        `json:"topology"` // the name of the topology
	Running  int           `json:"running"`  // the number of chips that run
	Chips    int           `json:"chips"`    // the number of chips in the topology
	Created  time.Time     `json:"created"`  // when the fabric was brought up
	Folder   string        `json:"folder"`   // the run folder, or the project of the containers
	Where    []folder.Chip `json:"where"`    // process, container and addresses of each running chip
}

// Routes are the routing tables of chips.
type Routes struct {
	Epoch string  `json:"epoch"` // the table epoch, 8 hexadecimal digits
	L0    []L0Row `json:"l0"`    // table L0, a row for each chip
	L1    []L1Row `json:"l1"`    // table L1, a row for each chip; empty with one mesh
}

// L0Row holds the source routes of one chip, in the form of the specification.
type L0Row struct {
	Src    wire.FabricNodeID   `json:"src"`    // the chip
	Dst    []wire.FabricNodeID `json:"dst"`    // destinations, in the order of the field routes
	Routes []string            `json:"routes"` // route to each chip; "-" from a chip to itself, "x" if there is no route
}

// L1Row holds the exit nodes of one chip, by destination mesh.
type L1Row struct {
	Src   wire.FabricNodeID `json:"src"`   // the chip
	To    []wire.MeshID     `json:"to"`    // destination meshes, in the order of the fields exits and ports
	Exits []string          `json:"exits"` // chip number of the exit node in the chip's mesh; "-" for the chip's mesh itself, "x" if there is no route
	Ports []string          `json:"ports"` // direction of the port out of the exit node, and "up" or "down" the tree of meshes; "" if there is no exit node
}
