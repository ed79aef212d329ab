package attach

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// TestAReasonThatComesBeforeTheHello has a chip that refuses each client and closes the connection before
// the client's hello. The client must still report the chip's reason.
func TestAReasonThatComesBeforeTheHello(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	refuse := func(dial func(conn *net.UnixConn) error) {
		t.Helper()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		chip, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chip.Write(AppendError(nil, 0, CodeFull, "the chip has 64 clients")); err != nil {
			t.Fatal(err)
		}
		chip.Close()
		if err := dial(conn.(*net.UnixConn)); err == nil || !strings.Contains(err.Error(), "64 clients") {
			t.Errorf("error %v", err)
		}
	}
	refuse(func(conn *net.UnixConn) error {
		_, err := connect(context.Background(), conn, path, nil)
		return err
	})
	refuse(func(conn *net.UnixConn) error {
		_, err := connectHost(conn, path)
		return err
	})
}
