//! Pages whose output must equal that of another server, byte for byte. They use no feature that only
//! Touchstone has.

/// For Apache 2.4.
pub(crate) const APACHE_PAGES: &[(&str, &str)] = &[
    (
        "echo.shtml",
        r##"<!--#set var="x" value="a <b> & &quot;c&quot; 'd'" --><!--#echo var="x" -->
<!--#echo encoding="none" var="x" -->
<!--#echo encoding="url" var="x" -->
<!--#echo encoding="urlencoded" var="x" -->
<!--#echo encoding="base64" var="x" -->
<!--#echo encoding="entity" var="x" encoding="none" var="x" -->
<!--#echo var="nosuch" -->|<!--#echo var="DOCUMENT_NAME" -->|<!--#echo var="DOCUMENT_URI" -->|<!--#echo VAR="document_name" -->
<!--#echo var="x" encoding="none" -->
<!--#echo encoding="bogus" var="x" -->|<!--#echo encoding="bogus" var="nosuch" -->
<!--#echo decoding="url" var="x" -->
<!--#set var="u" value="%41%zz%2f+%20<" --><!--#echo decoding="url" var="u" -->|<!--#echo decoding="urlencoded" var="u" -->|<!--#echo encoding="url,base64" var="u" -->
<!--#set var="e" value="&lt;&#65;&auml;&bogus;&#1;&amp" --><!--#echo decoding="entity" encoding="url" var="e" -->
<!--#set var="b" value="YW55IGNhcm4=" --><!--#echo decoding="base64" var="b" -->|<!--#echo decoding="base64" var="u" -->
<!--#echo bogus="x" -->|<!--#echo -->|<!--#echo var -->|<!--#bogus -->
"##,
    ),
    (
        "syntax.shtml",
        r##"a<!--#echo var="DOCUMENT_NAME"-->b
<!--#ECHO var='DOCUMENT_NAME' -->
<!--#echo var=`DOCUMENT_NAME` -->
<!--#echo var=DOCUMENT_NAME -->
<!--#echo
  var
  =
  "DOCUMENT_NAME"
-->
<!--#echo "x" -->
<!--#echo ="x" -->
<!--#-->
<!--#set var="q" value="a\"b\c'd" --><!--#echo var="q" -->
<!--#set var="q" value='a"b\'c' --><!--#echo var="q" -->
<!--#set var="a" value="1" --><!--#set var="c" value="${a}x$a $ $$a \$a ${nosuch}y ${}z $a_b" --><!--#echo var="c" -->
<!--#set var="c" value="x ${open" --><!--#echo var="c" -->
<!--#comment blah blah "blah" -->
<!--#printenv x -->
<!-- #echo var="x" -->
<!--#set var="a" -->|<!--#set value="1" var="a" -->|<!--#set var="a" value="2" bogus="1" -->
<!--#echo var="a" -->
<!--#set var="m" value="1" var="n" value="2" --><!--#echo var="m" --><!--#echo var="n" -->
<!--#endif -->|<!--#endif x -->|<!--#else x -->
tail <!--#echo var="DOCUMENT_NAME"##,
    ),
    (
        "config.shtml",
        r##"<!--#config errmsg="ERR" echomsg="UNDEF" --><!--#echo var="nosuch" --><!--#bogus -->
<!--#config timefmt="%Y" --><!--#flastmod file="plain.html" --> <!--#flastmod virtual="/sub/b.html" -->
<!--#config sizefmt="bytes" --><!--#fsize file="big.bin" --> <!--#fsize file="plain.html" -->
<!--#config sizefmt="abbrev" --><!--#fsize file="big.bin" --> <!--#fsize file="plain.html" --> <!--#fsize virtual="/small.bin" -->
<!--#config sizefmt="x" -->|<!--#config bogus="x" -->|<!--#fsize file="nosuch" -->|<!--#fsize bogus="x" -->|<!--#fsize -->
<!--#fsize file="../plain.html" -->|<!--#fsize file="/plain.html" -->|<!--#fsize file="sub/../plain.html" -->
<!--#config timefmt="%a %A %b %B %c %C %d %D %e %F %g %G %H %I %j %k %l %m %M %n %p %P %r %R %S %t %T %u %U %V %w %W %x %X %y %Y %z %Z %% %Ey %Od %-d %_d %^a %10Y" --><!--#flastmod file="big.bin" -->
<!--#echo var="LAST_MODIFIED" -->
<!--#set var="f" value="plain.html" --><!--#fsize file="$f" -->
<!--#config errmsg="<$f>" --><!--#bogus -->
"##,
    ),
    (
        "include.shtml",
        r##"[<!--#include virtual="/sub/b.html" -->][<!--#include file="sub/b.html" -->][<!--#include virtual="sub/in.shtml?x=1" -->]
<!--#echo var="fromin" --> <!--#echo var="QUERY_STRING" --> <!--#echo var="QUERY_STRING_UNESCAPED" -->
<!--#include virtual="/nosuch" -->|<!--#include virtual="/nosuch" onerror="/sub/b.html" -->|<!--#include virtual="/nosuch" onerror="/nosuch2" -->
<!--#include virtual="/sub/b.html" virtual="/nosuch" virtual="/sub/b.html" -->|<!--#include virtual="/sub/b.html" onerror="/nosuch" -->
<!--#include file="../x" -->|<!--#include file="/x" -->|<!--#include -->|<!--#include bogus="/x" -->|<!--#include virtual="/sub/b.html" bogus="x" -->
<!--#include virtual="/nosuch" file="sub/b.html" -->
<!--#config errmsg="E" echomsg="U" timefmt="%Y" --><!--#include virtual="/sub/cfg.shtml" -->
<!--#include virtual="/sub/%62.html" -->
"##,
    ),
    (
        "conditions.shtml",
        r##"0 <!--#if expr="true" -->T<!--#else -->F<!--#endif -->
1 <!--#if expr="false" -->T<!--#else -->F<!--#endif -->
2 <!--#if expr="!true" -->T<!--#else -->F<!--#endif -->
3 <!--#if expr="v('a') = ''" -->T<!--#else -->F<!--#endif -->
4 <!--#if expr="'a' < 'b'" -->T<!--#else -->F<!--#endif -->
5 <!--#if expr="'b' < 'a'" -->T<!--#else -->F<!--#endif -->
6 <!--#if expr="10 -gt 9" -->T<!--#else -->F<!--#endif -->
7 <!--#if expr="'10' -gt '9'" -->T<!--#else -->F<!--#endif -->
8 <!--#if expr="'x10' -eq 0" -->T<!--#else -->F<!--#endif -->
9 <!--#if expr="10 lt 9" -->T<!--#else -->F<!--#endif -->
10 <!--#if expr="'a' in {'b','a'}" -->T<!--#else -->F<!--#endif -->
11 <!--#if expr="'a' -in {'b'}" -->T<!--#else -->F<!--#endif -->
12 <!--#if expr="-z v('q')" -->T<!--#else -->F<!--#endif -->
13 <!--#if expr="-n 'x'" -->T<!--#else -->F<!--#endif -->
14 <!--#if expr="-T 'off'" -->T<!--#else -->F<!--#endif -->
15 <!--#if expr="-T 'on'" -->T<!--#else -->F<!--#endif -->
16 <!--#if expr="-T '0'" -->T<!--#else -->F<!--#endif -->
17 <!--#if expr="-T '00'" -->T<!--#else -->F<!--#endif -->
18 <!--#if expr="'abc' =~ /b/" -->T<!--#else -->F<!--#endif -->
19 <!--#if expr="'abc' !~ /B/" -->T<!--#else -->F<!--#endif -->
20 <!--#if expr="'abc' =~ /B/i" -->T<!--#else -->F<!--#endif -->
21 <!--#if expr="'abc' =~ m#b#" -->T<!--#else -->F<!--#endif -->
22 <!--#if expr="'a'.'b' = 'ab'" -->T<!--#else -->F<!--#endif -->
23 <!--#if expr="tolower('AB') = 'ab'" -->T<!--#else -->F<!--#endif -->
24 <!--#if expr="toupper('ab') = 'AB'" -->T<!--#else -->F<!--#endif -->
25 <!--#if expr="escape('a b/') = 'a%20b/'" -->T<!--#else -->F<!--#endif -->
26 <!--#if expr="unescape('a%20b') = 'a b'" -->T<!--#else -->F<!--#endif -->
27 <!--#if expr="unescape('a%2fb') = 'a%2fb'" -->T<!--#else -->F<!--#endif -->
28 <!--#if expr="base64('any') = 'YW55'" -->T<!--#else -->F<!--#endif -->
29 <!--#if expr="unbase64('YW55') = 'any'" -->T<!--#else -->F<!--#endif -->
30 <!--#if expr="md5('a') = '0cc175b9c0f1b6a831c399e269772661'" -->T<!--#else -->F<!--#endif -->
31 <!--#if expr="sha1('a') = '86f7e437faa5a7fce15d1ddcb9eaeaea377667b8'" -->T<!--#else -->F<!--#endif -->
32 <!--#if expr="'%{REQUEST_METHOD}' = 'GET'" -->T<!--#else -->F<!--#endif -->
33 <!--#if expr="%{REQUEST_METHOD} == 'GET'" -->T<!--#else -->F<!--#endif -->
34 <!--#if expr="%{HTTP_HOST} =~ /example/" -->T<!--#else -->F<!--#endif -->
35 <!--#if expr="req('Host') =~ /example/" -->T<!--#else -->F<!--#endif -->
36 <!--#if expr="req('x-y') = '1'" -->T<!--#else -->F<!--#endif -->
37 <!--#if expr="http('Nosuch') = ''" -->T<!--#else -->F<!--#endif -->
38 <!--#if expr="-A '/sub/b.html'" -->T<!--#else -->F<!--#endif -->
39 <!--#if expr="-U '/nosuch'" -->T<!--#else -->F<!--#endif -->
40 <!--#if expr="-F '/etc/nosuch'" -->T<!--#else -->F<!--#endif -->
41 <!--#if expr="-R '127.0.0.0/8'" -->T<!--#else -->F<!--#endif -->
42 <!--#if expr="-R '10.0.0.0/8'" -->T<!--#else -->F<!--#endif -->
43 <!--#if expr="'10.1.2.3' -ipmatch '10.0.0.0/8'" -->T<!--#else -->F<!--#endif -->
44 <!--#if expr="'abc' -strmatch 'a*'" -->T<!--#else -->F<!--#endif -->
45 <!--#if expr="'ABC' -strmatch 'a*'" -->T<!--#else -->F<!--#endif -->
46 <!--#if expr="'ABC' -strcmatch 'a*'" -->T<!--#else -->F<!--#endif -->
47 <!--#if expr="'a/b' -fnmatch 'a*'" -->T<!--#else -->F<!--#endif -->
48 <!--#if expr="'a/b' -strmatch 'a*'" -->T<!--#else -->F<!--#endif -->
49 <!--#if expr="'a' -strmatch '[!b]'" -->T<!--#else -->F<!--#endif -->
50 <!--#if expr="true and false" -->T<!--#else -->F<!--#endif -->
51 <!--#if expr="true or false" -->T<!--#else -->F<!--#endif -->
52 <!--#if expr="not false" -->T<!--#else -->F<!--#endif -->
53 <!--#if expr="!(true && false)" -->T<!--#else -->F<!--#endif -->
54 <!--#if expr="('a' = 'a')" -->T<!--#else -->F<!--#endif -->
55 <!--#if expr="%{nosuch} = ''" -->T<!--#else -->F<!--#endif -->
56 <!--#if expr="nosuch('a') = ''" -->T<!--#else -->F<!--#endif -->
57 <!--#if expr="file('/etc/passwd') = ''" -->T<!--#else -->F<!--#endif -->
58 <!--#if expr="-e '/etc/passwd'" -->T<!--#else -->F<!--#endif -->
59 <!--#if expr="'a' = 'b" -->T<!--#else -->F<!--#endif -->
60 <!--#if expr="'a'" -->T<!--#else -->F<!--#endif -->
61 <!--#if expr="a = b" -->T<!--#else -->F<!--#endif -->
62 <!--#if expr="'a' =~ /(/" -->T<!--#else -->F<!--#endif -->
63 <!--#if expr="'a' -nosuch 'b'" -->T<!--#else -->F<!--#endif -->
64 <!--#if expr="-Q 'a'" -->T<!--#else -->F<!--#endif -->
65 <!--#if expr="'\101' = 'A'" -->T<!--#else -->F<!--#endif -->
66 <!--#if expr="'a' == 'a' == 'b'" -->T<!--#else -->F<!--#endif -->
67 <!--#if expr="%{IS_SUBREQ} = 'false'" -->T<!--#else -->F<!--#endif -->
68 <!--#if expr="%{TIME_YEAR} -ge 2020" -->T<!--#else -->F<!--#endif -->
69 <!--#if expr="'x' = '%{v:nosuch}x'" -->T<!--#else -->F<!--#endif -->
70 <!--#if expr="v('DOCUMENT_NAME') = 'conditions.shtml'" -->T<!--#else -->F<!--#endif -->
71 <!--#if expr="reqenv('DOCUMENT_NAME') = 'conditions.shtml'" -->T<!--#else -->F<!--#endif -->
72 <!--#if expr="env('DOCUMENT_NAME') = 'conditions.shtml'" -->T<!--#else -->F<!--#endif -->
73 <!--#if expr="%{DOCUMENT_URI} = '/conditions.shtml'" -->T<!--#else -->F<!--#endif -->
74 <!--#if expr="%{REQUEST_URI} = '/conditions.shtml'" -->T<!--#else -->F<!--#endif -->
75 <!--#if expr="'a' ge 'b'" -->T<!--#else -->F<!--#endif -->
76 <!--#if expr="'5' -ge 5" -->T<!--#else -->F<!--#endif -->
77 <!--#if expr="-5 -lt 3" -->T<!--#else -->F<!--#endif -->
78 <!--#if expr="'a' >= 'a'" -->T<!--#else -->F<!--#endif -->
79 <!--#if expr="'a' <= 'b'" -->T<!--#else -->F<!--#endif -->
80 <!--#if expr="'a' > 'b'" -->T<!--#else -->F<!--#endif -->
81 <!--#if expr="''" -->T<!--#else -->F<!--#endif -->
82 <!--#if expr="" -->T<!--#else -->F<!--#endif -->
83 <!--#if expr="true || true && false" -->T<!--#else -->F<!--#endif -->
84 <!--#if expr="(true || true) && false" -->T<!--#else -->F<!--#endif -->
85 <!--#if expr="false || false" -->T<!--#else -->F<!--#endif -->
86 <!--#if expr="true && true && false || true" -->T<!--#else -->F<!--#endif -->
87 <!--#if expr="'a' =~ /a|b/" -->T<!--#else -->F<!--#endif -->
88 <!--#if expr="-z ''" -->T<!--#else -->F<!--#endif -->"##,
    ),
    (
        "branches.shtml",
        r##"<!--#if expr="true || false" -->1<!--#endif --><!--#if expr="false || false" -->2<!--#else -->3<!--#endif -->
<!--#set var="s" value="hello world" -->
<!--#if expr="'x' =~ /(y)/" -->no<!--#else -->gone? <!--#echo var="1" --><!--#endif -->
<!--#if expr="v('s') =~ /(w)(z)?/ && $1 = 'w'" -->w <!--#echo var="2" -->|<!--#endif -->
<!--#if expr="true" -->a<!--#if expr="false" -->b<!--#elif expr="true" -->c<!--#else -->d<!--#endif -->e<!--#else -->f<!--#endif -->g
<!--#if expr="false" -->a<!--#if expr="true" -->b<!--#elif expr="true" -->c<!--#endif -->d<!--#elif expr="false" -->e<!--#elif expr="true" -->f<!--#elif expr="true" -->g<!--#else -->h<!--#endif -->i
<!--#if -->x<!--#endif -->|<!--#if expr="a b" -->y<!--#endif -->|<!--#if bogus="x" -->z<!--#endif -->|<!--#if expr="true" expr="true" -->w<!--#endif -->
<!--#else -->hidden<!--#endif -->shown
<!--#elif expr="true" -->u<!--#endif -->v
<!--#if expr="false" -->1<!--#elif -->2<!--#endif -->3
<!--#if expr="true" -->1<!--#elif expr="bad bad" -->2<!--#endif -->3
<!--#if expr="false" -->1<!--#else -->2<!--#else -->3<!--#else -->4<!--#endif -->5
<!--#if expr="false" --><!--#set var="never" value="1" --><!--#endif --><!--#echo var="never" -->
<!--#if expr="false" -->unclosed"##,
    ),
    (
        "variables.shtml",
        r##"REMOTE_ADDR=<!--#echo var="REMOTE_ADDR" -->
REQUEST_METHOD=<!--#echo var="REQUEST_METHOD" -->
QUERY_STRING=<!--#echo var="QUERY_STRING" -->
QUERY_STRING_UNESCAPED=<!--#echo var="QUERY_STRING_UNESCAPED" -->
GATEWAY_INTERFACE=<!--#echo var="GATEWAY_INTERFACE" -->
SERVER_PROTOCOL=<!--#echo var="SERVER_PROTOCOL" -->
HTTP_HOST=<!--#echo var="HTTP_HOST" -->
HTTP_X_Y=<!--#echo var="HTTP_X_Y" -->
SCRIPT_NAME=<!--#echo var="SCRIPT_NAME" -->
SCRIPT_FILENAME=<!--#echo var="SCRIPT_FILENAME" -->
DOCUMENT_ROOT=<!--#echo var="DOCUMENT_ROOT" -->
REQUEST_URI=<!--#echo var="REQUEST_URI" -->
DOCUMENT_ARGS=<!--#echo var="DOCUMENT_ARGS" -->
DOCUMENT_PATH_INFO=<!--#echo var="DOCUMENT_PATH_INFO" -->
USER_NAME=<!--#echo var="USER_NAME" -->
SERVER_NAME=<!--#echo var="SERVER_NAME" -->
REQUEST_SCHEME=<!--#echo var="REQUEST_SCHEME" -->
AUTH_TYPE=<!--#echo var="AUTH_TYPE" -->
REMOTE_USER=<!--#echo var="REMOTE_USER" -->
HTTPS=<!--#echo var="HTTPS" -->
CONTENT_LENGTH=<!--#echo var="CONTENT_LENGTH" -->
SERVER_ADDR=<!--#echo var="SERVER_ADDR" -->
"##,
    ),
];

