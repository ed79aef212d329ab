//go:build ignore

// Credits in C: the program measures what a sender with few credits reaches without Go, links or
// memory. Two processes have plain connected UDP sockets. The sender sends packets of SIZE bytes
// with segmentation offload, at most EACH packets per call, while the sender has credits. At first,
// the sender has SLOTS credits. After each receive, the receiver returns the credits of the
// received packets with one small datagram. A process that waits for a datagram polls its socket
// for POLL microseconds, and then sleeps.
//	credits SLOTS EACH SIZE POLL MILLISECONDS [NEAR-CORE FAR-CORE]
// prints the bytes per second.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	MAX_SIZE = 65507,     // what a UDP datagram or a super-packet carries over IPv4
	CREDIT = 128,         // bytes of a datagram that returns credits: about a frame with grants
	BUFFER = 4 << 20,     // bytes of each socket buffer that the program asks for
};

static long long patience; // nanoseconds for which a process polls

static void die(const char *what) {
	perror(what);
	exit(1);
}

static long long now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int open_socket(struct sockaddr_in *at) {
	socklen_t len = sizeof *at;
	int one = 1, buffer = BUFFER, fd = socket(AF_INET, SOCK_DGRAM, 0);
	if (fd < 0)
		die("socket");
	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (bind(fd, (struct sockaddr *)at, sizeof *at) < 0)
		die("bind to a free port of 127.0.0.1");
	if (getsockname(fd, (struct sockaddr *)at, &len) < 0)
		die("getsockname");
	if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one) < 0)
		die("UDP_GRO");
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
	return fd;
}

// take receives one message, a datagram or a super-packet.
static ssize_t take(int fd, char *buf) {
	long long end = patience > 0 ? now() + patience : 0;
	while (end > 0) {
		ssize_t n = recv(fd, buf, MAX_SIZE, MSG_DONTWAIT);
		if (n >= 0 || errno != EAGAIN)
			return n;
		if (now() >= end)
			break;
	}
	return recv(fd, buf, MAX_SIZE, 0);
}

static void return_credits(int fd, int size) {
	static char buf[MAX_SIZE], credit[CREDIT];
	for (;;) {
		ssize_t n = take(fd, buf);
		if (n < 0)
			die("recv in the far process");
		*(int *)credit = n / size;
		if (send(fd, credit, sizeof credit, 0) < 0)
			die("send in the far process");
	}
}

static void pump(int fd, int slots, int each, int size, long long span) {
	static char data[MAX_SIZE], buf[MAX_SIZE];
	long long sent = 0, begin = now(), end = begin + span;
	struct timeval second = {.tv_sec = 1};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
	if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) < 0)
		die("UDP_SEGMENT");
	for (int credits = slots; now() < end;) {
		while (credits > 0) {
			int n = credits < each ? credits : each;
			if (send(fd, data, (size_t)n * size, 0) < 0)
				die("send");
			credits -= n;
			sent += (long long)n * size;
		}
		if (take(fd, buf) != CREDIT)
			die("no credits came back");
		credits += *(int *)buf;
	}
	printf("%lld\n", sent * 1000000000LL / (now() - begin));
}

static void pin(const char *core) {
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(atoi(core), &set);
	if (sched_setaffinity(0, sizeof set, &set) < 0)
		die("sched_setaffinity");
}

int main(int argc, char **argv) {
	struct sockaddr_in near, far;
	int slots = argc >= 6 ? atoi(argv[1]) : 0, each = argc >= 6 ? atoi(argv[2]) : 0, size = argc >= 6 ? atoi(argv[3]) : 0;
	if (slots < 1 || each < 1 || size < 1 || (long long)each * size > MAX_SIZE) {
		fprintf(stderr, "usage: credits SLOTS EACH SIZE POLL MILLISECONDS [NEAR-CORE FAR-CORE], where EACH packets of SIZE bytes are at most %d bytes\n", MAX_SIZE);
		return 2;
	}
	patience = atoll(argv[4]) * 1000;
	int a = open_socket(&near), b = open_socket(&far);
	if (connect(a, (struct sockaddr *)&far, sizeof far) < 0 || connect(b, (struct sockaddr *)&near, sizeof near) < 0)
		die("connect");
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		close(a);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (argc == 8)
			pin(argv[7]);
		if (getppid() == parent)
			return_credits(b, size);
		_exit(0);
	}
	close(b);
	if (argc == 8)
		pin(argv[6]);
	pump(a, slots, each, size, atoll(argv[5]) * 1000000);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}
