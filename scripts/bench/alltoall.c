//go:build ignore

// All-to-all traffic of blocks of 4 KiB over Open MPI, the peer of 'ttfabric traffic all-to-all'.
//   mpirun -np 8 alltoall collective|window ROUNDS
// In each round, each rank sends one block to each other rank. "collective" calls MPI_Alltoall.
// "window" keeps WINDOW blocks under way in each direction with MPI_Isend and MPI_Irecv. Rank 0
// prints the goodput in Gb/s, and the processor time of all ranks in seconds. Nothing checks the
// received bytes.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { SIZE = 4096, WINDOW = 64, WARM = 100 };

static int rank, ranks;
static char *out, *in;

static void collective(int rounds) {
	for (int i = 0; i < rounds; i++)
		MPI_Alltoall(out, SIZE, MPI_BYTE, in, SIZE, MPI_BYTE, MPI_COMM_WORLD);
}

static void window(int rounds) {
	MPI_Request send[WINDOW], recv[WINDOW];
	for (int i = 0; i < WINDOW; i++)
		send[i] = recv[i] = MPI_REQUEST_NULL;
	for (int i = 0; i < rounds * (ranks - 1); i++) {
		int k = i % WINDOW, d = i % (ranks - 1) + 1;
		MPI_Wait(&recv[k], MPI_STATUS_IGNORE);
		MPI_Irecv(in + k * SIZE, SIZE, MPI_BYTE, (rank + ranks - d) % ranks, 0, MPI_COMM_WORLD, &recv[k]);
		MPI_Wait(&send[k], MPI_STATUS_IGNORE);
		MPI_Isend(out + k * SIZE, SIZE, MPI_BYTE, (rank + d) % ranks, 0, MPI_COMM_WORLD, &send[k]);
	}
	MPI_Waitall(WINDOW, send, MPI_STATUSES_IGNORE);
	MPI_Waitall(WINDOW, recv, MPI_STATUSES_IGNORE);
}

static double cpu(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int rounds = argc == 3 ? atoi(argv[2]) : 0;
	if (rounds < 1 || (strcmp(argv[1], "collective") && strcmp(argv[1], "window"))) {
		fprintf(stderr, "usage: mpirun -np RANKS alltoall collective|window ROUNDS\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	void (*run)(int) = argv[1][0] == 'c' ? collective : window;
	size_t room = (size_t)SIZE * (ranks > WINDOW ? ranks : WINDOW);
	out = malloc(room), in = malloc(room);
	memset(out, rank, room), memset(in, 0, room);
	run(WARM);
	MPI_Barrier(MPI_COMM_WORLD);
	double begin = MPI_Wtime(), used = cpu(), all = 0;
	run(rounds);
	MPI_Barrier(MPI_COMM_WORLD);
	double t = MPI_Wtime() - begin;
	used = cpu() - used;
	MPI_Reduce(&used, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%.4f %.4f\n", (double)rounds * ranks * (ranks - 1) * SIZE * 8 / t / 1e9, all);
	MPI_Finalize();
}
