// Package kernel runs programs on the tiles of a chip. A kernel is a Go function that runs on one tile,
// as a kernel in C++ runs on a processor of the real chip (CCL guide, "Writing Ethernet Kernels").
//
//	func ping(k *kernel.Context) {
//		sem := k.Uint32(0)          // first argument: address of a semaphore in the L1 of this tile
//		k.NocSemaphoreWait(sem, 1)  // the kernel waits until the word is 1
//		k.NocSemaphoreSet(sem, 0)
//		k.EthSendBytesOverChannel(buffer, buffer, 64, 0)
//	}
//
// # How a kernel runs
//
// The package has no clock, lock, or input and output of its own. Each kernel is a coroutine. A
// [Machine] resumes a kernel when the kernel's wait is over. A kernel waits for a value of a word
// in L1, a free transaction command queue, a time, room in the fabric, or the end of a command. A
// simulated run therefore repeats from its seed, and a live run from its recording, bit by bit.
//
// A kernel reaches L1 and registers through calls of its [Context] only. The machine sees each
// store, resumes the kernels that wait for the word, and checks the store; see [Violation]. A
// kernel must not keep state outside of its own variables, start goroutines, block on channels, or
// read a clock.
//
// Each call of a Context counts against the kernel's budget, see [Budget]. A kernel that has used
// its budget up yields, and continues after [PollPause] at the latest. Other kernels therefore run
// while one kernel polls in a loop. Nothing can interrupt Go code that loops without any call.
//
// # Order
//
//   - Loads and stores of a kernel take effect at once, in order.
//   - NoC commands of a kernel take effect in order, and none before the kernel yields. A kernel must
//     not change the source of a command before the command takes effect.
//     [Context.NocAsyncWriteBarrier] waits for all earlier commands.
//   - NoC reads and writes of the PCIe tile's window reach host memory (Wormhole). The host performs them
//     later, and the kernel's further NoC commands wait. Without a host, and if the host does not perform
//     a command within [noc.HostWait], the job ends.
//   - Commands of a transaction command queue take effect at the other end of the cable in order. Two
//     queues have no order between them, and a queue has no order with packets of the fabric (CCL
//     guide, "Ethernet Transaction Command Queues").
//   - Kernels of different chips start in no order.
package kernel
