/* A libnvidia-ml.so.1 for machines without a GPU: as much of its interface as the memory probe uses.
 *
 * The file named by FAKE_NVML holds one line per GPU and is read anew at every call, so that a test can change a GPU
 * under a running process (write beside it, then rename):
 *
 *     <used MiB> <state> [pid:MiB ...]        state: ok, lost, or hang (the call about its memory never returns)
 *
 * A file that begins with "init <code>" lets the initialization fail with that code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MIB (1024ULL * 1024ULL)
#define MOST 16
#define RESERVED (561 * MIB)
#define TOTAL (81559 * MIB)

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };

typedef struct gpu { int index; } *device;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process;
typedef struct { unsigned long long used; char state[8]; char processes[256]; } line;

static struct gpu gpus[MOST];
static int is_open;

static int read_lines(line *lines) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char text[512];
    int count = 0;
    if (!file) return 0;
    while (count < MOST && fgets(text, sizeof text, file)) {
        line *one = &lines[count];
        memset(one, 0, sizeof *one);
        if (sscanf(text, "%llu %7s %255[^\n]", &one->used, one->state, one->processes) >= 2) count++;
    }
    fclose(file);
    return count;
}

static int failing_init(void) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    int code = 0;
    if (file) {
        if (fscanf(file, "init %d", &code) != 1) code = 0;
        fclose(file);
    }
    return code;
}

static int look(device of, line *found) {
    line lines[MOST];
    int count = read_lines(lines);
    if (!is_open) return UNINITIALIZED;
    if (!of || of < gpus || of >= gpus + MOST || of->index >= count) return INVALID_ARGUMENT;
    *found = lines[of->index];
    return strcmp(found->state, "lost") ? SUCCESS : GPU_IS_LOST;
}

API int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int code = failing_init();
    if (code) return code;
    for (int index = 0; index < MOST; index++) gpus[index].index = index;
    is_open = 1;
    return SUCCESS;
}

API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

API int nvmlShutdown(void) { is_open = 0; return SUCCESS; }

API const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "an error"; }

API int nvmlDeviceGetCount_v2(unsigned *count) {
    line lines[MOST];
    if (!is_open) return UNINITIALIZED;
    *count = read_lines(lines);
    return SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *found) {
    line unused;
    if (!is_open) return UNINITIALIZED;
    if (index >= MOST) return INVALID_ARGUMENT;
    *found = &gpus[index];
    return look(*found, &unused);
}

API int nvmlDeviceGetUUID(device of, char *uuid, unsigned length) {
    line unused;
    int code = look(of, &unused);
    if (code) return code;
    if (snprintf(uuid, length, "GPU-fa4e0000-0000-0000-0000-%012d", of->index) >= (int)length) return INSUFFICIENT_SIZE;
    return SUCCESS;
}

API int nvmlDeviceGetMemoryInfo(device of, memory_v1 *memory) {
    line now;
    int code = look(of, &now);
    if (code) return code;
    while (!strcmp(now.state, "hang")) pause();
    memory->total = TOTAL;
    memory->used = now.used * MIB + RESERVED; /* the older call counts what the driver keeps for itself */
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

API int nvmlDeviceGetMemoryInfo_v2(device of, memory_v2 *memory) {
    line now;
    int code = look(of, &now);
    if (code) return code;
    while (!strcmp(now.state, "hang")) pause();
    memory->total = TOTAL;
    memory->reserved = RESERVED;
    memory->used = now.used * MIB;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(device of, unsigned *count, process *processes) {
    line now;
    int code = look(of, &now);
    unsigned found = 0;
    if (code) return code;
    for (char *rest = NULL, *word = strtok_r(now.processes, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        unsigned pid;
        unsigned long long used;
        if (sscanf(word, "%u:%llu", &pid, &used) != 2) continue;
        if (processes && found < *count) processes[found] = (process){pid, used * MIB, ~0u, ~0u};
        found++;
    }
    code = found > *count ? INSUFFICIENT_SIZE : SUCCESS;
    *count = found;
    return code;
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(device of, unsigned *count, process *processes) {
    line unused;
    (void)processes;
    *count = 0;
    return look(of, &unused);
}
