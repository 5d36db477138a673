#include "../nsapi.h" /* all of frame/log.h is there */
