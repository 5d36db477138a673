#include "../nsapi.h" /* all of base/sem.h is there */
