package socket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A pipe sends a file, or any stream of bytes, over a socket whose page is 1 byte. The stream of a pipe:
//
//	8 bytes "TTPIPE", 1, 0
//	u64     length of the file in bytes; 2^64-1: not known before the end
//	blocks  u32 length, 1 to MaxBlock, and as many bytes
//	u32     0: the end
//	u64     number of bytes
//	32      SHA-256 of the bytes
const pipeMagic = "TTPIPE\x01\x00"

// Limits of a pipe. ttfabric chose these values.
const (
	MaxBlock   = 1 << 20   // largest block of a pipe, in bytes
	pipeBlock  = 128 << 10 // length of the blocks that Pipe sends, in bytes
	pipeBlocks = 4         // blocks that Pipe reads ahead
	pipeEnd    = 8 + sha256.Size
)

// Unknown is the length of a stream whose length is not known before its end.
const Unknown = math.MaxUint64

// ErrSum is the error of a stream whose received bytes have another SHA-256 or length than the sent
// bytes.
var ErrSum = errors.New("the received bytes differ from the sent bytes: their SHA-256 differs")

// Piped says what a pipe has sent or received.
type Piped struct {
	Bytes uint64
	Sum   [sha256.Size]byte // SHA-256 of the bytes
}

// Pipe sends all bytes of a reader, and their SHA-256. The function "progress", if not nil, gets the number
// of bytes so far. If ctx ends, Pipe returns at once; a Read of "in" may still be under way. The caller
// closes the Sender.
func Pipe(ctx context.Context, x *Sender, in io.Reader, length uint64, progress func(done uint64)) (p Piped, err error) {
	h := sha256.New()
	if err = x.Send(ctx, binary.LittleEndian.AppendUint64([]byte(pipeMagic), length)); err != nil {
		return p, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	blocks, failed := readAhead(ctx, in)
	var calls []*Call
	wait := func() error {
		_, err := calls[0].Wait(ctx)
		calls = calls[1:]
		return err
	}
	for {
		var b []byte
		select {
		case b = <-blocks:
		case <-ctx.Done():
			return p, ctx.Err()
		}
		if b == nil {
			break
		}
		h.Write(b[4:])
		c, err := x.Start(ctx, b)
		if err != nil {
			return p, err
		}
		if calls = append(calls, c); len(calls) == pipeBlocks {
			if err := wait(); err != nil {
				return p, err
			}
		}
		if p.Bytes += uint64(len(b) - 4); progress != nil {
			progress(p.Bytes)
		}
	}
	for len(calls) > 0 {
		if err := wait(); err != nil {
			return p, err
		}
	}
	if err := <-failed; err != nil {
		return p, err
	}
	h.Sum(p.Sum[:0])
	end := binary.LittleEndian.AppendUint64(make([]byte, 4, 4+pipeEnd), p.Bytes)
	return p, x.Send(ctx, append(end, p.Sum[:]...))
}

// readAhead reads the blocks of a stream, and puts the length before each block. After the last
// block, blocks is closed and "failed" gets the error of the reader, or nil.
func readAhead(ctx context.Context, in io.Reader) (blocks chan []byte, failed chan error) {
	blocks, failed = make(chan []byte, pipeBlocks), make(chan error, 1)
	go func() {
		defer close(blocks)
		for {
			b := make([]byte, 4+pipeBlock)
			n, err := io.ReadAtLeast(in, b[4:], 1)
			if n > 0 {
				binary.LittleEndian.PutUint32(b, uint32(n))
				select {
				case blocks <- b[:4+n]:
				case <-ctx.Done():
					return
				}
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = nil
			} else if err == nil {
				continue
			}
			failed <- err
			return
		}
	}()
	return blocks, failed
}

// stream is a Receiver as an [io.Reader].
type stream struct {
	ctx context.Context
	x   *Receiver
}

// Read receives bytes with [Receiver.Recv].
func (s stream) Read(b []byte) (int, error) { return s.x.Recv(s.ctx, b) }

// Unpipe receives the stream that [Pipe] sends, and writes its bytes to "out". If the SHA-256 or
// the number of the received bytes differs from the sender's, the error is [ErrSum]. The function
// "progress", if not nil, gets the number of bytes so far, and the length of the stream or
// [Unknown]. The caller closes the Receiver.
func Unpipe(ctx context.Context, x *Receiver, out io.Writer, progress func(done, length uint64)) (Piped, error) {
	return unpipe(bufio.NewReaderSize(stream{ctx, x}, 2*pipeBlock), out, progress)
}

func unpipe(in io.Reader, out io.Writer, progress func(done, length uint64)) (p Piped, err error) {
	var head [len(pipeMagic) + 8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return p, fmt.Errorf("the stream has no beginning: %w", err)
	}
	if !bytes.HasPrefix(head[:], []byte(pipeMagic)) {
		return p, fmt.Errorf("the stream begins with %q: the sender is no 'socket send'", head[:len(pipeMagic)])
	}
	length, h := binary.LittleEndian.Uint64(head[len(pipeMagic):]), sha256.New()
	out = io.MultiWriter(out, h)
	for {
		var word [4]byte
		if _, err := io.ReadFull(in, word[:]); err != nil {
			return p, fmt.Errorf("the stream ends after %d bytes, without its end: %w", p.Bytes, err)
		}
		n := binary.LittleEndian.Uint32(word[:])
		if n > MaxBlock {
			return p, fmt.Errorf("the stream has a block of %d bytes: want at most %d", n, MaxBlock)
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(out, in, int64(n)); err != nil {
			return p, fmt.Errorf("after %d bytes: %w", p.Bytes, err)
		}
		if p.Bytes += uint64(n); progress != nil {
			progress(p.Bytes, length)
		}
	}
	var end [pipeEnd]byte
	if _, err := io.ReadFull(in, end[:]); err != nil {
		return p, fmt.Errorf("the stream ends after %d bytes, without its SHA-256: %w", p.Bytes, err)
	}
	h.Sum(p.Sum[:0])
	if binary.LittleEndian.Uint64(end[:]) != p.Bytes || !bytes.Equal(end[8:], p.Sum[:]) {
		return p, ErrSum
	}
	return p, nil
}
