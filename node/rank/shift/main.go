// Command shift is a rank that writes to its right neighbour and checks what its left neighbour wrote.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"

	"ttfabric/node/rank"
	"ttfabric/wire"
)

var data, count = wire.NewNocAddr(1, 1, 0x20000), wire.NewNocAddr(1, 1, 0x10000)

func main() {
	ctx := context.Background()
	me, err := rank.Attach(ctx)
	if err != nil {
		log.Fatal(err)
	}
	self, right, left := me.Self(), me.Chips[(me.Rank+1)%me.World], (me.Rank+me.World-1)%me.World
	got := make([]byte, 65536)
	err = me.InlineWrite(ctx, self, count, 0) // the counter begins at 0
	err = errors.Join(err, me.Barrier(ctx))   // on all chips
	err = errors.Join(err, me.Write(ctx, right, data, bytes.Repeat([]byte{byte(me.Rank)}, len(got))))
	err = errors.Join(err, me.AtomicInc(ctx, right, count, 1, true))
	_, werr := me.WaitCounter(ctx, count, 1)
	if err = errors.Join(err, werr, me.Read(ctx, self, data, got)); err != nil {
		log.Fatal(err)
	}
	if bytes.Count(got, []byte{byte(left)}) != len(got) {
		log.Fatalf("chip %s has wrong data", self)
	}
	fmt.Printf("chip %s has the data of rank %d\n", self, left)
}
