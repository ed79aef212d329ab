//go:build ignore

// All-reduce of numbers of 32 bits over Open MPI, the peer of node/rank/allreduce.
//   mpirun -np RANKS allreduce BYTES ROUNDS
// Rank 0 prints the mean time of an operation in µs. Each rank checks the sums.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int rank, ranks;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int n = argc == 3 ? atoi(argv[1]) / 4 : 0, rounds = argc == 3 ? atoi(argv[2]) : 0;
	if (n < 1 || rounds < 1) {
		fprintf(stderr, "usage: mpirun -np RANKS allreduce BYTES ROUNDS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	float *in = malloc(4L * n), *out = malloc(4L * n);
	for (int i = 0; i < n; i++)
		in[i] = rank + 1;
	double begin = 0;
	int warm = rounds / 4 + 1;
	for (int i = 0; i < warm + rounds; i++) {
		if (i == warm) {
			MPI_Barrier(MPI_COMM_WORLD);
			begin = MPI_Wtime();
		}
		MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	}
	double t = (MPI_Wtime() - begin) / rounds;
	for (int i = 0; i < n; i++)
		if (out[i] != ranks * (ranks + 1) / 2) {
			fprintf(stderr, "rank %d: sum %d is %g\n", rank, i, out[i]);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
	if (rank == 0)
		printf("%.1f\n", t * 1e6);
	MPI_Finalize();
}
