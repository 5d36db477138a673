#include "../nsapi.h" /* all of base/buffer.h is there */
