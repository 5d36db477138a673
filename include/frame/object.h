#include "../nsapi.h" /* all of frame/object.h is there */
