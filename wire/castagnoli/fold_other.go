//go:build !amd64

package castagnoli

const folds = false

var by factors

func fold(uint32, *byte, int, *factors) uint32 { panic("castagnoli: no fold on this processor") }
