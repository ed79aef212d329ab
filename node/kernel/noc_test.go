package kernel_test

import (
	"strings"
	"testing"

	"ttfabric/node/kernel"
	"ttfabric/node/noc"
	"ttfabric/wire"
	"ttfabric/wire/mono"
)

// A NoC command that the memory does not perform ends the kernel's job, and the end names the command and
// the reason. The kernel's later commands do not take effect.
func TestRefusedNocCommands(t *testing.T) {
	const local = 0x20000
	table := kernel.Table{
		"write": func(k *kernel.Context) {
			k.NocAsyncWrite(local, wire.NewNocAddr(2, 1, local), 64)
			k.NocInlineWrite(wire.NewNocAddr(1, 1, local), 7)
			k.NocAsyncWriteBarrier()
		},
		"read": func(k *kernel.Context) {
			k.NocAsyncRead(wire.NewNocAddr(2, 1, local), local+1<<15, 64)
			k.NocInlineWrite(wire.NewNocAddr(1, 1, local), 7)
			k.NocAsyncReadBarrier()
		},
		"register": func(k *kernel.Context) {
			k.NocInlineWrite(wire.NewNocAddr(2, 1, 0xFFB20100), 1) // NIU_CFG_0 can only be read
			k.NocInlineWrite(wire.NewNocAddr(1, 1, local), 7)
			k.NocAsyncWriteBarrier()
		},
		"own reset": func(k *kernel.Context) {
			k.NocInlineWrite(wire.NewNocAddr(1, 1, noc.SoftReset), noc.ResetFirst)
			k.NocInlineWrite(wire.NewNocAddr(1, 1, local), 7)
			k.NocAsyncWriteBarrier()
		},
	}
	for name, want := range map[string]string{
		"write":     "kernel failed, first at chip M0D0, kernel write@1-1: noc_async_write, 2-1:0x20000: out of memory",
		"read":      "kernel failed, first at chip M0D0, kernel read@1-1: noc_async_read, 2-1:0x20000: out of memory",
		"register":  "kernel failed, first at chip M0D0, kernel register@1-1: noc_inline_dw_write, 2-1:0xffb20100: bad command",
		"own reset": "processor reset, first at chip M0D0, kernel own reset@1-1: ",
	} {
		b := newBenchOf(t, table, 0, 32<<10)
		at := wire.NewNocAddr(1, 1, local)
		if o := b.memory.Execute(&wire.Command{Type: wire.NocInlineWrite, Addr: at, Value: 1}, nil); o != wire.OutcomeDone {
			t.Fatal(o)
		}
		b.start(kernel.Job{ID: 1, Programs: []kernel.Program{{Kernels: []kernel.Start{{Kernel: name, Tile: t11}}}}})
		b.run(mono.Time(1e9))
		ended := ""
		for _, e := range b.events {
			if e.Kind == kernel.JobEnded {
				ended += e.String()
			}
		}
		if !strings.Contains(ended, want) {
			t.Errorf("%s: the end is %q, want %q", name, ended, want)
		}
		var v [4]byte
		if b.memory.Read(at, v[:]); v[0] != 1 {
			t.Errorf("%s: a later command took effect", name)
		}
	}
}
