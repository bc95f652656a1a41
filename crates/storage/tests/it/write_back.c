/*
 * Lets the write-back of a journal fail once, in the process that this is preloaded into, as Linux reports such a failure: once to
 * each open file description that was there, whichever thread asks. Descriptors that were duplicated share a description.
 *
 * The order is fixed. A worker begins to sync a journal, and waits; the next write to that journal fails in write-back; before the
 * writer's own sync the worker's sync ends. WRITE_BACK_DIR names a directory, in which `injected` says that the write has failed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTORS 1024

/* An open file description of a journal. */
struct description {
  ino_t inode;
  int errors_seen;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct description *of_descriptor[DESCRIPTORS];
static ino_t failed_inode;
static int is_reported;
static enum { CALM, WORKER_WAITS, FAILED, WORKER_SYNCS, WORKER_IS_DONE } state;

static int is_worker(void) {
  char name[32] = {0};
  pthread_getname_np(pthread_self(), name, sizeof name);
  return strcmp(name, "fjall:worker") == 0;
}

static int errors_of(ino_t inode) { return state >= FAILED && inode == failed_inode; }

static void note_open(int descriptor, const char *path) {
  struct stat found;
  size_t length = strlen(path);
  if (descriptor < 0 || descriptor >= DESCRIPTORS || length < 4 || strcmp(path + length - 4, ".jnl") != 0) return;
  if (fstat(descriptor, &found) != 0) return;
  pthread_mutex_lock(&lock);
  struct description *description = malloc(sizeof *description);
  description->inode = found.st_ino;
  /* An error that was reported to no description is reported to a new one as well. */
  description->errors_seen = is_reported ? errors_of(found.st_ino) : 0;
  of_descriptor[descriptor] = description;
  pthread_mutex_unlock(&lock);
}

#define OPEN(name)                                                            \
  int name(const char *path, int flags, ...) {                                \
    va_list rest;                                                             \
    va_start(rest, flags);                                                    \
    mode_t mode = va_arg(rest, mode_t);                                       \
    va_end(rest);                                                             \
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
    int descriptor = next(path, flags, mode);                                 \
    note_open(descriptor, path);                                              \
    return descriptor;                                                        \
  }
OPEN(open)
OPEN(open64)

static int duplicate(const char *name, int descriptor, int command, long argument) {
  int (*next)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
  int result = next(descriptor, command, argument);
  if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0 && result < DESCRIPTORS && descriptor < DESCRIPTORS) {
    pthread_mutex_lock(&lock);
    of_descriptor[result] = of_descriptor[descriptor];
    pthread_mutex_unlock(&lock);
  }
  return result;
}

#define FCNTL(name)                                  \
  int name(int descriptor, int command, ...) {       \
    va_list rest;                                    \
    va_start(rest, command);                         \
    long argument = va_arg(rest, long);              \
    va_end(rest);                                    \
    return duplicate(#name, descriptor, command, argument); \
  }
FCNTL(fcntl)
FCNTL(fcntl64)

int close(int descriptor) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
  pthread_mutex_lock(&lock);
  if (descriptor >= 0 && descriptor < DESCRIPTORS) of_descriptor[descriptor] = NULL;
  pthread_mutex_unlock(&lock);
  return next(descriptor);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
  ssize_t (*next)(int, const void *, size_t) = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
  ssize_t result = next(descriptor, bytes, count);
  if (descriptor < 0 || descriptor >= DESCRIPTORS) return result;
  pthread_mutex_lock(&lock);
  struct description *description = of_descriptor[descriptor];
  if (description != NULL && state == WORKER_WAITS && description->inode == failed_inode) {
    char path[4096];
    state = FAILED;
    snprintf(path, sizeof path, "%s/injected", getenv("WRITE_BACK_DIR"));
    FILE *injected = fopen(path, "w");
    if (injected != NULL) fclose(injected);
  }
  pthread_mutex_unlock(&lock);
  return result;
}

static void wait_until(int at_least) {
  while ((int)state < at_least) pthread_cond_wait(&changed, &lock);
}

static void advance(int to) {
  state = to;
  pthread_cond_broadcast(&changed);
}

static int synced(const char *name, int descriptor) {
  int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  struct description *description = descriptor >= 0 && descriptor < DESCRIPTORS ? of_descriptor[descriptor] : NULL;
  if (description == NULL) return next(descriptor);
  pthread_mutex_lock(&lock);
  int holds = is_worker() && state == CALM;
  if (holds) {
    failed_inode = description->inode;
    advance(WORKER_WAITS);
    wait_until(WORKER_SYNCS);
  } else if (state == FAILED && description->inode == failed_inode) {
    advance(WORKER_SYNCS);
    wait_until(WORKER_IS_DONE);
  }
  int fails = description->errors_seen < errors_of(description->inode);
  if (fails) {
    description->errors_seen = 1;
    is_reported = 1;
  }
  if (holds) advance(WORKER_IS_DONE);
  pthread_mutex_unlock(&lock);
  if (!fails) return next(descriptor);
  errno = EIO;
  return -1;
}

int fsync(int descriptor) { return synced("fsync", descriptor); }
int fdatasync(int descriptor) { return synced("fdatasync", descriptor); }
