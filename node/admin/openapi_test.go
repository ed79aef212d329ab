package admin_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"ttfabric/node/admin/api"
)

// spec holds the parts of the API's OpenAPI document that the test needs to check answers.
type spec struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]*schema }
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct{ Schema *schema }
	}
	RequestBody *struct{}
	Security    []map[string][]string
}

// schema is a JSON Schema with the keywords that the document uses. The test fails if the document
// uses another keyword.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format               string
	Description          string
	Pattern              string
	Examples             []any
	Enum                 []any
	OneOf                []*schema
	Items                *schema
	MinItems, MaxItems   *int
	MaxLength            *int
	Minimum, Maximum     *float64
	ContentEncoding      string
	ContentMediaType     string
	Properties           map[string]*schema
	AdditionalProperties json.RawMessage
	Required             []string
}

func readSpec() (s *spec, err error) {
	if err := json.Unmarshal(api.OpenAPI, &s); err != nil {
		return nil, err
	}
	var again struct {
		Components struct{ Schemas json.RawMessage }
	}
	if err := json.Unmarshal(api.OpenAPI, &again); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(again.Components.Schemas))
	d.DisallowUnknownFields() // a keyword that check does not know is an error
	s.Components.Schemas = nil
	return s, d.Decode(&s.Components.Schemas)
}

// check returns an error if the value v does not fit the schema c. The text "at" says where v is in
// the answer. A field that is not in the schema is an error too, although the document allows
// further fields.
func (s *spec) check(at string, v any, c *schema) error {
	if name, ok := strings.CutPrefix(c.Ref, "#/components/schemas/"); ok {
		return s.check(at, v, s.Components.Schemas[name])
	}
	if c.OneOf != nil {
		fits, errs := 0, []string{}
		for _, o := range c.OneOf {
			if err := s.check(at, v, o); err != nil {
				errs = append(errs, err.Error())
			} else {
				fits++
			}
		}
		if fits != 1 {
			return fmt.Errorf("%s fits %d of the schemas: %s", at, fits, strings.Join(errs, "; "))
		}
		return nil
	}
	if c.Enum != nil && !slices.Contains(c.Enum, v) {
		return fmt.Errorf("%s is %v, want one of %v", at, v, c.Enum)
	}
	types, _ := c.Type.([]any)
	if one, ok := c.Type.(string); ok {
		types = []any{one}
	}
	switch v := v.(type) {
	case nil:
		return want(at, v, types, "null")
	case bool:
		return want(at, v, types, "boolean")
	case string:
		return errOr(want(at, v, types, "string"), s.text(at, v, c))
	case json.Number:
		return number(at, v, types, c)
	case []any:
		if c.MinItems != nil && len(v) < *c.MinItems || c.MaxItems != nil && len(v) > *c.MaxItems {
			return fmt.Errorf("%s has %d items", at, len(v))
		}
		for i := range v {
			if err := s.check(fmt.Sprintf("%s[%d]", at, i), v[i], c.Items); err != nil {
				return err
			}
		}
		return want(at, v, types, "array")
	case map[string]any:
		return errOr(want(at, v, types, "object"), s.object(at, v, c))
	}
	return fmt.Errorf("%s is %v", at, v)
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func want(at string, v any, types []any, is string) error {
	if !slices.Contains(types, any(is)) {
		return fmt.Errorf("%s is %v, want %v", at, v, types)
	}
	return nil
}

func (s *spec) text(at, v string, c *schema) error {
	var err error
	switch {
	case c.Pattern != "" && !regexp.MustCompile(c.Pattern).MatchString(v):
		err = fmt.Errorf("want %s", c.Pattern)
	case c.Format == "date-time":
		_, err = time.Parse(time.RFC3339, v)
	case c.ContentEncoding == "base64":
		_, err = base64.StdEncoding.DecodeString(v)
	}
	if err != nil {
		return fmt.Errorf("%s is %q: %w", at, v, err)
	}
	return nil
}

func number(at string, v json.Number, types []any, c *schema) error {
	x, err := v.Float64()
	if err != nil || c.Minimum != nil && x < *c.Minimum || c.Maximum != nil && x > *c.Maximum {
		return fmt.Errorf("%s is %s, out of range", at, v)
	}
	if slices.Contains(types, any("number")) {
		return nil
	}
	if strings.ContainsAny(v.String(), ".eE") {
		return fmt.Errorf("%s is %s, want %v", at, v, types)
	}
	return want(at, v, types, "integer")
}

func (s *spec) object(at string, v map[string]any, c *schema) error {
	for _, name := range c.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s has no %s", at, name)
		}
	}
	var others *schema
	if len(c.AdditionalProperties) > 0 && string(c.AdditionalProperties) != "false" {
		if err := json.Unmarshal(c.AdditionalProperties, &others); err != nil {
			return err
		}
	}
	if c.Properties == nil && others == nil {
		return nil // the schema allows any object
	}
	for name, x := range v {
		p := c.Properties[name]
		if p == nil {
			p = others
		}
		if p == nil {
			return fmt.Errorf("%s has the field %s, which is not in the document", at, name)
		}
		if err := s.check(at+"."+name, x, p); err != nil {
			return err
		}
	}
	return nil
}
