/* NVML as the leg calls it, with the answers of the file $NVML_ANSWERS: lines of words.
   https://docs.nvidia.com/deploy/nvml-api/ */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
} nvmlProcessInfo_t;

/* The number after a word of the file; 0 without the word. */
static int number_of(const char *word) {
    char line[200], name[100];
    int number = 0, found = 0;
    FILE *file = fopen(getenv("NVML_ANSWERS"), "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%99s %d", name, &number) >= 1 && !strcmp(name, word)) found = number;
    if (file) fclose(file);
    return found;
}

int nvmlInit_v2(void) { return number_of("init"); }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = number_of("devices");
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    *device = (void *)(size_t)(index + 1);
    return 0;
}

int LIST(void *device, unsigned int *count, nvmlProcessInfo_t *infos) {
    char line[200];
    unsigned int room = infos ? *count : 0, number = 0, index, pid;
    unsigned long long size;
    FILE *file = fopen(getenv("NVML_ANSWERS"), "r");
    if (number_of("hang")) sleep(600);
    if (number_of("abort")) abort();
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "process %u %u %llu", &index, &pid, &size) == 3 && device == (void *)(size_t)(index + 1)) {
            if (number < room) infos[number] = (nvmlProcessInfo_t){pid, size, -1, -1};
            number++;
        }
    if (file) fclose(file);
    *count = number;
    return number > room ? 7 : 0; /* NVML_ERROR_INSUFFICIENT_SIZE */
}
