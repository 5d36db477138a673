#include "../nsapi.h" /* all of frame/objset.h is there */
