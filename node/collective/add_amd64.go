package collective

// addFloats computes d = g + w for each element. The three slices have the same length.
//
//go:noescape
func addFloats(d, g, w []float32)
