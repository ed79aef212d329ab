//go:build ignore

// Writes words of 4 bytes, one at a time, through the Unix socket of a chip, to measure what the
// socket costs without Go. The documentation of package node/admin/attach describes the frames.
//	words SOCKET MESH CHIP ADDRESS MILLISECONDS
// writes inline words to an address of a chip for a time, and prints the number of words per
// second. ADDRESS is a number with an offset and two coordinates, as in a frame. The program polls
// for 100 microseconds, and then sleeps.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 16, HELLO = 16, COMMAND = 48, WELCOME = 32, RESULT = 32, MAX = 256 };
enum { KIND_HELLO = 1, KIND_COMMAND = 2, ANSWER = 128, TYPE_INLINE = 1, WAIT_MILLISECONDS = 10000 };

static const double POLL_SECONDS = 100e-6;

static void die(const char *what) {
	fprintf(stderr, "words: %s\n", what);
	exit(1);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void put(unsigned char *at, uint64_t v, int bytes) {
	for (int i = 0; i < bytes; i++)
		at[i] = v >> 8 * i;
}

static uint64_t get(const unsigned char *at, int bytes) {
	uint64_t v = 0;
	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)at[i] << 8 * i;
	return v;
}

// ask sends a frame with a body of n bytes, and returns when the whole answer is in "in".
static void ask(int fd, unsigned char *out, int n, int kind, uint64_t number, unsigned char *in, int want) {
	put(out, HEAD + n, 4);
	put(out + 4, kind, 4);
	put(out + 8, number, 8);
	if (send(fd, out, HEAD + n, MSG_NOSIGNAL) != HEAD + n)
		die("the chip takes no frame");
	double sleeps = now() + POLL_SECONDS;
	for (int got = 0; got < HEAD + want;) {
		ssize_t k = recv(fd, in + got, MAX - got, MSG_DONTWAIT);
		if (k == 0)
			die("the chip has closed the connection");
		if (k < 0 && errno != EAGAIN && errno != EINTR)
			die(strerror(errno));
		if (k < 0 && now() > sleeps && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, WAIT_MILLISECONDS) == 0)
			die("the chip does not answer");
		if (k > 0)
			got += k;
		if (got >= HEAD && (in[4] != kind + ANSWER || get(in, 4) != (uint64_t)(HEAD + want) || get(in + 8, 8) != number))
			die("the chip sent another frame than the answer");
	}
}

int main(int argc, char **argv) {
	if (argc != 6)
		die("want SOCKET MESH CHIP ADDRESS MILLISECONDS");
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	if (strlen(argv[1]) >= sizeof at.sun_path)
		die("the path of the socket is too long");
	strcpy(at.sun_path, argv[1]);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at) < 0)
		die(strerror(errno));
	unsigned char out[MAX] = {0}, in[MAX];
	memcpy(out + HEAD, "TTATTACH\1", 9);
	ask(fd, out, HELLO, KIND_HELLO, 0, in, WELCOME);
	memset(out, 0, sizeof out);
	unsigned char *command = out + HEAD;
	put(command, strtoul(argv[2], 0, 0), 2);
	put(command + 2, strtoul(argv[3], 0, 0), 2);
	command[4] = TYPE_INLINE;
	put(command + 8, strtoull(argv[4], 0, 0), 8);
	uint64_t n = 0;
	double begin = now(), end = begin + strtod(argv[5], 0) / 1e3;
	for (double t = begin; t < end; t = now()) {
		put(command + 24, n, 4);
		ask(fd, out, COMMAND, KIND_COMMAND, ++n, in, RESULT);
		if (in[HEAD] != 0)
			die("the chip did not perform a word");
	}
	printf("%.0f\n", n / (now() - begin));
	return 0;
}
