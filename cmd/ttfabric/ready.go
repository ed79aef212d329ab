package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"ttfabric/node/fabric/spec"

	"github.com/spf13/cobra"
)

// readyAnswer is how much of a chip's answer is read, in bytes.
const readyAnswer = 4 << 10

func newReady() *cobra.Command {
	var api string
	var live bool
	var patience time.Duration
	c := &cobra.Command{
		Use: "ready", Short: "Ask one chip whether all its links are up", Args: cobra.NoArgs,
		Long: `ready asks the API of one chip, which needs no token for it, and exits with 0
when all declared links of the chip are up, with 4 and what is missing otherwise:
the health check of a container that holds nothing but this program.`,
		Example: "  ttfabric ready --api 127.0.0.1:8474",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), patience)
			defer cancel()
			path := "/readyz"
			if live {
				path = "/livez"
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+api+path, nil)
			if err != nil {
				return spec.Usagef("--api %q: want HOST:PORT", api)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				if errors.Is(c.Context().Err(), context.Canceled) {
					return context.Canceled
				}
				return spec.NotReadyf("no chip answers at %s: %w", api, errors.Unwrap(err))
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(io.LimitReader(resp.Body, readyAnswer))
			answer := strings.TrimSpace(string(b))
			if resp.StatusCode != http.StatusOK {
				return spec.NotReadyf("not ready: %s", answer)
			}
			fmt.Fprintln(c.OutOrStdout(), answer)
			return nil
		},
	}
	c.Flags().StringVar(&api, "api", "127.0.0.1:8474", "address of the chip's API")
	c.Flags().BoolVar(&live, "live", false, "ask only whether the chip's process runs")
	c.Flags().DurationVar(&patience, "timeout", 3*time.Second, "how long an answer is waited for")
	return c
}
