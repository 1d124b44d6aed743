/* Preloaded into a shell under test: stops the process (SIGSTOP) before the STOP_COUNTth call of the libc function
 * STOP_BEFORE, so that a test can put it aside between two steps of an operation. Sets the realtime clock an hour
 * forward as soon as the file CLOCK_JUMPS exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static void step(const char *name)
{
    static int left = -1;
    const char *at = getenv("STOP_BEFORE");

    if (at == NULL || strcmp(at, name) != 0)
        return;
    if (left < 0)
        left = atoi(getenv("STOP_COUNT"));
    if (left > 0 && --left == 0)
        raise(SIGSTOP);
}

#define STEP(result, name, parameters, arguments)                                                                      \
    result name parameters                                                                                             \
    {                                                                                                                  \
        static result(*real) parameters;                                                                               \
        if (real == NULL)                                                                                              \
            real = (result(*) parameters)dlsym(RTLD_NEXT, #name);                                                      \
        step(#name);                                                                                                   \
        return real arguments;                                                                                         \
    }

STEP(int, flock, (int fd, int operation), (fd, operation))
STEP(int, symlinkat, (const char *text, int dir, const char *name), (text, dir, name))
STEP(int, unlinkat, (int dir, const char *name, int flags), (dir, name, flags))
STEP(int, renameat, (int from, const char *old, int to, const char *new), (from, old, to, new))
STEP(ssize_t, pwrite, (int fd, const void *bytes, size_t size, off_t at), (fd, bytes, size, at))
STEP(int, ftruncate, (int fd, off_t length), (fd, length))

static int has_jumped(void)
{
    const char *jumps = getenv("CLOCK_JUMPS");

    return jumps != NULL && access(jumps, F_OK) == 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    static int (*real)(struct timeval *, void *);
    int result;

    if (real == NULL)
        real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    result = real(now, zone);
    if (result == 0 && has_jumped())
        now->tv_sec += 3600;
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    int result;

    if (real == NULL)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    result = real(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME && has_jumped())
        now->tv_sec += 3600;
    return result;
}
