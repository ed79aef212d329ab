package process

import (
	"log/slog"
	"os"
)

// hung returns the function that ends the process of a chip with a kernel that never yields. The
// neighbours then see that the chip is dead.
func hung(log *slog.Logger) func(string, []byte) {
	return func(kernel string, stacks []byte) {
		os.Stderr.Write(stacks)
		log.Error("a kernel took a second of processor time without any call of its Context, so the chip ends", "kernel", kernel)
		os.Exit(1)
	}
}
