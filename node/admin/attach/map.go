package attach

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Host is a connection to a chip. Through a Host, a program maps memory that the chip shares with the program
// until Close. The methods are safe for concurrent use.
type Host struct {
	conn  *net.UnixConn
	hello Hello

	mu     sync.Mutex
	number uint64
	maps   [][]byte
}

// DialHost connects to the chip whose socket has the given path.
func DialHost(ctx context.Context, path string) (*Host, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot attach to the chip: %w", err)
	}
	return connectHost(conn.(*net.UnixConn), path)
}

// connectHost exchanges hellos on a connection to the chip at a path.
func connectHost(conn *net.UnixConn, path string) (*Host, error) {
	h := &Host{conn: conn}
	body, _, err := h.ask(func(b []byte, _ uint64) []byte { return append(b, AppendHello(nil)...) }, KindHello)
	if err == nil {
		h.hello, err = ParseWelcome(body)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot attach to the chip at %s: %w", path, err)
	}
	return h, nil
}

// Hello returns what the chip says about itself.
func (h *Host) Hello() Hello { return h.hello }

// Memory maps the chip's host memory. Byte n of the slice is the byte at address n that a request in a queue
// names. All callers for a chip get the same memory. The bytes must not be used after Close.
func (h *Host) Memory() ([]byte, error) {
	b, err := h.share(func(b []byte, number uint64) []byte { return AppendHead(b, KindMemory, number, 0) }, KindMemory)
	if err != nil {
		return nil, fmt.Errorf("chip %s shares no host memory: %w", h.hello.Chip, err)
	}
	return b, nil
}

// Tile maps the L1 of the ethernet tile at the coordinate (x, y) of NoC 0. The chip copies what the program
// stores there into its memory, and the chip's stores appear there; see the package's documentation. The
// bytes must not be used after Close.
func (h *Host) Tile(x, y uint8) ([]byte, error) {
	b, err := h.share(func(b []byte, number uint64) []byte { return AppendTile(b, number, x, y) }, KindTile)
	if err != nil {
		return nil, fmt.Errorf("chip %s does not share the L1 of tile %d-%d: %w", h.hello.Chip, x, y, err)
	}
	return b, nil
}

// share sends a request whose answer carries a file, and maps the file.
func (h *Host) share(f func(b []byte, number uint64) []byte, k Kind) ([]byte, error) {
	body, file, err := h.ask(f, k)
	if file != nil {
		defer file.Close()
	}
	switch {
	case err != nil:
		return nil, err
	case len(body) != 8 || file == nil:
		return nil, fmt.Errorf("the chip answered with %d bytes, and a file: %v; want 8 bytes and a file", len(body), file != nil)
	}
	n := binary.LittleEndian.Uint64(body)
	i, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("the length of the chip's file is unknown: %w", err)
	}
	if n == 0 || uint64(i.Size()) != n {
		return nil, fmt.Errorf("the chip says that its file has %d bytes, but the file has %d bytes", n, i.Size())
	}
	b, err := mapFile(file, int(n))
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.maps = append(h.maps, b)
	return b, nil
}

// ask sends a request, and returns the body of the answer and the file that the answer carries.
func (h *Host) ask(f func(b []byte, number uint64) []byte, k Kind) ([]byte, *os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	if err := h.conn.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return nil, nil, err
	}
	_, lost := h.conn.Write(f(nil, h.number)) // a chip that has closed the connection may have sent its reason before
	b, file, err := readPassed(h.conn)
	if err != nil && lost != nil {
		err = lost
	}
	if err != nil {
		return nil, file, err
	}
	switch got, body := Kind(b[4]), b[HeadLen:]; got {
	case k + Answer:
		return body, file, nil
	case KindError:
		e, err := ParseError(body)
		if err == nil {
			err = e
		}
		return nil, file, err
	default:
		return nil, file, fmt.Errorf("the chip answered with a frame of kind %d", got)
	}
}

// maxShort is the length of the longest answer that a Host takes, in bytes: a hello, or an error.
const maxShort = HeadLen + 4 + maxText

// readPassed reads one frame, and takes the file that comes with the frame.
func readPassed(conn *net.UnixConn) (b []byte, file *os.File, err error) {
	var rights [64]byte
	in := make([]byte, maxShort)
	for n := 0; ; {
		k, r, _, _, err := conn.ReadMsgUnix(in[n:], rights[:])
		if err == nil && k == 0 {
			err = errors.New("the chip has closed the connection")
		}
		if err != nil {
			return nil, file, err
		}
		if f := passedFile(rights[:r]); f != nil {
			if file != nil {
				file.Close()
			}
			file = f
		}
		if n += k; n < HeadLen {
			continue
		}
		head, err := ParseHead(in)
		if err != nil {
			return nil, file, fmt.Errorf("the chip's answer is not readable: %w", err)
		}
		if head.Len > len(in) {
			return nil, file, fmt.Errorf("the chip's answer has %d bytes, want at most %d", head.Len, len(in))
		}
		if n >= head.Len {
			return in[:head.Len], file, nil
		}
	}
}

// Close ends the connection and unmaps the memory.
func (h *Host) Close() error {
	err := h.conn.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.maps {
		err = errors.Join(err, unmap(b))
	}
	h.maps = nil
	return err
}
