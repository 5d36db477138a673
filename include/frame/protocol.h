#include "../nsapi.h" /* all of frame/protocol.h is there */
