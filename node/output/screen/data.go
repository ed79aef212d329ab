// Package screen prints data as JSON and YAML, and draws progress bars on a terminal.
package screen

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// JSON prints v to w as JSON, with indentation of two spaces.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// YAML prints v to w as YAML. Every JSON text is also YAML. So YAML reads the JSON of v as YAML, and
// changes the style.
func YAML(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(b, &n); err != nil {
		return err
	}
	blockStyle(&n)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(&n), e.Close())
}

// blockStyle makes the encoder print a document in lines with indentation, without braces and
// quotes. Strings that look like another type, such as "12", stay quoted.
func blockStyle(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	for _, sub := range n.Content {
		blockStyle(sub)
	}
}

// JSONLine prints v, one of many values, to w as a line of JSON.
func JSONLine(w io.Writer, v any) error { return line(w, "", v) }

// YAMLItem prints v, one of many values, to w as an item of a YAML list, in one line.
func YAMLItem(w io.Writer, v any) error { return line(w, "- ", v) }

func line(w io.Writer, before string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", before, b)
	return err
}
