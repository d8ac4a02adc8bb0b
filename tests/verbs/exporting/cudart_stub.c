/* A CUDA runtime without a GPU: memory is the host's, and a launch is printed to stdout in place of being made.

   $CAPABILITY is the compute capability of every device, as in 90. $SIZES are the bytes of each parameter of a kernel,
   as in 8,4; they are printed as hex digits. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint32_t grid[3], block[3];
  size_t shared;
  void *stream, *attributes;
  unsigned count;
} Config;

int cudaLaunchKernelExC(const Config* config, const void* function, void** arguments) {
  printf("launch %s %u,%u,%u %u,%u,%u %zu ", (const char*)function, config->grid[0], config->grid[1], config->grid[2],
         config->block[0], config->block[1], config->block[2], config->shared);
  char* sizes = strdup(getenv("SIZES") ? getenv("SIZES") : "");
  for (char* size = strtok(sizes, ","); size; size = strtok(NULL, ","), ++arguments)
    for (int i = 0; i < atoi(size); ++i) printf("%02x", ((unsigned char*)*arguments)[i]);
  printf("\n");
  fflush(stdout);
  free(sizes);
  return 0;
}

int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  int capability = atoi(getenv("CAPABILITY"));
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : attribute == 16 ? 132 : 232448;
  return 0;
}

int cudaLibraryLoadData(void** library, const void* code) {
  *library = (void*)code;
  return 0;
}

int cudaLibraryGetKernel(void** kernel, void* library, const char* name) {
  *kernel = strdup(name);
  return 0;
}

static int driver(int* value) { /* any function of the driver: of attributes, and of tensor maps */
  *value = 0;
  return 0;
}

int cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, uint64_t flags, int* found) {
  *function = (void*)driver;
  if (found) *found = 0;
  return 0;
}

int cudaDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cudaGetDevice(int* device) {
  *device = 0;
  return 0;
}

int cudaGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}

int cudaMalloc(void** memory, size_t size) {
  *memory = malloc(size);
  return 0;
}

int cudaMemcpy(void* to, const void* from, size_t size) {
  memcpy(to, from, size);
  return 0;
}

int cudaFree(void* memory) {
  free(memory);
  return 0;
}

const char* cudaGetErrorName(int code) { return code == 1 ? "cudaErrorInvalidValue" : "another error"; }
const char* cudaGetErrorString(int code) { return cudaGetErrorName(code); }

#define SUCCEEDS(name) int name(void) { return 0; }
SUCCEEDS(cudaDeviceSynchronize)
SUCCEEDS(cudaFuncSetAttribute)
SUCCEEDS(cudaGetLastError)
SUCCEEDS(cudaKernelSetAttributeForDevice)
SUCCEEDS(cudaLibraryUnload)
SUCCEEDS(cudaSetDevice)

/* What no kernel calls, but the runtime that it is linked with names */
#define FAILS(name) int name(void) { abort(); }
FAILS(cudaEventCreate)
FAILS(cudaEventDestroy)
FAILS(cudaEventElapsedTime)
FAILS(cudaEventRecord)
FAILS(cudaFreeAsync)
FAILS(cudaFreeHost)
FAILS(cudaGraphDestroy)
FAILS(cudaGraphExecDestroy)
FAILS(cudaGraphInstantiate)
FAILS(cudaGraphLaunch)
FAILS(cudaLibraryGetGlobal)
FAILS(cudaLibraryGetKernelCount)
FAILS(cudaLibraryGetManaged)
FAILS(cudaLibraryGetUnifiedFunction)
FAILS(cudaLibraryLoadFromFile)
FAILS(cudaMallocAsync)
FAILS(cudaMallocHost)
FAILS(cudaMallocManaged)
FAILS(cudaMemcpyAsync)
FAILS(cudaMemset)
FAILS(cudaMemsetAsync)
FAILS(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
FAILS(cudaProfilerStart)
FAILS(cudaProfilerStop)
FAILS(cudaStreamAddCallback)
FAILS(cudaStreamBeginCapture)
FAILS(cudaStreamCreate)
FAILS(cudaStreamDestroy)
FAILS(cudaStreamEndCapture)
FAILS(cudaStreamSynchronize)
FAILS(cudaStreamWaitEvent)
