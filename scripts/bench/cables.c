//go:build ignore

// All-to-all traffic over the cables of a T3000, with little more than its system calls.
//   cables SLOTS PACKETS
// Eight processes are the chips of a mesh of two rows and four columns. Two cables join
// each pair of neighbours, and each end of a cable is a connected UDP socket. Each process
// sends PACKETS packets of 4 KiB to each other process, first along the row and then along
// the column. At each end of a cable, at most SLOTS packets are under way or wait in the
// next process. Packets of one cable leave with one call and segmentation offload. After
// each turn, a process returns credits with one small datagram for each cable that it
// received from. The program has no checksums, no sequence numbers, no retransmission and no
// completions, and forwards a packet from the buffer that received the packet. The program
// prints the goodput in Gb/s, and the processor time of all processes in seconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum {
	ROWS = 2, COLUMNS = 4, CHIPS = ROWS * COLUMNS,
	CABLES = 2,                  // between two neighbours
	PORTS = 4 * CABLES,          // of a chip: west, east, north, south
	PAYLOAD = 4096,              // bytes of a packet's data
	SIZE = PAYLOAD + 64,         // bytes of a datagram: the data, and as many bytes of headers as ours has
	CREDIT = 128,                // bytes of a datagram that returns credits: about a frame with grants
	EACH = 65507 / SIZE,         // packets of one call
	QUEUE = 8192,                // packets that can wait for one cable
	BUFFERS = 4096,              // super-packets that a process can hold
	BUFFER = 4 << 20,            // bytes of each socket buffer that the program asks for
	POLLED = 16,                 // super-packets that a process takes from one cable before the next cable's turn
};

struct packet { int to; int buffer; char *at; int from; }; // from: the port that gets the credit back; -1: own data

struct port {
	int fd, credits, owed;
	struct packet queue[QUEUE];
	unsigned head, tail;
};

static struct port ports[PORTS];
static struct { char data[65536]; int held; } *pool;
static int spare[BUFFERS], spares;
static char own[SIZE];
static int chip, slots;
static long left[CHIPS], owned;

static struct shared { atomic_int ready, done; } *all;

static void die(const char *what) {
	perror(what);
	exit(1);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

// neighbour returns the chip in a direction (0 west, 1 east, 2 north, 3 south), or -1.
static int neighbour(int c, int direction) {
	int row = c / COLUMNS, column = c % COLUMNS;
	switch (direction) {
	case 0: return column > 0 ? c - 1 : -1;
	case 1: return column < COLUMNS - 1 ? c + 1 : -1;
	case 2: return row > 0 ? c - COLUMNS : -1;
	default: return row < ROWS - 1 ? c + COLUMNS : -1;
	}
}

// toward returns the direction of the first hop to another chip.
static int toward(int to) {
	int row = chip / COLUMNS, column = chip % COLUMNS;
	if (to % COLUMNS != column)
		return to % COLUMNS > column;
	return 2 + (to / COLUMNS > row);
}

static unsigned waiting(struct port *p) { return p->tail - p->head; }

static void put(int to, int buffer, char *at, int from, int cable) {
	struct port *p = &ports[toward(to) * CABLES + cable];
	if (waiting(p) == QUEUE) {
		fprintf(stderr, "the queue of a cable is full\n");
		exit(1);
	}
	p->queue[p->tail++ % QUEUE] = (struct packet){to, buffer, at, from};
}

static void drop(int buffer) {
	if (buffer >= 0 && --pool[buffer].held == 0)
		spare[spares++] = buffer;
}

// take receives one message from a port, and returns 0 if there is none.
static int take(int at) {
	struct port *p = &ports[at];
	if (spares == 0)
		return 0;
	int b = spare[--spares];
	ssize_t n = recv(p->fd, pool[b].data, sizeof pool[b].data, MSG_DONTWAIT);
	if (n <= CREDIT) {
		spare[spares++] = b;
		if (n == CREDIT) {
			p->credits += *(int *)pool[b].data;
			return 1;
		}
		if (n < 0 && errno != EAGAIN && errno != ECONNREFUSED)
			die("recv");
		return n >= 0;
	}
	pool[b].held = 1;
	for (ssize_t i = 0; i + SIZE <= n; i += SIZE) {
		int to = *(int *)(pool[b].data + i);
		if (to == chip) {
			owned--;
			p->owed++;
			continue;
		}
		pool[b].held++;
		put(to, b, pool[b].data + i, at, at % CABLES);
	}
	drop(b);
	return 1;
}

// give sends packets that wait at a port, until the port has no credits or no packets.
static void give(struct port *p) {
	while (p->credits > 0 && waiting(p) > 0) {
		static char heads[EACH][64];
		struct iovec v[2 * EACH];
		int n = 0, parts = 0, buffers[EACH], froms[EACH];
		for (; n < EACH && p->credits > 0 && waiting(p) > 0; n++) {
			struct packet k = p->queue[p->head++ % QUEUE];
			p->credits--;
			buffers[n] = k.buffer, froms[n] = k.from;
			if (k.from >= 0) {
				v[parts++] = (struct iovec){k.at, SIZE};
				continue;
			}
			*(int *)heads[n] = k.to;
			v[parts++] = (struct iovec){heads[n], sizeof heads[n]};
			v[parts++] = (struct iovec){own, PAYLOAD};
		}
		struct msghdr m = {.msg_iov = v, .msg_iovlen = parts};
		if (sendmsg(p->fd, &m, 0) < 0)
			die("sendmsg");
		for (int i = 0; i < n; i++) {
			drop(buffers[i]);
			if (froms[i] >= 0)
				ports[froms[i]].owed++;
		}
	}
}

// inject fills the queues of the cables with this process's own packets.
static int turn;
static long inject(void) {
	long more = 0;
	for (int i = 0; i < CHIPS; i++) {
		int to = (turn + i) % CHIPS;
		if (to == chip || left[to] == 0)
			continue;
		for (int cable = 0; cable < CABLES; cable++) {
			struct port *p = &ports[toward(to) * CABLES + cable];
			for (int k = 0; k < 4 && left[to] > 0 && (int)waiting(p) < p->credits; k++, left[to]--)
				put(to, -1, NULL, -1, cable);
		}
		more += left[to];
	}
	turn++;
	return more;
}

static void run(long packets) {
	int ep = epoll_create1(0);
	for (int i = 0; i < PORTS; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
		if (ports[i].fd >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, ports[i].fd, &e) < 0)
			die("epoll_ctl");
	}
	for (int i = 0; i < CHIPS; i++)
		left[i] = i == chip ? 0 : packets;
	owned = packets * (CHIPS - 1);
	long more = 1;
	int told = 0;
	for (;;) {
		if (more)
			more = inject();
		for (int i = 0; i < PORTS; i++)
			if (ports[i].fd >= 0)
				give(&ports[i]);
		for (int i = 0; i < PORTS; i++) {
			if (ports[i].fd < 0 || ports[i].owed == 0)
				continue;
			char credit[CREDIT] = {0};
			memcpy(credit, &ports[i].owed, sizeof ports[i].owed);
			if (send(ports[i].fd, credit, sizeof credit, 0) < 0)
				die("send");
			ports[i].owed = 0;
		}
		if (owned == 0 && !told) {
			told = 1;
			atomic_fetch_add(&all->done, 1);
		}
		if (atomic_load(&all->done) == CHIPS)
			return;
		struct epoll_event e[PORTS];
		int n = epoll_wait(ep, e, PORTS, 10);
		for (int i = 0; i < n; i++)
			for (int k = 0; k < POLLED && take(e[i].data.u32); k++)
				;
	}
}

