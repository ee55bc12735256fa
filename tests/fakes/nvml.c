/* A libnvidia-ml.so.1 that answers from a text file, so that the real pynvml can be tested.
 *
 * The file is named by FAKE_NVML and holds "key=value" lines ("#" begins a comment):
 *   driver=, nvml=, cuda=13000, count=2, process.4242=/usr/bin/python3
 *   N.name=, N.uuid=, N.bus=00000000:18:00.0, N.pci_id=233010de, N.subsystem=16c110de
 *   N.capability=9.0, N.memory=81559 512 (MiB total and used), N.brand=, N.minor=
 *   N.compute_mode=, N.persistence=, N.virtualization=, N.gsp=, N.licensed=
 *   N.width=, N.width_max=, N.gen=, N.gen_max=, N.ecc=, N.remapped=0 0 1 0, N.retired=
 *   N.throttle=, N.temperature=, N.processes=4242:1024 4300:64, N.fabric=3 0 0
 *   N.nvlink=switch*18 or 00000000:3B:00.0*4, N.nvlink_down=2
 *   N.mig=1, N.mig_most=7, N.migK.name= (and uuid, memory, slices=1 1 9856, processes)
 *   ancestor.A.B=, p2p.A.B= for A < B
 *   fail.FUNCTION=code, N.fail.FUNCTION=code: that function answers with the code
 *   hang.FUNCTION=1: it never returns; crash.FUNCTION=1: it ends the process
 * What the file does not state is NOT_SUPPORTED, as on a card without the feature.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NOT_FOUND = 6, SMALL = 7 };
enum { LINES = 2048, TO_GPU = 0, TO_SWITCH = 2 };

#define CONFIGURATION "FAKE_NVML"
#include "stated.h"

static int started;

/* A handle is the device's number plus one; that of an instance has its own number plus one
 * in the second byte. */
static int device_of(const void *handle) { return (int)((long)handle & 255) - 1; }
static int instance_of(const void *handle) { return (int)((long)handle >> 8) - 1; }

static const char *of(const void *handle, const char *name) {
    char key[160];
    if (instance_of(handle) >= 0)
        snprintf(key, sizeof key, "%d.mig%d.%s", device_of(handle), instance_of(handle), name);
    else
        snprintf(key, sizeof key, "%d.%s", device_of(handle), name);
    return stated(key);
}

static int switched(const char *what, const char *function) {
    char key[160];
    snprintf(key, sizeof key, "%s.%s", what, function);
    const char *value = stated(key);
    return value ? atoi(value) : 0;
}

static int entered(const char *function) {
    if (switched("hang", function)) for (;;) pause();
    if (switched("crash", function)) abort();
    return switched("fail", function);
}

static int asked(const void *handle, const char *function) {
    char key[160];
    if (!started) return UNINITIALIZED;
    int code = entered(function);
    if (code) return code;
    snprintf(key, sizeof key, "fail.%s", function);
    const char *value = of(handle, key);
    return value ? atoi(value) : OK;
}

#define BEGIN do { if (!started) return UNINITIALIZED; \
    int code = entered(__func__); if (code) return code; } while (0)
#define ASK(handle) do { int code = asked(handle, __func__); if (code) return code; } while (0)
#define STATED(variable, handle, name) \
    const char *variable = of(handle, name); if (!variable) return NOT_SUPPORTED

static int copy(const char *value, char *out, unsigned length) {
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= length) return SMALL;
    strcpy(out, value);
    return OK;
}

