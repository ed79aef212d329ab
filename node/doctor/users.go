package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ttfabric/node/fabric/spec"
)

// The user ids of people, as Linux distributions assign them (login.defs(5), UID_MIN and UID_MAX).
const (
	firstPerson = 1000
	lastPerson  = 60000
)

// maxNamed is the largest number of user ids that a text names.
const maxNamed = 4

// OtherUsers returns the ids of the other people who have processes on this machine, in ascending
// order. proc is the folder /proc.
func OtherUsers(proc string) (ids []uint32) {
	paths, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, path := range paths {
		fi, err := os.Lstat(path)
		if err != nil {
			continue // the process has ended
		}
		id := fi.Sys().(*syscall.Stat_t).Uid
		if id >= firstPerson && id <= lastPerson && id != uint32(os.Getuid()) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Unsealed says what links without authentication mean on a machine with other users. If there are
// no other users, Unsealed returns "".
func Unsealed(others []uint32) string {
	if len(others) == 0 {
		return ""
	}
	var names []string
	for _, id := range others[:min(len(others), maxNamed)] {
		names = append(names, fmt.Sprint(id))
	}
	if len(others) > maxNamed {
		names = append(names, "…")
	}
	return fmt.Sprintf("other users (uid %s) have processes on this machine. With --auth none, they can take the UDP port of a chip that has ended, "+
		"and then read and write the tiles of its neighbours", strings.Join(names, ", "))
}

func lookUsers(_ context.Context, p *patient) Finding {
	others := OtherUsers("/proc")
	switch text := Unsealed(others); {
	case text == "":
		return ok("no other user has processes on this machine")
	case p.Runtime == spec.Docker:
		return ok("other users have processes on this machine, but chips in containers have a network of their own")
	default:
		return bad(Warning, "bring the fabric up with --auth psk or --transport quic", "%s", text)
	}
}
