#include "../nsapi.h" /* all of base/systems.h is there */
