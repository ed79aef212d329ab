// Package yamldoc parses files that have one YAML document: topology files, descriptors and
// scenarios. The callers of yamldoc name the line of every mistake in a file.
package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parse returns the root of the first document in data, or nil if data has no document. The root of
// the empty document "---" is a null value, see [Null]. The result "second" is the second document,
// or nil if data has only one document. The error is the YAML parser's own error about the first or
// second document. [Place] finds the line in this error.
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

// Place splits an error of the YAML parser into the line and the complaint. The line is 0 if the
// parser names no line.
func Place(err error) (line int, complaint string) {
	complaint = strings.TrimPrefix(err.Error(), "yaml: ")
	if at, rest, ok := strings.Cut(complaint, ": "); ok {
		if n, ok := strings.CutPrefix(at, "line "); ok {
			if line, err := strconv.Atoi(n); err == nil {
				return line, rest
			}
		}
	}
	return 0, complaint
}

// Kind returns "a map" for a map, "a list" for a list, "an alias" for an alias, and "" for any
// other node.
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

// Null reports whether n stands for no value, as in "chips:" or "chips: ~".
func Null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// Alias returns an error message for a node that is a YAML alias, and "" for any other node. A few
// lines of aliases can stand for billions of values, and no file needs aliases.
func Alias(n *yaml.Node) string {
	if n.Kind != yaml.AliasNode {
		return ""
	}
	return fmt.Sprintf("*%s is a YAML alias, which is not supported; write the value out", n.Value)
}
