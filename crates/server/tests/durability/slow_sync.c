/*
 * Makes syncs slow, and shows when one is under way, in the process that this is preloaded into.
 *
 * SLOW_SYNC_DIR names a directory. Each fsync and fdatasync adds a byte to its file `begun`, sleeps as many microseconds
 * as its file `delay_us` says, waits while its file `hold` is there, syncs, and adds a byte to its file `ended`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int open_in_directory(const char *name, int flags) {
  const char *directory = getenv("SLOW_SYNC_DIR");
  char path[4096];
  if (directory == NULL) return -1;
  snprintf(path, sizeof path, "%s/%s", directory, name);
  return open(path, flags | O_CLOEXEC, 0600);
}

static void note(const char *name) {
  int file = open_in_directory(name, O_WRONLY | O_APPEND | O_CREAT);
  if (file < 0) return;
  if (write(file, ".", 1) != 1) perror(name);
  close(file);
}

static void wait_as_told(void) {
  char text[32] = {0};
  int file = open_in_directory("delay_us", O_RDONLY);
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) > 0) usleep((useconds_t)strtoul(text, NULL, 10));
    close(file);
  }
  while ((file = open_in_directory("hold", O_RDONLY)) >= 0) {
    close(file);
    usleep(1000);
  }
}

static int slowly(const char *name, int descriptor) {
  int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
  note("begun");
  wait_as_told();
  int result = sync(descriptor);
  note("ended");
  return result;
}

int fsync(int descriptor) { return slowly("fsync", descriptor); }
int fdatasync(int descriptor) { return slowly("fdatasync", descriptor); }
