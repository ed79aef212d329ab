package api

import (
	"encoding/json"
	"fmt"

	"ttfabric/wire"
)

// Channels are ethernet channels of a chip. In JSON, Channels is a list of numbers from 0 to 15
// ([wire.MaxChannels] less 1).
type Channels []wire.Channel

// MarshalJSON writes a list of numbers. By default, package encoding/json would write a string in
// base64, because a channel is one byte.
func (c Channels) MarshalJSON() ([]byte, error) {
	numbers := make([]int, len(c))
	for i, ch := range c {
		numbers[i] = int(ch)
	}
	return json.Marshal(numbers)
}

// UnmarshalJSON reads a list of numbers. UnmarshalJSON also reads a string in base64, with one byte
// for each channel, because clients of an earlier version of the API send strings in base64.
func (c *Channels) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*[]wire.Channel)(c)) }

// Hops are the directions that a packet takes, hop by hop, at most [wire.MaxHops]. In JSON, Hops is
// a list of the letters "E", "W", "N", "S" and "Z", for east, west, north, south and the direction
// Z of cables between meshes.
type Hops []wire.Direction

// Names returns the letters that a hop may have in JSON.
func (Hops) Names() (all []string) {
	for d := range wire.Direction(wire.NumSides) {
		all = append(all, d.String())
	}
	return all
}

// MarshalJSON writes a list of letters. MarshalJSON returns an error for a value that is not a
// direction.
func (h Hops) MarshalJSON() ([]byte, error) {
	letters := make([]string, len(h))
	for i, d := range h {
		if d >= wire.NumSides {
			return nil, fmt.Errorf("direction %d: want 0 to %d", d, wire.NumSides-1)
		}
		letters[i] = d.String()
	}
	return json.Marshal(letters)
}

// UnmarshalJSON reads a list of letters. UnmarshalJSON also reads the numbers 0 to 4 for east,
// west, north, south and Z, because clients of an earlier version of the API send numbers. The numbers
// may be a list, or the bytes of a string in base64.
func (h *Hops) UnmarshalJSON(b []byte) error {
	var letters []string
	if json.Unmarshal(b, &letters) != nil {
		return json.Unmarshal(b, (*[]wire.Direction)(h))
	}
	*h = nil
	for _, l := range letters {
		d, err := parseDirection(l)
		if err != nil {
			return err
		}
		*h = append(*h, d)
	}
	return nil
}

func parseDirection(letter string) (wire.Direction, error) {
	for d := range wire.Direction(wire.NumSides) {
		if d.String() == letter {
			return d, nil
		}
	}
	return 0, fmt.Errorf("hop %q: want E, W, N, S or Z", letter)
}
