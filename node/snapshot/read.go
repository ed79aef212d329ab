package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	_ "embed"
)

// Schema is the JSON Schema (draft 2020-12) of a snapshot file. A test generates the schema from the
// types of this package and from their comments.
//
//go:embed schema.json
var Schema []byte

// Read reads and checks a snapshot. Read takes at most [MaxFile] bytes. The error names the field
// that is wrong.
func Read(r io.Reader) (*File, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > MaxFile:
		return nil, fmt.Errorf("snapshot: the file is longer than %d bytes", MaxFile)
	}
	return Decode(b)
}

// Decode reads and checks a snapshot, as [Read] does.
func Decode(b []byte) (*File, error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if head.Format != Format {
		return nil, fmt.Errorf("snapshot: format: %q: want %q", head.Format, Format)
	}
	if head.Version != Version {
		return nil, fmt.Errorf("snapshot: version: %d: this program reads version %d", head.Version, Version)
	}
	f := &File{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return f, f.Check()
}

// Encode returns the snapshot as JSON, with a line break at the end.
func (f *File) Encode() ([]byte, error) {
	b, err := json.Marshal(f)
	if err == nil && len(b) >= MaxFile {
		err = fmt.Errorf("snapshot: the file would have %d bytes: want less than %d; leave out memory or payloads", len(b), MaxFile)
	}
	return append(b, '\n'), err
}
