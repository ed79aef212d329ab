package folder

import (
	"bytes"
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
