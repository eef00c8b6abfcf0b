/* SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stub standing for hardware that is not here. Shared by the stub NVML and the stub CUDA driver library: reads the
 * description of the pretended GPUs (README.md has the format) and compares this library's version with the module's. */
#ifndef NVIDIA_STUB_H
#define NVIDIA_STUB_H
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STUB_LINES 2048
typedef struct { char section[64], key[64], value[256]; } stub_line;
static stub_line stub_lines[STUB_LINES];
static int stub_count;

static char *stub_trim(char *text) {
  char *end;
  while (isspace((unsigned char)*text)) text++;
  end = text + strlen(text);
  while (end > text && isspace((unsigned char)end[-1])) *--end = 0;
  return text;
}

static FILE *stub_open(const char *path) {
  char full[512];
  const char *root = getenv("NVIDIA_STUB_ROOT");
  snprintf(full, sizeof full, "%s%s", root ? root : "", path);
  return fopen(full, "r");
}

/* Read at each initialisation, so that a test can change the description between two runs. */
static void stub_load(void) {
  char line[512], section[64] = "";
  FILE *file = stub_open("/etc/nvidia-stub.conf");
  stub_count = 0;
  if (!file) return;
  while (stub_count < STUB_LINES && fgets(line, sizeof line, file)) {
    char *text = stub_trim(line), *equals;
    if (!*text || *text == '#' || *text == ';') continue;
    if (*text == '[') {
      char *close = strchr(text, ']');
      if (close) *close = 0;
      snprintf(section, sizeof section, "%s", text + 1);
      continue;
    }
    if (!(equals = strchr(text, '='))) continue;
    *equals = 0;
    snprintf(stub_lines[stub_count].section, sizeof section, "%s", section);
    snprintf(stub_lines[stub_count].key, sizeof stub_lines->key, "%s", stub_trim(text));
    snprintf(stub_lines[stub_count].value, sizeof stub_lines->value, "%s", stub_trim(equals + 1));
    stub_count++;
  }
  fclose(file);
}

static const char *stub_get(const char *section, const char *key, const char *fallback) {
  for (int i = 0; i < stub_count; i++)
    if (!strcmp(stub_lines[i].section, section) && !strcmp(stub_lines[i].key, key)) return stub_lines[i].value;
  return fallback;
}

static long stub_number(const char *section, const char *key, long fallback) {
  const char *text = stub_get(section, key, NULL);
  return text && (isdigit((unsigned char)*text) || *text == '-') ? strtol(text, NULL, 0) : fallback;
}

static const char *stub_gpu(int index, const char *key, const char *fallback) {
  char section[64];
  snprintf(section, sizeof section, "gpu %d", index);
  return stub_get(section, key, fallback);
}

static int stub_gpus(void) {
  int n = 0;
  while (stub_gpu(n, "uuid", NULL)) n++;
  return n;
}

/* A process of the description counts while it lives; its pid stands there or in a file that a test writes. */
typedef struct { int gpu; unsigned pid; char type[8]; unsigned long long mib; } stub_process;
__attribute__((unused)) static int stub_processes(stub_process *out, int max) {
  int n = 0;
  for (int i = 0; i < stub_count && n < max; i++) {
    const char *section = stub_lines[i].section, *path;
    long pid;
    if (strncmp(section, "process ", 8) || strcmp(stub_lines[i].key, "gpu")) continue;
    pid = stub_number(section, "pid", 0);
    if ((path = stub_get(section, "pid_file", NULL))) {
      FILE *file = stub_open(path);
      pid = 0;
      if (file) {
        if (fscanf(file, "%ld", &pid) != 1) pid = 0;
        fclose(file);
      }
      if (pid && kill((pid_t)pid, 0)) pid = 0;
    }
    if (pid <= 0) continue;
    out[n].gpu = atoi(stub_lines[i].value);
    out[n].pid = (unsigned)pid;
    out[n].mib = (unsigned long long)stub_number(section, "memory", 0);
    snprintf(out[n].type, sizeof out->type, "%s", stub_get(section, "type", "C"));
    n++;
  }
  return n;
}

/* 0: the module's version is STUB_VERSION; 9: no module is loaded; 18: another version is loaded. */
static int stub_module(void) {
  char text[1024] = "", *at;
  size_t length = strlen(STUB_VERSION), got;
  FILE *file = stub_open("/proc/driver/nvidia/version");
  if (!file) return 9;
  got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[got] = 0;
  at = strstr(text, "  " STUB_VERSION);
  return at && isspace((unsigned char)at[2 + length]) ? 0 : 18;
}
#endif