/* The library */
static int start(void) {
    load();
    int code = entered("nvmlInit");
    started = !code;
    return code;
}
int nvmlInit_v2(void) { return start(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return start(); }
int nvmlShutdown(void) { started = 0; return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the fake"; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { BEGIN; return copy(stated("driver"), out, n); }
int nvmlSystemGetNVMLVersion(char *out, unsigned n) { BEGIN; return copy(stated("nvml"), out, n); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    BEGIN;
    const char *value = stated("cuda");
    if (!value) return NOT_SUPPORTED;
    *out = atoi(value);
    return OK;
}
int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned n) {
    char key[32];
    BEGIN;
    snprintf(key, sizeof key, "process.%u", pid);
    const char *name = stated(key);
    return name ? copy(name, out, n) : NOT_FOUND;
}
int nvmlDeviceGetCount_v2(unsigned *out) {
    BEGIN;
    const char *value = stated("count");
    *out = value ? (unsigned)atoi(value) : 0;
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    const char *value = stated("count");
    if (index >= (unsigned)(value ? atoi(value) : 0)) return INVALID;
    *handle = (void *)(long)(index + 1);
    return asked(*handle, __func__);
}

/* One plain answer each */
#define TEXT(function, name) \
    int function(void *handle, char *out, unsigned n) { ASK(handle); return copy(of(handle, name), out, n); }
#define NUMBER(function, type, name) \
    int function(void *handle, type *out) { ASK(handle); STATED(v, handle, name); \
        *out = (type)strtoull(v, NULL, 0); return OK; }
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
NUMBER(nvmlDeviceGetBrand, unsigned, "brand")
NUMBER(nvmlDeviceGetMinorNumber, unsigned, "minor")
NUMBER(nvmlDeviceGetComputeMode, unsigned, "compute_mode")
NUMBER(nvmlDeviceGetPersistenceMode, unsigned, "persistence")
NUMBER(nvmlDeviceGetVirtualizationMode, unsigned, "virtualization")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "width_max")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "gen")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "gen_max")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, "retired")
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "throttle")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle")
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned, "mig_most")

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *out) {
    ASK(handle); STATED(v, handle, "temperature");
    (void)sensor;
    *out = (unsigned)atoi(v);
    return OK;
}
int nvmlDeviceGetTotalEccErrors(void *handle, unsigned kind, unsigned since, unsigned long long *out) {
    ASK(handle); STATED(v, handle, "ecc");
    if (kind != 1 || since != 0) return INVALID;
    *out = strtoull(v, NULL, 10);
    return OK;
}
int nvmlDeviceGetCudaComputeCapability(void *handle, int *major, int *minor) {
    ASK(handle); STATED(v, handle, "capability");
    return sscanf(v, "%d.%d", major, minor) == 2 ? OK : INVALID;
}
int nvmlDeviceGetGspFirmwareMode(void *handle, unsigned *enabled, unsigned *preset) {
    ASK(handle); STATED(v, handle, "gsp");
    *enabled = *preset = (unsigned)atoi(v);
    return OK;
}
int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    ASK(handle); STATED(v, handle, "mig");
    *current = *pending = (unsigned)atoi(v);
    return OK;
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned *a, unsigned *b, unsigned *pending, unsigned *failed) {
    ASK(handle); STATED(v, handle, "remapped");
    return sscanf(v, "%u %u %u %u", a, b, pending, failed) == 4 ? OK : INVALID;
}

/* Structures, laid out as in nvml.h */
typedef struct { unsigned long long total, free, used; } Memory;
int nvmlDeviceGetMemoryInfo(void *handle, Memory *out) {
    unsigned long long total = 0, used = 0;
    ASK(handle); STATED(v, handle, "memory");
    sscanf(v, "%llu %llu", &total, &used);
    out->total = total << 20, out->used = used << 20, out->free = (total - used) << 20;
    return OK;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char busId[32]; } Pci;
