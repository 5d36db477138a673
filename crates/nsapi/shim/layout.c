/*
 * The layout of every structure that plug-ins see, on machines with 64-bit pointers and longs: a build that
 * would be incompatible does not compile. src/abi.rs asserts the same of the Rust side.
 */
#include "nsapi.h"
#include <stddef.h>

#ifdef _LP64

#define SIZE(type, size) _Static_assert(sizeof(type) == (size), "size of " #type)
#define OFFSET(type, member, offset) \
    _Static_assert(offsetof(type, member) == (offset), "offset of " #type "." #member)

SIZE(pb_param, 16);
OFFSET(pb_param, name, 0);
OFFSET(pb_param, value, 8);

SIZE(struct pb_entry, 16);
OFFSET(struct pb_entry, param, 0);
OFFSET(struct pb_entry, next, 8);

SIZE(pblock, 16);
OFFSET(pblock, hsize, 0);
OFFSET(pblock, ht, 8);

SIZE(Session, 112);
OFFSET(Session, client, 0);
OFFSET(Session, csd, 8);
OFFSET(Session, inbuf, 16);
OFFSET(Session, csd_open, 24);
OFFSET(Session, iaddr, 28);
OFFSET(Session, pool, 32);
OFFSET(Session, clauth, 40);
OFFSET(Session, next, 48);
OFFSET(Session, fill, 56);
OFFSET(Session, local_addr, 60);
OFFSET(Session, subject, 80);
OFFSET(Session, ssl, 88);
OFFSET(Session, clientauth, 92);
OFFSET(Session, pr_client_addr, 96);
OFFSET(Session, pr_local_addr, 104);

SIZE(Request, 208);
OFFSET(Request, vars, 0);
OFFSET(Request, reqpb, 8);
OFFSET(Request, loadhdrs, 16);
OFFSET(Request, headers, 24);
OFFSET(Request, senthdrs, 32);
OFFSET(Request, srvhdrs, 40);
OFFSET(Request, os, 48);
OFFSET(Request, tmpos, 56);
OFFSET(Request, statpath, 64);
OFFSET(Request, staterr, 72);
OFFSET(Request, finfo, 80);
OFFSET(Request, aclstate, 88);
OFFSET(Request, acldirno, 92);
OFFSET(Request, aclname, 96);
OFFSET(Request, aclpb, 104);
OFFSET(Request, acllist, 112);
OFFSET(Request, request_is_cacheable, 120);
OFFSET(Request, directive_is_cacheable, 124);
OFFSET(Request, cached_headers, 128);
OFFSET(Request, cached_headers_len, 136);
OFFSET(Request, unused, 144);
OFFSET(Request, req_start, 152);
OFFSET(Request, protv_num, 160);
OFFSET(Request, method_num, 162);
OFFSET(Request, rq_attr, 168);
OFFSET(Request, hostname, 176);
OFFSET(Request, allowed, 184);
OFFSET(Request, byterange, 188);
OFFSET(Request, status_num, 192);
OFFSET(Request, staterrno, 196);
OFFSET(Request, orig_rq, 200);

SIZE(netbuf, 104);
OFFSET(netbuf, sd, 0);
OFFSET(netbuf, pos, 8);
OFFSET(netbuf, cursize, 12);
OFFSET(netbuf, maxsize, 16);
OFFSET(netbuf, rdtimeout, 20);
OFFSET(netbuf, inbuf, 24);
OFFSET(netbuf, errmsg, 32);
OFFSET(netbuf, address, 40);

SIZE(filebuffer, 48);
OFFSET(filebuffer, fd, 0);
OFFSET(filebuffer, fp, 8);
OFFSET(filebuffer, len, 16);
OFFSET(filebuffer, inbuf, 24);
OFFSET(filebuffer, cursize, 32);
OFFSET(filebuffer, pos, 36);
OFFSET(filebuffer, errmsg, 40);

SIZE(conf_global_vars_s, 328);
OFFSET(conf_global_vars_s, Vport, 0);
OFFSET(conf_global_vars_s, Vaddr, 8);
OFFSET(conf_global_vars_s, Vuserpw, 16);
OFFSET(conf_global_vars_s, Vchr, 24);
OFFSET(conf_global_vars_s, Vpidfn, 32);
OFFSET(conf_global_vars_s, Vpool_max, 40);
OFFSET(conf_global_vars_s, Vpool_min, 44);
OFFSET(conf_global_vars_s, Vpool_life, 48);
OFFSET(conf_global_vars_s, Vpool_maxthreads, 52);
OFFSET(conf_global_vars_s, Vpool_minthreads, 56);
OFFSET(conf_global_vars_s, Vsecure_keyfn, 64);
OFFSET(conf_global_vars_s, Vsecure_certfn, 72);
OFFSET(conf_global_vars_s, Vsecurity_active, 80);
OFFSET(conf_global_vars_s, Vssl3_session_timeout, 104);
OFFSET(conf_global_vars_s, Vserver_hostname, 112);
OFFSET(conf_global_vars_s, Vroot_object, 120);
OFFSET(conf_global_vars_s, Vstd_os, 128);
OFFSET(conf_global_vars_s, Vacl_root, 136);
OFFSET(conf_global_vars_s, Vmaster_error_log, 144);
OFFSET(conf_global_vars_s, Vserver_root, 152);
OFFSET(conf_global_vars_s, Vserver_id, 160);
OFFSET(conf_global_vars_s, Vadmin_users, 168);
OFFSET(conf_global_vars_s, Vnetsite_root, 176);
OFFSET(conf_global_vars_s, digest_stale_timeout, 184);
OFFSET(conf_global_vars_s, accept_language, 216);
OFFSET(conf_global_vars_s, mtahost, 224);
OFFSET(conf_global_vars_s, nntphost, 232);
OFFSET(conf_global_vars_s, Vacl_root_30, 240);
OFFSET(conf_global_vars_s, agentFilePath, 248);
OFFSET(conf_global_vars_s, Allowed, 256);
OFFSET(conf_global_vars_s, genericGlobals, 264);
OFFSET(conf_global_vars_s, agentsACLFile, 272);
OFFSET(conf_global_vars_s, wait_for_cgi, 280);
OFFSET(conf_global_vars_s, cgiwatch_timeout, 284);
OFFSET(conf_global_vars_s, started_by_watchdog, 288);
OFFSET(conf_global_vars_s, restarted_by_watchdog, 292);
OFFSET(conf_global_vars_s, old_accel_cache_enabled, 296);
OFFSET(conf_global_vars_s, Vssl_cache_entries, 300);
OFFSET(conf_global_vars_s, blocking_listen_socket, 304);
OFFSET(conf_global_vars_s, initfns, 312);
OFFSET(conf_global_vars_s, vs_config_file, 320);

SIZE(cinfo, 24);
OFFSET(cinfo, type, 0);
OFFSET(cinfo, encoding, 8);
OFFSET(cinfo, language, 16);

SIZE(sendfiledata, 56);
OFFSET(sendfiledata, fd, 0);
OFFSET(sendfiledata, offset, 8);
OFFSET(sendfiledata, len, 16);
OFFSET(sendfiledata, header, 24);
OFFSET(sendfiledata, hlen, 32);
OFFSET(sendfiledata, trailer, 40);
OFFSET(sendfiledata, tlen, 48);

SIZE(NSAPIIOVec, 16);
OFFSET(NSAPIIOVec, iov_base, 0);
OFFSET(NSAPIIOVec, iov_len, 8);

SIZE(FuncStruct, 40);
OFFSET(FuncStruct, name, 0);
OFFSET(FuncStruct, func, 8);
OFFSET(FuncStruct, next, 16);
OFFSET(FuncStruct, flags, 24);
OFFSET(FuncStruct, poolID, 28);
OFFSET(FuncStruct, pool_resolved, 32);

SIZE(FilterMethods, 64);
OFFSET(FilterMethods, size, 0);
OFFSET(FilterMethods, insert, 8);
OFFSET(FilterMethods, remove, 16);
OFFSET(FilterMethods, flush, 24);
OFFSET(FilterMethods, read, 32);
OFFSET(FilterMethods, write, 40);
OFFSET(FilterMethods, writev, 48);
OFFSET(FilterMethods, sendfile, 56);

SIZE(FilterLayer, 24);
OFFSET(FilterLayer, filter, 0);
OFFSET(FilterLayer, context, 8);
OFFSET(FilterLayer, lower, 16);

SIZE(FilterContext, 32);
OFFSET(FilterContext, pool, 0);
OFFSET(FilterContext, sn, 8);
OFFSET(FilterContext, rq, 16);
OFFSET(FilterContext, data, 24);

SIZE(shmem_s, 32);
OFFSET(shmem_s, data, 0);
OFFSET(shmem_s, size, 8);
OFFSET(shmem_s, name, 16);
OFFSET(shmem_s, fd, 24);

SIZE(nsapi_dispatch_t, 2464);
OFFSET(nsapi_dispatch_t, f_system_version, 0);
OFFSET(nsapi_dispatch_t, f_vs_register_cb, 2256);
OFFSET(nsapi_dispatch_t, f_prepare_nsapi_thread, 2456);

SIZE(nsapi302_dispatch_t, 72);
OFFSET(nsapi302_dispatch_t, f_net_flush, 0);
OFFSET(nsapi302_dispatch_t, f_filter_create_stack, 64);

SIZE(nsapi303_dispatch_t, 8);
OFFSET(nsapi303_dispatch_t, f_dns_set_hostent, 0);

#endif
