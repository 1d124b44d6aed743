/*
 * The limit: the system calls that the protocols of Interlock need, and nothing else, in a C loop.
 *
 *   limit KIND DIRECTORY COUNT [LENGTH]
 *
 * does KIND COUNT times on an object in DIRECTORY and prints the nanoseconds that one took. Each lock sets its mark
 * and each removal by unlock holds the guard; where the order is free it is the cheapest one. What a process can
 * remember (its start time, the boot) is not read again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define PARKED 512

static size_t length = 40;
static char *line;	/* an item of LENGTH bytes as base64, with its newline */
static size_t line_length;
static off_t head;	/* where the first live line begins */

static void check(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static int open_dir(int at, const char *path)
{
	int dir = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	check(dir >= 0, path);
	return dir;
}

/* The text of a link; it differs each time, as its NONCE does. */
static const char *text(uint32_t nonce)
{
	static char buffer[64];

	snprintf(buffer, sizeof buffer, "3735928559,%u,%d,123456789,123456789,%d", nonce, getpid(), getpid());
	return buffer;
}

/* A lock becomes visible: its mark on the directory first. Marks are for known local file systems only. */
static uint32_t set_link(int dir, const char *name)
{
	static uint32_t nonce = 1000000000;
	struct statfs fs;
	struct flock mark = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = ++nonce, .l_len = 1 };

	check(fstatfs(dir, &fs) == 0, "fstatfs");
	check(fcntl(dir, F_OFD_SETLK, &mark) == 0, "mark");
	check(symlinkat(text(nonce), dir, name) == 0, name);
	return nonce;
}

/* mutex_lock and mutex_unlock. */
static void mutex(const char *path)
{
	char link[128];
	struct stat file;
	int dir = open_dir(AT_FDCWD, path);
	int parked;

	set_link(dir, "m");
	parked = fcntl(dir, F_DUPFD_CLOEXEC, PARKED);
	check(parked >= PARKED, "park");
	close(dir);
	fstat(parked, &file);			/* what to know it by */

	dir = open_dir(AT_FDCWD, path);
	check(flock(dir, LOCK_EX | LOCK_NB) == 0, "guard");
	check(readlinkat(dir, "m", link, sizeof link) > 0, "readlink");
	check(unlinkat(dir, "m", 0) == 0, "unlink");
	close(dir);				/* the guard goes with it */
	fstat(parked, &file);			/* still ours? */
	close(parked);
}

static sigset_t all, before;

static int open_count(int dir)
{
	int counter = openat(dir, "counter", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	check(counter >= 0, "counter");
	set_link(dir, "countlock");
	return counter;
}

static int read_count(int counter)
{
	char number[32];
	ssize_t got = pread(counter, number, sizeof number - 1, 0);

	check(got > 0, "pread");
	number[got] = 0;
	return atoi(number);
}

static void write_count(int counter, int value)
{
	char number[32];
	int digits = snprintf(number, sizeof number, "%d\n", value);

	check(pwrite(counter, number, digits, 0) == digits, "pwrite");
}

/* Adds one; above zero there is no gate to open. */
static void give(int dir)
{
	int counter = open_count(dir);

	write_count(counter, read_count(counter) + 1);
	unlinkat(dir, "countlock", 0);
	close(counter);
}

/* Takes one that is not the last. */
static void take(int dir)
{
	int counter = open_count(dir);

	write_count(counter, read_count(counter) - 1);
	unlinkat(dir, "countlock", 0);
	close(counter);
}

/* sem_post and sem_trywait, counter above zero. */
static void semaphore(const char *path)
{
	int dir;

	for (int step = 0; step < 2; step++) {
		dir = open_dir(AT_FDCWD, path);
		sigprocmask(SIG_BLOCK, &all, &before);
		step ? take(dir) : give(dir);
		sigprocmask(SIG_SETMASK, &before, NULL);
		close(dir);
	}
}

static int open_data(int dir, struct stat *file)
{
	char last;
	int data = openat(dir, "data", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	check(data >= 0, "data");
	fstat(data, file);
	if (file->st_size > 0)			/* is the last line whole? */
		check(pread(data, &last, 1, file->st_size - 1) == 1, "last byte");
	return data;
}

static void put(const char *path)
{
	struct stat file;
	int dir = open_dir(AT_FDCWD, path), sem = open_dir(dir, "sem"), data;

	sigprocmask(SIG_BLOCK, &all, &before);
	set_link(dir, "mutex");
	data = open_data(dir, &file);
	check(pwrite(data, line, line_length, file.st_size) == (ssize_t)line_length, "append");
	give(sem);
	unlinkat(dir, "mutex", 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(data);
	close(sem);
	close(dir);
}

/* Consumed bytes are NUL: the head is the first that is not, found by halving what is left. */
static off_t find_head(int data, off_t size)
{
	off_t low = 0, high = size;
	char byte;

	while (low < high) {
		off_t middle = low + (high - low) / 2;

		check(pread(data, &byte, 1, middle) == 1, "probe");
		if (byte)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Two writes if the line does not lie in one page. */
static void get(const char *path)
{
	static char *buffer;
	struct stat file;
	int dir = open_dir(AT_FDCWD, path), sem = open_dir(dir, "sem"), data;

	if (!buffer)
		check((buffer = malloc(line_length)) != NULL, "malloc");
	sigprocmask(SIG_BLOCK, &all, &before);
	set_link(dir, "mutex");
	data = open_data(dir, &file);
	take(sem);
	head = find_head(data, file.st_size);
	check(pread(data, buffer, line_length, head) == (ssize_t)line_length, "head");
	if (head / 4096 != (head + (off_t)line_length - 1) / 4096) {
		memset(buffer, '#', line_length - 1);
		pwrite(data, buffer, line_length - 1, head);
	}
	memset(buffer, 0, line_length);
	pwrite(data, buffer, line_length, head);
	unlinkat(dir, "mutex", 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(data);
	close(sem);
	close(dir);
}

int main(int argc, char **argv)
{
	struct { const char *kind; void (*once)(const char *); } kinds[] = {
		{ "mutex", mutex }, { "semaphore", semaphore }, { "put", put }, { "get", get },
	};
	struct timespec start, end;

	check(argc >= 4, "usage: limit KIND DIRECTORY COUNT [LENGTH]");
	if (argc > 4)
		length = strtoul(argv[4], NULL, 10);
	line_length = (length + 1 + 2) / 3 * 4 + 1;
	check((line = malloc(line_length)) != NULL, "malloc");
	for (size_t i = 0; i + 1 < line_length; i++)
		line[i] = "YWFh"[i % 4];	/* aaa */
	line[line_length - 1] = '\n';
	sigfillset(&all);

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		long count = atol(argv[3]);

		if (strcmp(kinds[i].kind, argv[1]) != 0)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (long n = 0; n < count; n++)
			kinds[i].once(argv[2]);
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf("%.0f\n", ((end.tv_sec - start.tv_sec) * 1e9 + (end.tv_nsec - start.tv_nsec)) / count);
		return 0;
	}
	errno = EINVAL;
	check(0, argv[1]);
}
