set(CMAKE_UNITY_BUILD ON)
# Enough pieces for all cores.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
