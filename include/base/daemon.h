#include "../nsapi.h" /* all of base/daemon.h is there */
