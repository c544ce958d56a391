/* A disk that is full or slow, for a server of the tests: preloaded, it stands between the server and the C library.
 *
 * The file that BURSAR_TEST_DISK names says what the disk does: nothing, `full PART` or `slow MILLISECONDS`. A full disk fails writes that
 * make a file longer, if the path of the file contains PART. A slow disk takes its time for every sync. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static ssize_t (*next_read)(int, void *, size_t);

/* Reads the state of the disk into `state`. */
static void look(char *state, size_t size) {
    state[0] = 0;
    const char *path = getenv("BURSAR_TEST_DISK");
    int saved = errno;
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        if (!next_read) next_read = dlsym(RTLD_NEXT, "read");
        ssize_t length = next_read(file, state, size - 1);
        state[length > 0 ? length : 0] = 0;
        close(file);
    }
    errno = saved;
}

/* Returns whether a write up to `end` must fail. */
static int is_full(int file, off_t end) {
    char state[64], link[64], path[512];
    struct stat now;
    look(state, sizeof state);
    if (strncmp(state, "full ", 5) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return strstr(path, state + 5) && fstat(file, &now) == 0 && S_ISREG(now.st_mode) && end > now.st_size;
}

static void wait_if_slow(void) {
    char state[64];
    look(state, sizeof state);
    if (strncmp(state, "slow ", 5) != 0) return;
    long pause = atol(state + 5);
    struct timespec time = { pause / 1000, (pause % 1000) * 1000000 };
    nanosleep(&time, NULL);
}

static size_t total(const struct iovec *parts, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) sum += parts[i].iov_len;
    return sum;
}

#define NEXT(name) static __typeof__(&name) next; if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define REFUSE() do { errno = ENOSPC; return -1; } while (0)

ssize_t write(int file, const void *bytes, size_t size) {
    NEXT(write);
    if (is_full(file, lseek(file, 0, SEEK_CUR) + (off_t)size)) REFUSE();
    return next(file, bytes, size);
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t at) {
    NEXT(pwrite);
    if (is_full(file, at + (off_t)size)) REFUSE();
    return next(file, bytes, size, at);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) {
    NEXT(pwritev);
    if (is_full(file, at + (off_t)total(parts, count))) REFUSE();
    return next(file, parts, count, at);
}

int fsync(int file) {
    NEXT(fsync);
    wait_if_slow();
    return next(file);
}

int fdatasync(int file) {
    NEXT(fdatasync);
    wait_if_slow();
    return next(file);
}
