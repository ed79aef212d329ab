package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"

	"ttfabric/node/admin/api"
)

// caller makes calls of the API, and checks the answers against the OpenAPI document.
type caller struct {
	t    *testing.T
	ctx  context.Context
	spec *spec
	seen map[string]bool // kinds of answers received so far, such as "GET /v1/chip 200 application/json"
}

// call makes one call, and checks the answer against the OpenAPI document. A query of {kind}=x
// replaces {kind} in the path.
func (c *caller) call(addr, method, path, query, body string, status int) string {
	c.t.Helper()
	resp := c.open(addr, method, path, query, body, token, status)
	defer resp.Body.Close()
	return c.read(method, path, resp)
}

// open makes one call, and returns the answer before its content is read. The answer must have the
// given status. If status is 0, open accepts any status.
func (c *caller) open(addr, method, path, query, body, token string, status int) *http.Response {
	c.t.Helper()
	at := path
	if kind, ok := strings.CutPrefix(query, "{kind}="); ok {
		kind, query, _ = strings.Cut(kind, "&")
		at = strings.ReplaceAll(path, "{kind}", kind)
	}
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(c.ctx, method, "http://"+addr+at+"?"+query, content)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	if status != 0 && resp.StatusCode != status {
		b, _ := io.ReadAll(resp.Body)
		c.t.Errorf("%s %s?%s with %.200s: %s, want %d: %s", method, path, query, body, resp.Status, status, b)
	}
	return resp
}

// read reads an answer, and checks the answer against the OpenAPI document.
func (c *caller) read(method, path string, resp *http.Response) string {
	c.t.Helper()
	name := fmt.Sprintf("%s %s %d", method, path, resp.StatusCode)
	known, ok := c.spec.Paths[path][strings.ToLower(method)].Responses[fmt.Sprint(resp.StatusCode)]
	if !ok {
		c.t.Fatalf("%s is not in the document", name)
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if len(known.Content) == 0 {
		c.seen[name] = true
		if b, err := io.ReadAll(resp.Body); media != "" || len(b) > 0 || err != nil {
			c.t.Errorf("%s has content: %s %q %v", name, media, b, err)
		}
		return ""
	}
	for want, content := range known.Content {
		if base, _, _ := mime.ParseMediaType(want); base == media {
			c.seen[name+" "+want] = true
			return c.content(name, media, resp.Body, content.Schema)
		}
	}
	c.t.Errorf("%s answers %q, which is not in the document", name, media)
	return ""
}

// content checks the content of an answer. Of a stream of events, content reads the first three
// events. All other content is read to its end.
func (c *caller) content(name, media string, body io.Reader, s *schema) string {
	c.t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	switch media {
	case api.MediaEvents:
		for n := 0; n < 3 && lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				c.json(name, data, s)
				n++
			}
		}
	case api.MediaLines:
		var all []string
		for lines.Scan() {
			c.json(name, lines.Text(), s)
			all = append(all, lines.Text())
		}
		return strings.Join(all, "\n")
	default:
		b, err := io.ReadAll(body)
		if err != nil || len(b) == 0 {
			c.t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if strings.HasSuffix(media, "json") {
			c.json(name, string(b), s)
		}
		return string(b)
	}
	if lines.Err() != nil {
		c.t.Errorf("%s: %v", name, lines.Err())
	}
	return ""
}

func (c *caller) json(name, text string, s *schema) {
	c.t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		c.t.Errorf("%s: %v", name, err)
		return
	}
	if err := c.spec.check("the answer", v, s); err != nil {
		c.t.Errorf("%s: %v\n%.2000s", name, err, text)
	}
}
