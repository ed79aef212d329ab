//go:build !amd64

package collective

// addFloats computes d = g + w for each element. The three slices have the same length.
func addFloats(d, g, w []float32) { vector(Sum, d, g, w, minFloat, maxFloat) }
