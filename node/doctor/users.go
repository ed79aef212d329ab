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
// order.
func OtherUsers() []uint32 {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var owners []uint32
	for _, path := range paths {
		if fi, err := os.Lstat(path); err == nil { // an error means that the process has ended
			owners = append(owners, fi.Sys().(*syscall.Stat_t).Uid)
		}
	}
	return people(owners, uint32(os.Getuid()))
}

// people returns the ids of the people among the owners of processes, except self, in ascending
// order and each once.
func people(owners []uint32, self uint32) []uint32 {
	ids := slices.DeleteFunc(slices.Clone(owners), func(id uint32) bool { return id < firstPerson || id > lastPerson || id == self })
	slices.Sort(ids)
	return slices.Compact(ids)
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
	others := OtherUsers()
	switch text := Unsealed(others); {
	case text == "":
		return ok("no other user has processes on this machine")
	case p.Runtime == spec.Docker:
		return ok("other users have processes on this machine, but chips in containers have a network of their own")
	default:
		return bad(Warning, "bring the fabric up with --auth psk or --transport quic", "%s", text)
	}
}
