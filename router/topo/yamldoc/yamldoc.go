// Package yamldoc reads files of one YAML document for readers that name the
// line of every mistake: topology files, descriptors and scenarios.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse returns the root of the first document in data, or nil if the document is empty or missing.
// The result second is the second document, or nil if there is only one. The error is the parser's
// own, and [Place] takes this error apart.
func Parse(data []byte) (root, second *yaml.Node, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	if err := dec.Decode(&more); err == nil {
		second = &more
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if len(doc.Content) > 0 {
		root = doc.Content[0]
	}
	return root, second, nil
}

// parserLine matches the form in which the YAML parser names a line.
var parserLine = regexp.MustCompile(`^yaml: line (\d+): `)

// Place takes an error of the YAML parser apart. Place returns the line that the parser names, or 0
// if the parser names no line, and the complaint itself.
func Place(err error) (line int, complaint string) {
	if m := parserLine.FindStringSubmatch(err.Error()); m != nil {
		line, _ = strconv.Atoi(m[1])
		return line, strings.TrimPrefix(err.Error(), m[0])
	}
	return 0, strings.TrimPrefix(err.Error(), "yaml: ")
}

// Kind returns the kind of a node that is not a plain value: "a map", "a list" or "an alias". For a
// plain value, Kind returns "".
func Kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	return ""
}

// Null reports whether a plain value was left out: "chips:" or "chips: ~".
func Null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Alias returns the complaint about a node that is one of YAML's references. For any other node,
// Alias returns "". A few lines of references can stand for billions of values, and no file uses
// references.
func Alias(n *yaml.Node) string {
	if n.Kind != yaml.AliasNode {
		return ""
	}
	return fmt.Sprintf("*%s is a YAML alias, which is not supported; write the value out", n.Value)
}
