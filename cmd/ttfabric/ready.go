package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"ttfabric/node/admin/api"
	"ttfabric/node/fabric/spec"

	"github.com/spf13/cobra"
)

// readyAnswer is the largest number of bytes of a chip's answer that the command reads.
const readyAnswer = 4 << 10

func newReady() *cobra.Command {
	var at string
	var live bool
	var patience time.Duration
	c := &cobra.Command{
		Use: "ready", Short: "Ask one chip whether all its links are up", Args: cobra.NoArgs,
		Long: `The command asks the API of one chip whether all declared links of the chip are up.
The call needs no token. A container that holds only this program can use the
command as its health check.

Exit code 0 if all links are up, 4 if links are missing or no chip answers.`,
		Example: "  ttfabric ready --api 127.0.0.1:8474",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), patience)
			defer cancel()
			path := "/readyz"
			if live {
				path = "/livez"
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+path, nil)
			if err != nil {
				return spec.Usagef("--api %q: want HOST:PORT", at)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				if errors.Is(c.Context().Err(), context.Canceled) {
					return context.Canceled
				}
				return spec.NotReadyf("--api %s: no chip answers at this address: %w", at, errors.Unwrap(err))
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(io.LimitReader(resp.Body, readyAnswer))
			if resp.StatusCode != http.StatusOK {
				return spec.NotReadyf("the chip at %s is not ready: %s", at, api.ReadProblem(b).Detail)
			}
			answer := strings.TrimSpace(string(b))
			fmt.Fprintln(c.OutOrStdout(), answer)
			return nil
		},
	}
	c.Flags().StringVar(&at, "api", "127.0.0.1:8474", "address of the chip's API")
	c.Flags().BoolVar(&live, "live", false, "ask only whether the chip's process runs")
	c.Flags().DurationVar(&patience, "timeout", 3*time.Second, "wait at most this long for an answer")
	return c
}