static int pci(const char *bus, Pci *out) {
    memset(out, 0, sizeof *out);
    snprintf(out->busId, sizeof out->busId, "%s", bus);
    return sscanf(bus, "%x:%x:%x", &out->domain, &out->bus, &out->device) == 3 ? OK : INVALID;
}
int nvmlDeviceGetPciInfo_v3(void *handle, Pci *out) {
    ASK(handle); STATED(bus, handle, "bus");
    int code = pci(bus, out);
    const char *id = of(handle, "pci_id"), *subsystem = of(handle, "subsystem");
    out->id = id ? (unsigned)strtoul(id, NULL, 16) : 0;
    out->subsystem = subsystem ? (unsigned)strtoul(subsystem, NULL, 16) : 0;
    return code;
}
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu, compute; } Process;
static int processes(const char *listed, unsigned *number, Process *out) {
    unsigned room = *number, found = 0, pid, mib;
    for (const char *at = listed; at && *at; at = strchr(at, ' '), at = at ? at + 1 : at) {
        if (sscanf(at, "%u:%u", &pid, &mib) != 2) return INVALID;
        if (out && found < room) out[found] = (Process){pid, (unsigned long long)mib << 20, ~0u, ~0u};
        found++;
    }
    *number = found;
    return found > room ? SMALL : OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *n, Process *out) {
    ASK(handle); return processes(of(handle, "processes"), n, out);
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *n, Process *out) {
    ASK(handle); return processes(of(handle, "processes"), n, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *n, Process *out) {
    ASK(handle); return processes(of(handle, "graphics"), n, out);
}
typedef struct { unsigned char cluster[16]; unsigned status, clique, state; } Fabric;
typedef struct { unsigned version; unsigned char cluster[16]; unsigned status, clique, state, health; } FabricV;
int nvmlDeviceGetGpuFabricInfo(void *handle, Fabric *out) {
    ASK(handle); STATED(v, handle, "fabric");
    return sscanf(v, "%u %u", &out->state, &out->status) == 2 ? OK : INVALID;
}
int nvmlDeviceGetGpuFabricInfoV(void *handle, FabricV *out) {
    ASK(handle); STATED(v, handle, "fabric");
    return sscanf(v, "%u %u %u", &out->state, &out->status, &out->health) == 3 ? OK : INVALID;
}
typedef struct { unsigned shared[7], computeSlices; unsigned long long memory; } Attributes;
int nvmlDeviceGetAttributes_v2(void *handle, Attributes *out) {
    ASK(handle); STATED(v, handle, "slices");
    memset(out, 0, sizeof *out);
    int read = sscanf(v, "%u %u %llu", &out->shared[6], &out->computeSlices, &out->memory);
    return read == 3 ? OK : INVALID;
}
typedef struct { unsigned code, state; char info[128], product[128]; unsigned enabled;
    struct { unsigned year; unsigned short rest[5]; unsigned char status; } expiry; } Feature;
typedef struct { int supported; unsigned number; Feature features[3]; } Features;
int nvmlDeviceGetGridLicensableFeatures_v4(void *handle, Features *out) {
    ASK(handle); STATED(v, handle, "licensed");
    memset(out, 0, sizeof *out);
    out->supported = out->number = 1;
    out->features[0].state = (unsigned)atoi(v);
    return OK;
}

/* MIG instances */
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **out) {
    ASK(handle);
    void *instance = (void *)((long)handle | (long)(index + 1) << 8);
    if (!of(instance, "uuid")) return NOT_FOUND;
    *out = instance;
    return OK;
}

/* NVLinks: "TARGET*NUMBER ..." */
static int link_target(const void *handle, unsigned wanted, char *target) {
    unsigned number, first = 0;
    for (const char *at = of(handle, "nvlink"); at && *at; at = strchr(at, ' '), at = at ? at + 1 : at) {
        if (sscanf(at, "%31[^*]*%u", target, &number) != 2) return -1;
        if (wanted < first + number) return 1;
        first += number;
    }
    const char *down = of(handle, "nvlink_down");
    return wanted < first + (unsigned)(down ? atoi(down) : 0) ? 0 : -1;
}
int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *active) {
    char target[32];
    ASK(handle);
    if (!of(handle, "nvlink") && !of(handle, "nvlink_down")) return NOT_SUPPORTED;
    int state = link_target(handle, link, target);
    *active = state > 0;
    return state < 0 ? INVALID : OK;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned link, unsigned *type) {
    char target[32];
    ASK(handle);
    if (link_target(handle, link, target) <= 0) return INVALID;
    *type = strcmp(target, "switch") ? TO_GPU : TO_SWITCH;
    return OK;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned link, Pci *out) {
    char target[32];
    ASK(handle);
    return link_target(handle, link, target) > 0 ? pci(target, out) : INVALID;
}

/* Pairs */
static int pair(const char *what, const void *one, const void *other, unsigned *out) {
    char key[64];
    int a = device_of(one), b = device_of(other);
    snprintf(key, sizeof key, "%s.%d.%d", what, a < b ? a : b, a < b ? b : a);
    const char *value = stated(key);
    if (!value) return NOT_SUPPORTED;
    *out = (unsigned)atoi(value);
    return OK;
}
int nvmlDeviceGetTopologyCommonAncestor(void *one, void *other, unsigned *out) {
    ASK(one); return pair("ancestor", one, other, out);
}
int nvmlDeviceGetP2PStatus(void *one, void *other, unsigned index, unsigned *out) {
    ASK(one); (void)index; return pair("p2p", one, other, out);
}
