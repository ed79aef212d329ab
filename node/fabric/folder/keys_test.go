package folder

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ttfabric/membership/keyring"
)

// FuzzKeyList parses lists of keys. If parseKeyList accepts a list, then KeyList must write
// a text that parses to the same keys.
func FuzzKeyList(f *testing.F) {
	f.Add([]byte(`["pUqJrVyVRj5jsiYEkM/tFQYfWyJIv4s3XkvDwy7Cu5s="]`))
	f.Add([]byte(`["AAAAAAAAAAAAAAAAAAAAAA==","/////////////////////w=="]`))
	for _, s := range []string{"", "[]", "{}", `[""]`, `["x"]`, "[1]", strings.Repeat(`["AAAAAAAAAAAAAAAAAAAAAA=="`, 9)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := parseKeyList(b)
		if err != nil {
			return
		}
		if len(keys) == 0 || len(keys) > keyring.Max {
			t.Fatalf("%d keys", len(keys))
		}
		again, err := parseKeyList(KeyList(keys))
		if err != nil || !slices.EqualFunc(again, keys, bytes.Equal) {
			t.Fatalf("read back as %v, %v; want %v", again, err, keys)
		}
	})
}

// TestKeyFilesOfOthers reads key files with different modes. A file that other users may read or
// write is refused, and the error says which command mends it.
func TestKeyFilesOfOthers(t *testing.T) {
	key := keyring.Text(bytes.Repeat([]byte{5}, KeyBytes))
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o644: false, 0o640: false, 0o604: false, 0o622: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		got, err := ReadKey(context.Background(), nil, "--psk-file", file)
		if ok && (err != nil || keyring.Text(got) != key) {
			t.Errorf("mode %o: %v", mode, err)
		}
		if !ok && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("mode %04o", mode)) || !strings.Contains(err.Error(), "chmod 600")) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}
