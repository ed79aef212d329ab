package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ttfabric/node"
	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
)

// proved finds that a chip's routes are those that were proved, or proves them.
func proved(t *topo.Topology, cfg route.Config, hash uint32) error {
	p, err := route.New(t, cfg)
	if err != nil {
		return err
	}
	if p.Hash() == hash {
		return nil
	}
	if v := p.Check(p.Multicasts()); !v.Sound() {
		return fmt.Errorf("routes %08x are refused, as they %s", p.Hash(), &v)
	}
	return nil
}

