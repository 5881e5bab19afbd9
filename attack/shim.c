/* Loaded before libc: writes below a folder fail from the n-th on, or the clock jumps there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char below[4096];
static long count, last, jump;
static int stays;

void attack_arm(const char *folder, long n, int stay, long seconds) {
    snprintf(below, sizeof below, "%s", folder);
    count = 0, last = n, stays = stay, jump = seconds;
}
long attack_count(void) { return count; }

static int concerns(const char *path) { return below[0] && !strncmp(path, below, strlen(below)); }

static int concerns_fd(int fd) {
    char name[64], path[4096];
    if (!below[0]) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(name, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return concerns(path);
}

/* Is this the call that fails? Every call counts, also those that only move the clock. */
static int fails(int concerned) {
    if (!concerned) return 0;
    count++;
    if (jump || last <= 0 || !(stays ? count >= last : count == last)) return 0;
    errno = ENOSPC;
    return 1;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    return fails(fd > 2 && concerns_fd(fd)) ? -1 : real(fd, data, size);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    REAL(pwrite64);
    return fails(concerns_fd(fd)) ? -1 : real(fd, data, size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL(writev);
    return fails(fd > 2 && concerns_fd(fd)) ? -1 : real(fd, parts, n);
}
size_t fwrite(const void *data, size_t size, size_t n, FILE *file) {
    REAL(fwrite);
    return fails(concerns_fd(fileno(file))) ? 0 : real(data, size, n, file);
}
int fsync(int fd) {
    REAL(fsync);
    return fails(concerns_fd(fd)) ? -1 : real(fd);
}
int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return fails(concerns(path)) ? -1 : real(path, mode);
}
int rename(const char *from, const char *to) {
    REAL(rename);
    return fails(concerns(to)) ? -1 : real(from, to);
}
int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    return fails((flags & O_CREAT) && concerns(path)) ? -1 : real(path, flags, mode);
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    REAL(clock_gettime);
    int code = real(clock, now);
    if (jump && last > 0 && count >= last && clock == CLOCK_REALTIME) now->tv_sec += jump;
    return code;
}
