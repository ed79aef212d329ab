// Command hostile opens many connections to a chip's API, as a caller without a token who wants to
// harm the chip. A quarter of the connections send a header of 960 KB and a body that never comes. A
// quarter send a small header and a body that never comes. A quarter send a header byte by byte, and
// a quarter send nothing. When the chip closes a connection, the program opens another one.
//
//	hostile [-n 1000] [-for 20s] ADDRESS:PORT
//
// At the end, the program prints how many connections it opened and how many were open at once.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// header is the length of a large header, in bytes. A chip's own limit is smaller, and the default
// limit of the standard library is larger.
const header = 960_000

// counts are the counts of all connections.
type counts struct {
	opened, open, most, refused, sent atomic.Int64
}

func main() {
	n := flag.Int("n", 1000, "number of connections at once")
	last := flag.Duration("for", 20*time.Second, "time")
	flag.Parse()
	if flag.NArg() != 1 || *n < 1 {
		fmt.Fprintln(os.Stderr, "usage: hostile [-n 1000] [-for 20s] ADDRESS:PORT")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *last)
	defer cancel()
	var c counts
	var all sync.WaitGroup
	for i := range *n {
		all.Go(func() {
			for ctx.Err() == nil {
				if err := c.hold(ctx, flag.Arg(0), i%4); err != nil {
					c.refused.Add(1)
				}
				select {
				case <-time.After(100 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
	fmt.Printf("%d connections opened, at most %d open at once, %d dials refused, %d MB sent\n", c.opened.Load(), c.most.Load(), c.refused.Load(), c.sent.Load()>>20)
	if c.opened.Load() < int64(*n) {
		fmt.Fprintf(os.Stderr, "fewer than %d connections were opened\n", *n)
		os.Exit(1)
	}
}

// hold opens a connection of one kind, and holds it until the chip closes the connection or the time
// is over.
func (c *counts) hold(ctx context.Context, addr string, kind int) error {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	c.opened.Add(1)
	now := c.open.Add(1)
	defer c.open.Add(-1)
	for m := c.most.Load(); now > m && !c.most.CompareAndSwap(m, now); m = c.most.Load() {
	}
	const post = "POST /v1/requests HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
	switch kind {
	case 0:
		c.write(conn, post+"X: "+strings.Repeat("x", header)+"\r\n\r\n")
	case 1:
		c.write(conn, post+"\r\n{")
	case 2:
		go func() {
			for c.write(conn, "G") {
				time.Sleep(200 * time.Millisecond)
			}
		}()
	}
	io.Copy(io.Discard, bufio.NewReader(conn)) // until the chip closes the connection
	return nil
}

// write sends text, and reports whether the connection took all of it.
func (c *counts) write(conn net.Conn, text string) bool {
	n, err := io.WriteString(conn, text)
	c.sent.Add(int64(n))
	return err == nil
}
