#include "../nsapi.h" /* all of frame/func.h is there */
