package losses

import (
	"encoding/json"

	"ttfabric/wire"
)

// ClassNames are the names of the classes of packets in JSON and in tables.
var ClassNames = [wire.NumClasses]string{"requests", "replies", "control"}

// Drops counts the packets that routers dropped, by reason.
type Drops [wire.NumDropReasons]Count

// Classes holds a balance for each class of packets.
type Classes [wire.NumClasses]Total

// MarshalJSON writes an object with a member for each class.
func (c Count) MarshalJSON() ([]byte, error) { return marshal(ClassNames[:], c[:]) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Count) UnmarshalJSON(b []byte) error { return unmarshal(b, ClassNames[:], c[:]) }

// MarshalJSON writes an object with a member for each class.
func (c Classes) MarshalJSON() ([]byte, error) { return marshal(ClassNames[:], c[:]) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Classes) UnmarshalJSON(b []byte) error { return unmarshal(b, ClassNames[:], c[:]) }

// MarshalJSON writes an object with a member for each reason.
func (d Drops) MarshalJSON() ([]byte, error) { return marshal(reasons(), d[1:]) }

// UnmarshalJSON reads what MarshalJSON writes.
func (d *Drops) UnmarshalJSON(b []byte) error { return unmarshal(b, reasons(), d[1:]) }

func reasons() (names []string) {
	for r := wire.DropReason(1); r < wire.NumDropReasons; r++ {
		names = append(names, r.String())
	}
	return names
}

func marshal[T any](names []string, vs []T) ([]byte, error) {
	m := map[string]T{}
	for i, v := range vs {
		m[names[i]] = v
	}
	return json.Marshal(m)
}

// unmarshal reads the members with known names. Members that are missing get zero.
func unmarshal[T any](b []byte, names []string, vs []T) error {
	var m map[string]T
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	for i := range vs {
		vs[i] = m[names[i]]
	}
	return nil
}