/// For Apache 2.4 with `SSILegacyExprParser on`.
pub(crate) const LEGACY_PAGES: &[(&str, &str)] = &[
    (
        "conditions.shtml",
        r##"<!--#set var="a" value="1" --><!--#set var="b" value="two words" -->0 <!--#if expr="$a" -->T<!--#else -->F<!--#endif -->
1 <!--#if expr="!$a" -->T<!--#else -->F<!--#endif -->
2 <!--#if expr="$a = 1" -->T<!--#else -->F<!--#endif -->
3 <!--#if expr="$a != 1" -->T<!--#else -->F<!--#endif -->
4 <!--#if expr="$a == 1" -->T<!--#else -->F<!--#endif -->
5 <!--#if expr="$b = two words" -->T<!--#else -->F<!--#endif -->
6 <!--#if expr="$b = 'two words'" -->T<!--#else -->F<!--#endif -->
7 <!--#if expr="$b = /two/" -->T<!--#else -->F<!--#endif -->
8 <!--#if expr="$b = /^(t)(w)/ && $2 = w" -->T<!--#else -->F<!--#endif -->
9 <!--#if expr="$n && $a " -->T<!--#else -->F<!--#endif -->
10 <!--#if expr="" -->T<!--#else -->F<!--#endif -->
11 <!--#if expr=" $a" -->T<!--#else -->F<!--#endif -->
12 <!--#if expr="($n && $a) " -->T<!--#else -->F<!--#endif -->
13 <!--#if expr="" -->T<!--#else -->F<!--#endif -->
14 <!--#if expr=" $a" -->T<!--#else -->F<!--#endif -->
15 <!--#if expr="$a " -->T<!--#else -->F<!--#endif -->
16 <!--#if expr="" -->T<!--#else -->F<!--#endif -->
17 <!--#if expr=" $n && $n" -->T<!--#else -->F<!--#endif -->
18 <!--#if expr="!($a = 2)" -->T<!--#else -->F<!--#endif -->
19 <!--#if expr="!$a = 1" -->T<!--#else -->F<!--#endif -->
20 <!--#if expr="($a" -->T<!--#else -->F<!--#endif -->
21 <!--#if expr="$a)" -->T<!--#else -->F<!--#endif -->
22 <!--#if expr="/x/" -->T<!--#else -->F<!--#endif -->
23 <!--#if expr="a = /x" -->T<!--#else -->F<!--#endif -->
24 <!--#if expr="a < b" -->T<!--#else -->F<!--#endif -->
25 <!--#if expr="b >= a" -->T<!--#else -->F<!--#endif -->
26 <!--#if expr="a > b" -->T<!--#else -->F<!--#endif -->
27 <!--#if expr="-A /sub/b.html" -->T<!--#else -->F<!--#endif -->
28 <!--#if expr="()" -->T<!--#else -->F<!--#endif -->
29 <!--#if expr="!" -->T<!--#else -->F<!--#endif -->
30 <!--#if expr="a =" -->T<!--#else -->F<!--#endif -->
31 <!--#if expr="= a" -->T<!--#else -->F<!--#endif -->
32 <!--#if expr="'unfinished" -->T<!--#else -->F<!--#endif -->
33 <!--#if expr="a b c" -->T<!--#else -->F<!--#endif -->
34 <!--#if expr="$a && " -->T<!--#else -->F<!--#endif -->
35 <!--#if expr="$a = \1" -->T<!--#else -->F<!--#endif -->
36 <!--#if expr="a\=b = 'a=b'" -->T<!--#else -->F<!--#endif -->
37 <!--#if expr="($n && $b = /(two)/) " -->T<!--#else -->F<!--#endif -->
38 <!--#if expr="" -->T<!--#else -->F<!--#endif -->
39 <!--#if expr=" $1 = two" -->T<!--#else -->F<!--#endif -->
40 <!--#if expr="$n" -->T<!--#else -->F<!--#endif -->
41 <!--#if expr="" -->T<!--#else -->F<!--#endif -->
42 <!--#if expr="${a}x = 1x" -->T<!--#else -->F<!--#endif -->
43 <!--#if expr="a = (b)" -->T<!--#else -->F<!--#endif -->
44 <!--#if expr="!!a" -->T<!--#else -->F<!--#endif -->
45 <!--#if expr="(a) b" -->T<!--#else -->F<!--#endif -->
46 <!--#if expr="a&&b" -->T<!--#else -->F<!--#endif -->
47 <!--#if expr="a & b = 'a & b'" -->T<!--#else -->F<!--#endif -->
48 <!--#if expr="$b = /$a/" -->T<!--#else -->F<!--#endif -->
49 <!--#if expr="$b != /$a/" -->T<!--#else -->F<!--#endif -->
50 <!--#if expr="$n || $a" -->T<!--#else -->F<!--#endif -->
51 <!--#if expr="$n || $n" -->T<!--#else -->F<!--#endif -->
52 <!--#if expr="-A /nosuch" -->T<!--#else -->F<!--#endif -->"##,
    ),
    (
        "captures.shtml",
        r##"<!--#set var="s" value="hello" --><!--#if expr="$s = /h(e)(x)?/" --><!--#echo var="0" -->,<!--#echo var="1" -->,<!--#echo var="2" --><!--#endif --><!--#if expr="$s = /z/" --><!--#else --><!--#echo var="0" --><!--#endif --><!--#if expr="false" -->x<!--#elif expr="$s = hello" -->y<!--#endif -->"##,
    ),
];

