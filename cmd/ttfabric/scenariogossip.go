package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"ttfabric/node/scenario"
	"ttfabric/ttlink/fault"
)

// maxAnswer is how much of a chip's answer is read, in bytes.
const maxAnswer = 1 << 16

// gossip asks a chip what is done to its gossip, or has it changed as an action says.
func (g *liveStage) gossip(ctx context.Context, f chipFile, method string, a *scenario.Action) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var body struct {
		Options fault.Change `json:"options,omitempty"`
		Cut     bool         `json:"cut,omitempty"`
		ForS    float64      `json:"for_seconds,omitempty"`
	}
	if a != nil {
		what := a.Step.Gossip
		body.Options, body.Cut, body.ForS = fault.Change{}, what.Down, a.For.Seconds()
		if what.Delay > 0 {
			body.Options["delay"] = what.Delay.String()
		}
		if what.Loss != "" {
			body.Options["loss"] = what.Loss
		}
		if len(body.Options) == 0 && !body.Cut {
			method = http.MethodDelete
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+f.API+"/v1/gossip", bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+g.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("chip %s does not answer: %w", f.Chip, err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("chip %s: %s", f.Chip, strings.TrimSpace(string(text)))
	}
	return nil
}
