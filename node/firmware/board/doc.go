// Package board says what a host reads when it discovers the chips of a fabric: positions and names of
// chips and boards, the state of ethernet tiles, and the words of the ARC processor.
package board
