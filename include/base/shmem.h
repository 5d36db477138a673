#include "../nsapi.h" /* all of base/shmem.h is there */
