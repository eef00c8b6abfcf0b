/* SPDX-FileCopyrightText: 2026 inferlab.dflash contributors
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stub NVML: the entry points that nvidia-ml-py calls for the fields of gpu_facts, answered from /etc/nvidia-stub.conf.
 * It stands for hardware that is not here. Entry points that are not here make nvidia-ml-py raise FunctionNotFound, and
 * values that the description leaves out are NVML_ERROR_NOT_SUPPORTED: both happen on real boards. */
#include "stub.h"

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };
#define MIB (1024ULL * 1024ULL)
#define DEVICE(handle) ((int)(long)(handle) - 1)
typedef void *device;
static int initialised;

typedef struct { char legacy[16]; unsigned domain, bus, device, pci_id, subsystem; char id[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } process_info;

static int copy(char *out, unsigned length, const char *text) {
  if (!text) return NOT_SUPPORTED;
  if (strlen(text) + 1 > length) return INSUFFICIENT_SIZE;
  strcpy(out, text);
  return OK;
}
static int field(device d, const char *key, unsigned *out) {
  const char *text = stub_gpu(DEVICE(d), key, NULL);
  if (!text || !isdigit((unsigned char)*text)) return NOT_SUPPORTED;
  *out = (unsigned)strtoul(text, NULL, 0);
  return OK;
}
static int fieldf(device d, const char *key, double scale, unsigned *out) {
  const char *text = stub_gpu(DEVICE(d), key, NULL);
  if (!text || !isdigit((unsigned char)*text)) return NOT_SUPPORTED;
  *out = (unsigned)(strtod(text, NULL) * scale + 0.5);
  return OK;
}
static unsigned long long used_mib(int gpu) {
  stub_process list[256];
  char section[64];
  unsigned long long sum;
  int n = stub_processes(list, 256);
  snprintf(section, sizeof section, "gpu %d", gpu);
  sum = (unsigned long long)stub_number(section, "used", 1);
  for (int i = 0; i < n; i++) if (list[i].gpu == gpu) sum += list[i].mib;
  return sum;
}

const char *nvmlErrorString(int code) {
  switch (code) {
    case 0: return "Success";
    case 1: return "Uninitialized";
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case 6: return "Not Found";
    case 7: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case 12: return "NVML Shared Library Not Found";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
  }
}
int nvmlInitWithFlags(unsigned flags) {
  int code;
  (void)flags;
  stub_load();
  code = stub_module();
  if (!code) code = (int)stub_number("driver", "nvml_error", 0);
  initialised = code == 0;
  return code;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlInit(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { initialised = 0; return OK; }
int nvmlSystemGetDriverVersion(char *out, unsigned length) { return initialised ? copy(out, length, STUB_VERSION) : UNINITIALIZED; }
int nvmlSystemGetNVMLVersion(char *out, unsigned length) { return copy(out, length, STUB_NVML_VERSION); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) {
  double level = strtod(stub_get("driver", "cuda", "13.0"), NULL);
  *out = (int)level * 1000 + (int)((level - (int)level) * 10 + 0.5) * 10;
  return OK;
}
int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }
int nvmlDeviceGetCount_v2(unsigned *out) { if (!initialised) return UNINITIALIZED; *out = (unsigned)stub_gpus(); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out) {
  if (!initialised) return UNINITIALIZED;
  if ((int)index >= stub_gpus()) return INVALID;
  *out = (device)(long)(index + 1);
  return OK;
}
int nvmlDeviceGetIndex(device d, unsigned *out) { *out = (unsigned)DEVICE(d); return OK; }
int nvmlDeviceGetName(device d, char *out, unsigned length) { return copy(out, length, stub_gpu(DEVICE(d), "name", NULL)); }
int nvmlDeviceGetUUID(device d, char *out, unsigned length) { return copy(out, length, stub_gpu(DEVICE(d), "uuid", NULL)); }
int nvmlDeviceGetSerial(device d, char *out, unsigned length) { return copy(out, length, stub_gpu(DEVICE(d), "serial", NULL)); }
int nvmlDeviceGetVbiosVersion(device d, char *out, unsigned length) { return copy(out, length, stub_gpu(DEVICE(d), "vbios", NULL)); }
int nvmlDeviceGetMinorNumber(device d, unsigned *out) { *out = (unsigned)DEVICE(d); return OK; }
int nvmlDeviceGetPciInfo_v3(device d, pci_info *out) {
  const char *id = stub_gpu(DEVICE(d), "bus", "00000000:01:00.0");
  memset(out, 0, sizeof *out);
  snprintf(out->id, sizeof out->id, "%s", id);
  sscanf(id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
  snprintf(out->legacy, sizeof out->legacy, "%04x:%02x:%02x.0", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff);
  out->pci_id = (unsigned)strtoul(stub_gpu(DEVICE(d), "device_id", "0x10de"), NULL, 0);
  return OK;
}
int nvmlDeviceGetCudaComputeCapability(device d, int *major, int *minor) {
  const char *text = stub_gpu(DEVICE(d), "compute_capability", NULL);
  return text && sscanf(text, "%d.%d", major, minor) == 2 ? OK : NOT_SUPPORTED;
}
int nvmlDeviceGetArchitecture(device d, unsigned *out) {
  static const char *names[] = {"", "", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell"};
  const char *text = stub_gpu(DEVICE(d), "architecture", "");
  for (unsigned i = 2; i <= 10; i++) if (!strcmp(text, names[i])) { *out = i; return OK; }
  return NOT_SUPPORTED;
}
int nvmlDeviceGetMemoryInfo_v2(device d, memory_v2 *out) {
  unsigned total, reserved = 0;
  int code = field(d, "memory", &total);
  if (code) return code;
  (void)field(d, "reserved", &reserved);
  out->total = total * MIB;
  out->reserved = reserved * MIB;
  out->used = used_mib(DEVICE(d)) * MIB;
  out->free = out->total - out->reserved - out->used;
  return OK;
}
int nvmlDeviceGetMemoryInfo(device d, memory_v1 *out) {
  memory_v2 info;
  int code = nvmlDeviceGetMemoryInfo_v2(d, &info);
  if (code) return code;
  out->total = info.total;
  out->free = info.free;
  out->used = info.used + info.reserved;
  return OK;
}
int nvmlDeviceGetUtilizationRates(device d, utilization *out) {
  int code = field(d, "utilization", &out->gpu);
  out->memory = 0;
  return code;
}
int nvmlDeviceGetPowerUsage(device d, unsigned *out) { return fieldf(d, "power", 1000, out); }
int nvmlDeviceGetEnforcedPowerLimit(device d, unsigned *out) { return fieldf(d, "power_limit", 1000, out); }
int nvmlDeviceGetTemperature(device d, int sensor, unsigned *out) { (void)sensor; return field(d, "temperature", out); }
int nvmlDeviceGetPerformanceState(device d, int *out) { (void)d; *out = 8; return OK; }
int nvmlDeviceGetComputeMode(device d, int *out) { (void)d; *out = 0; return OK; }
int nvmlDeviceGetPersistenceMode(device d, int *out) { *out = !strcmp(stub_gpu(DEVICE(d), "persistence", "Enabled"), "Enabled"); return OK; }
int nvmlDeviceGetClockInfo(device d, int type, unsigned *out) { return field(d, type == 2 ? "clock_memory" : "clock_sm", out); }
int nvmlDeviceGetMaxClockInfo(device d, int type, unsigned *out) { return field(d, type == 2 ? "max_clock_memory" : "max_clock_sm", out); }
int nvmlDeviceGetCurrPcieLinkGeneration(device d, unsigned *out) { return field(d, "pcie_generation", out); }
int nvmlDeviceGetMaxPcieLinkGeneration(device d, unsigned *out) { return field(d, "pcie_generation", out); }
int nvmlDeviceGetCurrPcieLinkWidth(device d, unsigned *out) { return field(d, "pcie_width", out); }
int nvmlDeviceGetMaxPcieLinkWidth(device d, unsigned *out) { return field(d, "pcie_width", out); }
int nvmlDeviceGetEccMode(device d, int *current, int *pending) {
  const char *text = stub_gpu(DEVICE(d), "ecc", NULL);
  if (!text) return NOT_SUPPORTED;
  *current = *pending = !strcmp(text, "Enabled");
  return OK;
}
int nvmlDeviceGetTotalEccErrors(device d, int type, int counter, unsigned long long *out) {
  (void)type; (void)counter;
  if (!stub_gpu(DEVICE(d), "ecc", NULL)) return NOT_SUPPORTED;
  *out = 0;
  return OK;
}
int nvmlDeviceGetRemappedRows(device d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failure) {
  if (!stub_gpu(DEVICE(d), "remapped_rows", NULL)) return NOT_SUPPORTED;
  (void)field(d, "remapped_rows", uncorrected);
  *corrected = *pending = *failure = 0;
  return OK;
}
int nvmlDeviceGetMigMode(device d, unsigned *current, unsigned *pending) {
  const char *text = stub_gpu(DEVICE(d), "mig", NULL);
  if (!text) return NOT_SUPPORTED;
  *current = *pending = !strcmp(text, "Enabled");
  return OK;
}
static int processes(device d, const char *wanted, unsigned *count, process_info *out) {
  stub_process list[256];
  unsigned n = 0, room = *count;
  int all = stub_processes(list, 256);
  for (int i = 0; i < all; i++) {
    if (list[i].gpu != DEVICE(d) || !strstr(list[i].type, wanted)) continue;
    if (out && n < room) out[n] = (process_info){list[i].pid, list[i].mib * MIB, 0xFFFFFFFFu, 0xFFFFFFFFu};
    n++;
  }
  *count = n;
  return n > room || (n && !out) ? INSUFFICIENT_SIZE : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *n, process_info *out) { return processes(d, "C", n, out); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned *n, process_info *out) { return processes(d, "G", n, out); }

static const char *pair(device a, device b, const char *key, const char *fallback) {
  char section[64];
  const char *text;
  int i = DEVICE(a), j = DEVICE(b);
  snprintf(section, sizeof section, "p2p %d %d", i < j ? i : j, i < j ? j : i);
  text = stub_get(section, key, NULL);
  return text ? text : stub_get("driver", key, fallback);
}
int nvmlDeviceGetTopologyCommonAncestor(device a, device b, int *out) {
  static const struct { const char *word; int level; } words[] = {{"PIX", 10}, {"PXB", 20}, {"PHB", 30}, {"NODE", 40}, {"SYS", 50}};
  const char *link = pair(a, b, "link", "NODE");
  *out = 40;
  for (unsigned i = 0; i < 5; i++) if (!strcmp(link, words[i].word)) *out = words[i].level;
  return OK;
}
int nvmlDeviceGetP2PStatus(device a, device b, int what, int *out) {
  const char *link = pair(a, b, "link", "NODE"), *p2p = pair(a, b, "p2p", "OK");
  if (what == 2) *out = !strncmp(link, "NV", 2) ? 0 : 5;
  else *out = !strcmp(p2p, "OK") ? 0 : !strcmp(p2p, "CNS") ? 1 : !strcmp(p2p, "GNS") ? 2 : 5;
  return OK;
}
static unsigned links(device d) {
  for (int other = 0; other < stub_gpus(); other++) {
    const char *link = other == DEVICE(d) ? "" : pair(d, (device)(long)(other + 1), "link", "NODE");
    if (!strncmp(link, "NV", 2)) return (unsigned)atoi(link + 2);
  }
  return 0;
}
int nvmlDeviceGetNvLinkState(device d, unsigned link, unsigned *active) {
  if (!links(d)) return NOT_SUPPORTED;
  if (link >= links(d)) return INVALID;
  *active = 1;
  return OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, pci_info *out) {
  if (link >= links(d)) return INVALID;
  for (int other = 0; other < stub_gpus(); other++)
    if (other != DEVICE(d) && !strncmp(pair(d, (device)(long)(other + 1), "link", "NODE"), "NV", 2))
      return nvmlDeviceGetPciInfo_v3((device)(long)(other + 1), out);
  return NOT_SUPPORTED;
}