/// For nginx.
pub(crate) const NGINX_PAGES: &[(&str, &str)] = &[
    (
        "block.shtml",
        r##"<!--# block name="one" -->stub text<!--# endblock -->[<!--# include virtual="/empty.html" stub="one" -->][<!--# include virtual="/nosuch" stub="one" -->][<!--# include virtual="/plain.html" stub="one" -->]"##,
    ),
    (
        "set.shtml",
        r##"<!--# set var="x" value="a <b>" --><!--# echo var="x" -->|<!--# echo var="nosuch" -->|<!--# echo var="nosuch" default="d" -->|<!--# echo var="nosuch" default="" -->|<!--# set var="y" value="$x-${x}c" --><!--# echo var="y" -->|<!--# include virtual="/plain.html" wait="yes" -->|<!--# include file="plain.html" -->"##,
    ),
    (
        "if.shtml",
        r##"<!--# set var="v" value="hello" --><!--# if expr="$v" -->1<!--# else -->2<!--# endif --><!--# if expr="$nosuch" -->1<!--# else -->2<!--# endif --><!--# if expr="$v = hello" -->1<!--# else -->2<!--# endif --><!--# if expr="$v != hello" -->1<!--# elif expr="$v = /^h(.)/" -->3<!--# else -->2<!--# endif --><!--# if expr="$v = /l(?P<rest>.*)/" --><!--# echo var="rest" --><!--# endif -->"##,
    ),
];

