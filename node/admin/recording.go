package admin

import (
	"fmt"

	"ttfabric/node"
)

// recordEvent renders the begin or end of a recording.
func recordEvent(v *EventView, e *node.RecordEvent) {
	v.Type, v.Action, v.Actor = "recording", "began", v.Chip.String()
	v.Detail["file"] = e.File
	if e.Ended {
		v.Action = "ended"
		v.Detail["reason"], v.Detail["bytes"] = e.Why, fmt.Sprint(e.Bytes)
	}
}
