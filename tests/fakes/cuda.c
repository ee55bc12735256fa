/* Stands in for libcuda: FAKE_CUDA is the number of GPUs, FAKE_CUDA_FAULT "call=code".
 *
 * The code "hang" waits for ever, "crash" ends the process, "forget" gives back other bytes.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned char memory[1 << 16];
static int forgets;

static int at(const char *call) {
    const char *fault = getenv("FAKE_CUDA_FAULT");
    size_t length = strlen(call);
    if (!fault || strncmp(fault, call, length) || fault[length] != '=') return 0;
    const char *code = fault + length + 1;
    if (!strcmp(code, "hang")) for (;;) pause();
    if (!strcmp(code, "crash")) raise(SIGKILL);
    if (!strcmp(code, "forget")) forgets = 1;
    return atoi(code);
}

int cuInit(unsigned flags) { (void)flags; return at("cuInit"); }
int cuDeviceGetCount(int *count) { *count = atoi(getenv("FAKE_CUDA")); return at("cuDeviceGetCount"); }
int cuDeviceGet(int *device, int number) { *device = number; return at("cuDeviceGet"); }
int cuDevicePrimaryCtxRetain(void **context, int device) {
    (void)device;
    *context = memory;
    return at("cuDevicePrimaryCtxRetain");
}
int cuCtxSetCurrent(void *context) { return context == memory ? at("cuCtxSetCurrent") : 201; }
int cuMemAlloc_v2(unsigned long long *place, size_t size) {
    *place = (unsigned long long)(size_t)memory;
    return size > sizeof memory ? 2 : at("cuMemAlloc_v2");
}
int cuMemsetD8_v2(unsigned long long place, unsigned char byte, size_t size) {
    int code = at("cuMemsetD8_v2");
    if (!forgets) memset((void *)(size_t)place, byte, size);
    return code;
}
int cuMemcpyDtoH_v2(void *back, unsigned long long place, size_t size) {
    memcpy(back, (void *)(size_t)place, size);
    return at("cuMemcpyDtoH_v2");
}
