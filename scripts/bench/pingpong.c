//go:build ignore

// A UDP ping-pong in C: the program measures what a round trip costs without Go. Two processes have
// plain blocking connected sockets. One process sends SIZE bytes COUNT times, one datagram at a
// time. The other process sends each datagram back.
//	pingpong COUNT SIZE
// prints the median and the 99th percentile of the round trips, in nanoseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SIZE = 65507 }; // what a UDP datagram carries over IPv4

static void die(const char *what) {
	perror(what);
	exit(1);
}

static int open_socket(struct sockaddr_in *at) {
	socklen_t len = sizeof *at;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		die("socket");
	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (bind(fd, (struct sockaddr *)at, sizeof *at) < 0)
		die("bind to a free port of 127.0.0.1");
	if (getsockname(fd, (struct sockaddr *)at, &len) < 0)
		die("getsockname");
	return fd;
}

static void echo(int fd) {
	static char buf[MAX_SIZE];
	for (;;) {
		ssize_t n = recv(fd, buf, sizeof buf, 0);
		if (n < 0)
			die("recv in the far process");
		if (send(fd, buf, n, 0) < 0)
			die("send in the far process");
	}
}

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int compare(const void *a, const void *b) {
	long long x = *(const long long *)a, y = *(const long long *)b;
	return (x > y) - (x < y);
}

static void ping(int fd, int count, int size) {
	static char buf[MAX_SIZE];
	struct timeval second = {.tv_sec = 1};
	long long *took = calloc(count, sizeof *took);
	if (!took)
		die("calloc");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
	for (int i = 0; i < count; i++) {
		long long begin = now();
		if (send(fd, buf, size, 0) < 0)
			die("send");
		if (recv(fd, buf, sizeof buf, 0) != size)
			die("no answer to a ping");
		took[i] = now() - begin;
	}
	qsort(took, count, sizeof *took, compare);
	printf("%lld %lld\n", took[count / 2], took[count * 99LL / 100]);
	free(took);
}

static void pin(int core) {
	cpu_set_t set;
	if (core < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(0, sizeof set, &set) < 0)
		die("sched_setaffinity");
}

int main(int argc, char **argv) {
	struct sockaddr_in near, far;
	int count = argc >= 3 ? atoi(argv[1]) : 0, size = argc >= 3 ? atoi(argv[2]) : 0;
	int near_core = argc == 5 ? atoi(argv[3]) : -1, far_core = argc == 5 ? atoi(argv[4]) : -1;
	if (count < 1 || size < 1 || size > MAX_SIZE) {
		fprintf(stderr, "usage: pingpong COUNT SIZE [NEAR-CORE FAR-CORE], with 1 or more pings of 1 to %d bytes\n", MAX_SIZE);
		return 2;
	}
	int a = open_socket(&near), b = open_socket(&far);
	if (connect(a, (struct sockaddr *)&far, sizeof far) < 0 || connect(b, (struct sockaddr *)&near, sizeof near) < 0)
		die("connect");
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		close(a);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(far_core);
		if (getppid() == parent)
			echo(b);
		_exit(0);
	}
	close(b);
	pin(near_core);
	ping(a, count, size);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
