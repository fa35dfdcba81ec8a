/* A library to preload: the machine's clock is ahead by the seconds in CLOCK_FILE, 8 bytes. Only
 * reading the time is changed: waits are of the monotonic clock, files keep their real times. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long *ahead_s;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *found = file < 0 ? MAP_FAILED : mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    ahead_s = found == MAP_FAILED ? 0 : found;
    if (file >= 0) close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME && ahead_s) now->tv_sec += *ahead_s;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (to) *to = found.tv_sec;
    return found.tv_sec;
}
