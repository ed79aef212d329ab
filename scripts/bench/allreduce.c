//go:build ignore

// Collective operations on numbers of 32 bits over Open MPI, the peer of node/rank/allreduce.
//   mpirun -np RANKS allreduce all-reduce|all-gather|all-to-all BYTES ROUNDS
// BYTES is the length of the data of each rank; of an all-to-all, of the data from each rank to each
// rank. Rank 0 prints the mean time of an operation in µs. Each rank checks the results.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, ranks;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	const char *op = argc == 4 ? argv[1] : "";
	int reduce = !strcmp(op, "all-reduce"), gather = !strcmp(op, "all-gather"), all = !strcmp(op, "all-to-all");
	int n = argc == 4 ? atoi(argv[2]) / 4 : 0, rounds = argc == 4 ? atoi(argv[3]) : 0;
	if (n < 1 || rounds < 1 || !(reduce || gather || all)) {
		fprintf(stderr, "usage: mpirun -np RANKS allreduce all-reduce|all-gather|all-to-all BYTES ROUNDS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	long ins = all ? (long)n * ranks : n, outs = reduce ? n : (long)n * ranks;
	float *in = malloc(4 * ins), *out = malloc(4 * outs);
	for (long i = 0; i < ins; i++)
		in[i] = rank + 1;
	double begin = 0;
	int warm = rounds / 4 + 1;
	for (int i = 0; i < warm + rounds; i++) {
		if (i == warm) {
			MPI_Barrier(MPI_COMM_WORLD);
			begin = MPI_Wtime();
		}
		if (reduce)
			MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		else if (gather)
			MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
		else
			MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
	}
	double t = (MPI_Wtime() - begin) / rounds;
	for (long i = 0; i < outs; i++)
		if (out[i] != (reduce ? ranks * (ranks + 1) / 2 : i / n + 1)) {
			fprintf(stderr, "rank %d: element %ld is %g\n", rank, i, out[i]);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	if (rank == 0)
		printf("%.1f\n", t * 1e6);
	MPI_Finalize();
}
