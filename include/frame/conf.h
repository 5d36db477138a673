#include "../nsapi.h" /* all of frame/conf.h is there */
