package process

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"syscall"

	"ttfabric/node"
	"ttfabric/node/fabric/folder"
	"ttfabric/node/kernel"
	"ttfabric/node/rank/launched"
	"ttfabric/wire"
)

// Main runs one chip and the function "program" in this process, and never returns. An
// executable that runs chips needs only this code:
//
//	func main() { process.Main(hello) }
//
// 'ttfabric up --program ./hello' starts the executable once for each chip, with the
// arguments "node --dir DIR --chip CHIP". If the function "program" returns nil, the chip
// continues to run. The output of the executable goes to the chip's log.
//
// 'ttfabric run --up TOPOLOGY --as-chip ./hello ARG...' starts the executable as a rank that is its own
// chip. The executable then has the arguments ARG, the variables of a rank (see package rank), and
// the rank's output. The function "program" begins when all links of the fabric are up. The fabric is
// taken down when the function has returned on all chips, or has failed on one.
//
// The chip can run the kernels of the tables, see [session.Session.Run].
func Main(program Program, kernels ...kernel.Table) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	l, err := launched.Inherited()
	switch {
	case l != nil:
		err = runLaunched(ctx, l, program, kernels)
	case err == nil:
		err = run(ctx, os.Args, program, kernels)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ttfabric:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run parses the arguments of a chip's process and runs the chip until ctx ends.
func run(ctx context.Context, args []string, program Program, kernels []kernel.Table) error {
	if len(args) < 2 || args[1] != "node" {
		return fmt.Errorf("this program runs a chip; 'ttfabric up --program %[1]s' starts a fabric in which each chip is a process of this program, and 'ttfabric run --up TOPOLOGY --as-chip %[1]s' starts such a fabric until the program has ended on all chips", args[0])
	}
	fl := flag.NewFlagSet(args[0]+" node", flag.ContinueOnError)
	dir := fl.String("dir", "", "run folder of the fabric")
	chip := fl.String("chip", "", "chip to run, as M<mesh>D<chip>")
	record := fl.String("record", "", "record every call into the chip to this folder")
	limit := fl.Int("record-limit", 0, "a recording ends when its file has this size, in MiB")
	if err := fl.Parse(args[2:]); err != nil {
		return err
	}
	id, err := wire.ParseFabricNodeID(*chip)
	if err != nil {
		return err
	}
	node.ConfigureProcess()
	c, err := FromFolder(folder.Dir(*dir), id)
	if err != nil {
		return fmt.Errorf("chip %s: %w", id, err)
	}
	if *record != "" {
		c.Spec.Record, c.Spec.RecordMiB = *record, *limit
	}
	c.Log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("chip", id.String())
	c.Program, c.Kernels = program, tableOf(kernels)
	return Run(ctx, c)
}

// tableOf returns one table with the kernels of all tables.
func tableOf(tables []kernel.Table) kernel.Table {
	all := kernel.Table{}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}
