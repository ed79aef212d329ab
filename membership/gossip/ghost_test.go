package gossip

import (
	"io"

	"github.com/hashicorp/memberlist"
)

type memberNode = memberlist.Node

// says is a memberlist delegate that has the given bytes as metadata.
type says []byte

func (s says) NodeMeta(int) []byte           { return s }
func (says) NotifyMsg([]byte)                {}
func (says) GetBroadcasts(_, _ int) [][]byte { return nil }
func (says) LocalState(bool) []byte          { return nil }
func (says) MergeRemoteState([]byte, bool)   {}

// ghost starts a memberlist member without a Pool, with any name and any metadata.
func ghost(name, at string, meta []byte) (*memberlist.Memberlist, error) {
	mc := memberlist.DefaultLocalConfig()
	mc.Name, mc.BindAddr, mc.BindPort, mc.Label, mc.LogOutput, mc.Delegate = name, at, 0, "fire", io.Discard, says(meta)
	return memberlist.Create(mc)
}
