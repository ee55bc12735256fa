/* A libdcmi.so that answers from a text file, so that the real reader can be tested.
 *
 * The file is named by FAKE_DCMI and holds "key=value" lines ("#" begins a comment):
 *   driver=25.2.0, family=1 (or 2: the functions without cards), cards=0 2 (ids)
 *   C.chips=2 (1 by default), C.types=0 2 (kinds: 0 NPU, 1 controller, 2 processor)
 *   C.D.name=910B3, C.D.type=Ascend, C.D.npu=9391, C.D.logic=0, C.D.health=0
 *   C.D.hbm=65536 3400, C.D.memory=44280 42717, C.D.temperature=38, C.D.compatibility=1
 *   C.D.pci=19e5 d802 19e5 4000 0 c1 0 0 (hexadecimal), C.D.processes=4242:1073741824
 *   fail.FUNCTION=code, hang.FUNCTION=1, crash.FUNCTION=1
 * For family 2 the device is 0.D. What the file does not state is not supported (-8255).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = -8255, NOT_READY = -8012, LINES = 1024, NAME = 32 };
typedef unsigned long long big;

#define CONFIGURATION "FAKE_DCMI"
#include "stated.h"

static int started;

static const char *of(int card, int device, const char *name) {
    char key[120];
    snprintf(key, sizeof key, "%d.%d.%s", card, device, name);
    return stated(key);
}

static int switched(const char *what, const char *function) {
    char key[120];
    snprintf(key, sizeof key, "%s.%s", what, function);
    const char *value = stated(key);
    return value ? atoi(value) : 0;
}

static int entered(const char *function) {
    if (switched("hang", function)) for (;;) pause();
    if (switched("crash", function)) abort();
    if (!started && !strstr(function, "_init")) return NOT_READY;
    return switched("fail", function);
}

#define BEGIN do { int code = entered(__func__); if (code) return code; } while (0)
#define STATED(variable, card, device, name) \
    BEGIN; const char *variable = of(card, device, name); if (!variable) return NOT_SUPPORTED

struct chip { char type[NAME], name[NAME], version[NAME]; unsigned cores; };
struct chip_v2 { struct chip chip; char npu[NAME]; };
struct hbm { big size; unsigned clock; big used; int celsius; unsigned rate; };
struct memory { big size, available; unsigned clock; unsigned long rest[4]; unsigned rate; char spare[60]; };
struct pci { unsigned vendor, subvendor, device, subdevice; int domain; unsigned bus, slot, function; char spare[32]; };
struct process { int pid; unsigned long memory; };

static int family(void) { const char *value = stated("family"); return value ? atoi(value) : 1; }

static int start(const char *function, int which) {
    load();
    if (family() != which) return NOT_SUPPORTED;
    started = 1;
    int code = entered(function);
    started = !code;
    return code;
}
int dcmi_init(void) { return start(__func__, 1); }
int dcmiv2_init(void) { return start(__func__, 2); }

static int numbers(const char *value, int *list, int length) {
    int found = 0;
    for (char *end; value && found < length; value = end) {
        long number = strtol(value, &end, 0);
        if (end == value) break;
        list[found++] = (int)number;
    }
    return found;
}
int dcmi_get_card_list(int *number, int *list, int length) {
    BEGIN;
    *number = numbers(stated("cards"), list, length);
    return OK;
}
int dcmiv2_get_device_list(int *list, int *number, int length) {
    BEGIN;
    *number = numbers(stated("cards"), list, length);
    return OK;
}
int dcmi_get_device_num_in_card(int card, int *number) {
    char key[40];
    BEGIN;
    snprintf(key, sizeof key, "%d.chips", card);
    *number = stated(key) ? atoi(stated(key)) : 1;
    return OK;
}
int dcmi_get_device_type(int card, int device, int *kind) {
    char key[40];
    int kinds[16] = {0};
    BEGIN;
    snprintf(key, sizeof key, "%d.types", card);
    numbers(stated(key), kinds, 16);
    *kind = kinds[device & 15];
    return OK;
}
int dcmi_get_driver_version(char *text, unsigned length) {
    BEGIN;
    if (!stated("driver")) return NOT_SUPPORTED;
    snprintf(text, length, "%s", stated("driver"));
    return OK;
}
static int number(int card, int device, const char *name, int *out) {
    const char *value = of(card, device, name);
    if (!value) return NOT_SUPPORTED;
    *out = (int)strtoll(value, NULL, 0);
    return OK;
}
static void text(char *out, const char *value) { snprintf(out, NAME, "%s", value ? value : ""); }

static int chip(int card, int device, struct chip *out) {
    const char *name = of(card, device, "name");
    if (!name) return NOT_SUPPORTED;
    text(out->type, of(card, device, "type"));
    text(out->name, name);
    text(out->version, "V1");
    out->cores = 20;
    return OK;
}
static int hbm(int card, int device, struct hbm *out) {
    const char *value = of(card, device, "hbm");
    memset(out, 0, sizeof *out);
    return value && sscanf(value, "%llu %llu", &out->size, &out->used) == 2 ? OK : NOT_SUPPORTED;
}
static int pci(int card, int device, struct pci *out) {
    const char *value = of(card, device, "pci");
    unsigned *p = (unsigned *)out;
    if (!value) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 8; i++) p[i] = (unsigned)strtoul(value, (char **)&value, 16);
    return OK;
}
static int processes(int card, int device, struct process *out, int *number) {
    const char *value = of(card, device, "processes");
    *number = 0;
    if (!value) return NOT_SUPPORTED;
    for (int pid; sscanf(value, "%d:%lu", &pid, &out[*number].memory) == 2; ) {
        out[(*number)++].pid = pid;
        value += strcspn(value, " ");
        value += strspn(value, " ");
    }
    return OK;
}

int dcmi_get_device_logic_id(int *out, int card, int device) { BEGIN; return number(card, device, "logic", out); }
int dcmi_get_device_health(int card, int device, int *out) { BEGIN; return number(card, device, "health", out); }
int dcmi_get_device_temperature(int card, int device, int *out) { BEGIN; return number(card, device, "temperature", out); }
int dcmi_get_device_compatibility(int card, int device, int *out) { BEGIN; return number(card, device, "compatibility", out); }
int dcmi_get_device_chip_info(int card, int device, struct chip *out) { BEGIN; return chip(card, device, out); }
int dcmi_get_device_chip_info_v2(int card, int device, struct chip_v2 *out) {
    STATED(npu, card, device, "npu");
    text(out->npu, npu);
    return chip(card, device, &out->chip);
}
int dcmi_get_device_hbm_info(int card, int device, struct hbm *out) { BEGIN; return hbm(card, device, out); }
int dcmi_get_device_memory_info_v3(int card, int device, struct memory *out) {
    STATED(value, card, device, "memory");
    memset(out, 0, sizeof *out);
    return sscanf(value, "%llu %llu", &out->size, &out->available) == 2 ? OK : NOT_SUPPORTED;
}
int dcmi_get_device_pcie_info_v2(int card, int device, struct pci *out) { BEGIN; return pci(card, device, out); }
int dcmi_get_device_resource_info(int card, int device, struct process *out, int *found) {
    BEGIN;
    return processes(card, device, out, found);
}

int dcmiv2_get_device_health(int device, int *out) { BEGIN; return number(0, device, "health", out); }
int dcmiv2_get_device_temperature(int device, int *out) { BEGIN; return number(0, device, "temperature", out); }
int dcmiv2_get_device_compatibility(int device, int *out) { BEGIN; return number(0, device, "compatibility", out); }
int dcmiv2_get_device_chip_info(int device, struct chip_v2 *out) {
    STATED(npu, 0, device, "npu");
    text(out->npu, npu);
    return chip(0, device, &out->chip);
}
int dcmiv2_get_device_hbm_info(int device, struct hbm *out) { BEGIN; return hbm(0, device, out); }
int dcmiv2_get_device_pcie_info(int device, struct pci *out) { BEGIN; return pci(0, device, out); }
int dcmiv2_get_device_resource_info(int device, struct process *out, int *found) {
    BEGIN;
    return processes(0, device, out, found);
}
