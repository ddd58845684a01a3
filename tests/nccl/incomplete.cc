// A library that says it is NCCL and cannot move anything.
extern "C" int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
