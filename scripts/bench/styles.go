package main

import "image/color"

// styles gives each kind its place in tables and its style in every plot. The colours can be told
// apart by the colour-blind (M. Okabe, K. Ito, 2008); a dash tells variants of one transport apart.
var styles = []struct {
	kind   string
	colour color.RGBA
	dashed bool
}{
	{"ttlink-fast", color.RGBA{0xD5, 0x5E, 0x00, 255}, false},
	{"ttlink-spec", color.RGBA{0xD5, 0x5E, 0x00, 255}, true},
	{"ttlink-nogso", color.RGBA{0xE6, 0x9F, 0x00, 255}, false},
	{"ttlink-impaired", color.RGBA{0xE6, 0x9F, 0x00, 255}, true},
	{theory, color.RGBA{0x60, 0x60, 0x60, 255}, true},
	{worst, color.RGBA{0xA8, 0xA8, 0xA8, 255}, true},
	{"udp-gso", color.RGBA{0x00, 0x00, 0x00, 255}, false},
	{"udp-mmsg", color.RGBA{0x80, 0x80, 0x80, 255}, true},
	{"udp", color.RGBA{0x80, 0x80, 0x80, 255}, false},
	{udpC, color.RGBA{0x00, 0x00, 0x00, 255}, true},
	{"tcp", color.RGBA{0x00, 0x72, 0xB2, 255}, false},
	{"tcp-cubic", color.RGBA{0x56, 0xB4, 0xE9, 255}, true},
	{"quic", color.RGBA{0x00, 0x9E, 0x73, 255}, false},
	{"kcp", color.RGBA{0xCC, 0x79, 0xA7, 255}, false},
}

// rank returns the place of a kind in tables. Kinds without a style come last.
func rank(kind string) int {
	for i := range styles {
		if styles[i].kind == kind {
			return i
		}
	}
	return len(styles)
}
