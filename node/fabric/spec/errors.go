package spec

import "fmt"

// Kind says what an [Error] is about. A command maps the kind to an exit code.
type Kind uint8

// The kinds of errors.
const (
	Usage    Kind = iota // a value from the user is wrong, or contradicts another value
	Topology             // the topology, or its routes, cannot be used
	NotReady             // the fabric did not come up in time, or did not finish its work in time
)

// Error is an error with a kind. The text of an Error says what is wrong and what to do.
type Error struct {
	Kind Kind
	Err  error
}

// Error returns the text, without the kind.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the error without the kind.
func (e *Error) Unwrap() error { return e.Err }

// Usagef returns an error of kind [Usage]. The format is that of [fmt.Errorf].
func Usagef(format string, a ...any) error { return &Error{Usage, fmt.Errorf(format, a...)} }

// Topologyf returns an error of kind [Topology]. The format is that of [fmt.Errorf].
func Topologyf(format string, a ...any) error { return &Error{Topology, fmt.Errorf(format, a...)} }

// NotReadyf returns an error of kind [NotReady]. The format is that of [fmt.Errorf].
func NotReadyf(format string, a ...any) error { return &Error{NotReady, fmt.Errorf(format, a...)} }

// AsUsage returns the error err with the kind [Usage], or nil if err is nil.
func AsUsage(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Usage, err}
}