static struct sockaddr_in addresses[CHIPS][PORTS];
static int sockets[CHIPS][PORTS];

static void open_cables(void) {
	for (int c = 0; c < CHIPS; c++)
		for (int i = 0; i < PORTS; i++) {
			sockets[c][i] = -1;
			if (neighbour(c, i / CABLES) < 0)
				continue;
			int fd = sockets[c][i] = socket(AF_INET, SOCK_DGRAM, 0), one = 1, buffer = BUFFER, size = SIZE;
			struct sockaddr_in *a = &addresses[c][i];
			socklen_t len = sizeof *a;
			*a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
			if (fd < 0 || bind(fd, (struct sockaddr *)a, sizeof *a) < 0 || getsockname(fd, (struct sockaddr *)a, &len) < 0)
				die("a socket on 127.0.0.1");
			if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one) < 0 || setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size) < 0)
				die("UDP_GRO and UDP_SEGMENT");
			setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
			setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
		}
	for (int c = 0; c < CHIPS; c++)
		for (int i = 0; i < PORTS; i++)
			if (sockets[c][i] >= 0 && connect(sockets[c][i], (struct sockaddr *)&addresses[neighbour(c, i / CABLES)][i ^ CABLES], sizeof addresses[0][0]) < 0)
				die("connect");
}

int main(int argc, char **argv) {
	long packets = argc == 3 ? atol(argv[2]) : 0;
	slots = argc == 3 ? atoi(argv[1]) : 0;
	if (slots < 1 || slots * CABLES * 4 > QUEUE || packets < 1) {
		fprintf(stderr, "usage: cables SLOTS PACKETS, with 1 to %d slots\n", QUEUE / CABLES / 4);
		return 2;
	}
	all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		die("mmap");
	open_cables();
	pid_t parent = getpid();
	for (chip = 0; chip < CHIPS; chip++) {
		pid_t child = fork();
		if (child < 0)
			die("fork");
		if (child > 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		struct sched_param none = {0};
		sched_setscheduler(0, SCHED_BATCH, &none); // as a chip's process does
		for (int c = 0; c < CHIPS; c++)
			for (int i = 0; i < PORTS; i++)
				if (c != chip && sockets[c][i] >= 0)
					close(sockets[c][i]);
		pool = malloc(sizeof *pool * BUFFERS);
		for (int i = 0; i < PORTS; i++)
			ports[i].fd = sockets[chip][i], ports[i].credits = slots;
		for (spares = 0; spares < BUFFERS; spares++)
			spare[spares] = BUFFERS - 1 - spares;
		memset(own, chip, sizeof own);
		atomic_fetch_add(&all->ready, 1);
		while (atomic_load(&all->ready) < CHIPS)
			usleep(100);
		run(packets);
		_exit(0);
	}
	for (int c = 0; c < CHIPS; c++)
		for (int i = 0; i < PORTS; i++)
			if (sockets[c][i] >= 0)
				close(sockets[c][i]);
	while (atomic_load(&all->ready) < CHIPS)
		usleep(100);
	double begin = now();
	for (int c = 0; c < CHIPS; c++) {
		int status;
		if (wait(&status) < 0 || status != 0) {
			fprintf(stderr, "a process failed\n");
			kill(0, SIGTERM);
			return 1;
		}
	}
	double t = now() - begin;
	struct rusage u;
	getrusage(RUSAGE_CHILDREN, &u);
	double used = u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
	printf("%.4f %.4f\n", (double)packets * CHIPS * (CHIPS - 1) * PAYLOAD * 8 / t / 1e9, used);
	return 0;
}