/// For nginx with `expressions = "nginx"`, requested with several queries.
pub(crate) const NGINX_REQUEST_PAGES: &[(&str, &str)] = &[
    (
        "variables.shtml",
        r##"arg_v=<!--# echo var="arg_v" -->
ARG_V=<!--# echo var="ARG_V" -->
arg_w=<!--# echo var="arg_w" -->
args=<!--# echo var="args" -->
is_args=<!--# echo var="is_args" -->
query_string=<!--# echo var="query_string" -->
uri=<!--# echo var="uri" -->
document_uri=<!--# echo var="document_uri" -->
request_uri=<!--# echo var="request_uri" -->
host=<!--# echo var="host" -->
scheme=<!--# echo var="scheme" -->
https=<!--# echo var="https" -->
cookie_v=<!--# echo var="cookie_v" -->
cookie_x=<!--# echo var="cookie_x" -->
http_x_y=<!--# echo var="http_x_y" -->
http_nosuch=<!--# echo var="http_nosuch" -->
http_user_agent=<!--# echo var="http_user_agent" -->
request=<!--# echo var="request" -->
request_method=<!--# echo var="request_method" -->
remote_addr=<!--# echo var="remote_addr" -->
server_addr=<!--# echo var="server_addr" -->
server_protocol=<!--# echo var="server_protocol" -->
document_root=<!--# echo var="document_root" -->
request_filename=<!--# echo var="request_filename" -->
content_type=<!--# echo var="content_type" -->
content_length=<!--# echo var="content_length" -->
remote_user=<!--# echo var="remote_user" -->
nosuch=<!--# echo var="nosuch" -->
[<!--# include virtual="/inner.shtml?v=inner&w=x" -->][<!--# include virtual="/inner.shtml" -->][<!--# include virtual="/inner.shtml?$args" -->]"##,
    ),
    (
        "inner.shtml",
        r##"<!--# echo var="arg_v" -->,<!--# echo var="args" -->,<!--# echo var="uri" -->,<!--# echo var="document_uri" -->,<!--# echo var="request_uri" -->,<!--# echo var="query_string" -->,<!--# echo var="request_filename" -->"##,
    ),
    (
        "attributes.shtml",
        r##"<!--# set value="<$arg_v>" var="x" --><!--# echo var="x" encoding="none" -->|<!--# echo encoding="none" var="x" -->|<!--# echo default="none" var="nosuch" -->|<!--# echo var="x" encoding="entity" -->|<!--# echo var="x" -->|<!--# set var="y" value="a\$b\\c\'d\"e\d" --><!--# echo var="y" -->|<!--# set var="z" value='&amp;"' --><!--# echo var="z" encoding="none" -->|<!--# set var="arg_v" value="own" --><!--# echo var="arg_v" -->|<!--# config errmsg="failed" --><!--# nosuch -->|<!--# include virtual="/empty.html" -->|<!--# include virtual="/plain%2ehtml" -->|<!--# include virtual="/inner.shtml%3fv=1" stub="none" -->"##,
    ),
    ("empty.shtml", ""),
    (
        "blocks.shtml",
        r##"<!--# block name="one" --><!--# if expr="$arg_v" -->with <!--# echo var="arg_v" --><!--# else -->without<!--# endif --><!--# endblock -->[<!--# include virtual="/nosuch.shtml?$args" stub="one" -->]<!--# block name="two" -->plain<!--# endblock -->[<!--# include virtual="/empty.shtml?$args" stub="two" -->]<!--# include virtual="/inner.shtml?v=kept" set="kept" wait="yes" -->[<!--# echo var="kept" -->]"##,
    ),
];

/// Conditions for nginx.
pub(crate) const NGINX_CONDITIONS: &[&str] = &[
    "$arg_v",
    "${arg_v}",
    "$arg_nosuch",
    "$arg_v = equal",
    "$arg_v=equal",
    "$arg_v  =  equal",
    "$arg_v != equal",
    "equal = $arg_v",
    "equal != $arg_v",
    "EQUAL = equal",
    "$arg_v = /eq/",
    "$arg_v != /eq/",
    "$arg_v = /EQ/",
    r"$arg_v = /(CAP\d).*(CAP\d)/",
    "$1 = CAP1",
    r"$arg_v = /^\w+$arg_w/",
    "$arg_v = /(?P<named>eq)/",
    "$named = eq",
    "$arg_v = x$arg_v",
    "$arg_v = two words",
    r"$arg_v = \/x",
    "$arg_v = ",
    "$arg_v !=",
    "x$arg_v",
    "x",
    "$uri = /conditions/",
    "$arg_v = /./",
    r"$arg_v = /\./",
    "$cookie_v = cookie",
    "$host = a.example",
];
