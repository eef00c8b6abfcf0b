/* SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stub CUDA driver library: only what opening a context needs. It stands for hardware that is not here. */
#include "stub.h"

enum { OK = 0, NO_DEVICE = 100, INVALID_DEVICE = 101, SYSTEM_DRIVER_MISMATCH = 803 };
static int visible[64], visible_count;

int cuInit(unsigned flags) {
  char wanted[1024], *word, *rest;
  const char *selection = getenv("CUDA_VISIBLE_DEVICES");
  int code;
  (void)flags;
  stub_load();
  code = stub_module();
  if (code) return code == 18 ? SYSTEM_DRIVER_MISMATCH : NO_DEVICE;
  if ((code = (int)stub_number("driver", "cuda_error", 0))) return code;
  visible_count = 0;
  if (!selection) {
    for (int i = 0; i < stub_gpus() && i < 64; i++) visible[visible_count++] = i;
  } else {
    snprintf(wanted, sizeof wanted, "%s", selection);
    for (word = strtok_r(wanted, ",", &rest); word && visible_count < 64; word = strtok_r(NULL, ",", &rest))
      for (int i = 0; i < stub_gpus(); i++)
        if (!strcmp(word, stub_gpu(i, "uuid", "")) || (isdigit((unsigned char)*word) && atoi(word) == i)) visible[visible_count++] = i;
  }
  return visible_count ? OK : NO_DEVICE;
}
int cuDriverGetVersion(int *out) { *out = 13000; return OK; }
int cuDeviceGetCount(int *out) { *out = visible_count; return OK; }
int cuDeviceGet(int *out, int ordinal) {
  if (ordinal < 0 || ordinal >= visible_count) return INVALID_DEVICE;
  *out = visible[ordinal];
  return OK;
}
int cuDevicePrimaryCtxRetain(void **out, int device) {
  int code = atoi(stub_gpu(device, "context_error", "0"));
  if (!code) *out = (void *)1;
  return code;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device < stub_gpus() ? OK : INVALID_DEVICE; }
int cuGetErrorString(int code, const char **out) {
  switch (code) {
    case 2: *out = "out of memory"; break;
    case 46: *out = "CUDA-capable device(s) is/are busy or unavailable"; break;
    case 100: *out = "no CUDA-capable device is detected"; break;
    case 802: *out = "system not yet initialized"; break;
    case 803: *out = "system has unsupported display driver / cuda driver combination"; break;
    default: *out = "unknown error";
  }
  return OK;
}
