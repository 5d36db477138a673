#include "../nsapi.h" /* all of base/file.h is there */
