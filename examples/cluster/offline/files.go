package offline

// The configuration that the images add to the distribution's files. Theirs
// expects a system with an init, log rotation and user accounts.

const passwd = `root:x:0:0:root:/root:/bin/sh
www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`

const group = `root:x:0:
adm:x:4:
www-data:x:33:
nogroup:x:65534:
`

const nginxConf = `user www-data;
worker_processes 1;
error_log /dev/stderr notice;
pid /run/nginx.pid;
events {
	worker_connections 1024;
}
http {
	include mime.types;
	default_type application/octet-stream;
	access_log /dev/stdout;
	sendfile on;
	include /etc/nginx/conf.d/*.conf;
}
`

// nginxServer is in conf.d, as in the public image, so that a volume mounted there replaces it.
const nginxServer = `server {
	listen 80 default_server;
	root /usr/share/nginx/html;
	index index.html;
}
`

// wget is a script around busybox's. The distribution builds busybox without FEATURE_WGET_TIMEOUT,
// where -T writes its number through a pointer that is missing, and the program crashes. Here the
// time counts for the whole transfer rather than for each read.
const wget = `#!/bin/sh
seconds=
left=$#
while [ $left -gt 0 ]; do
	case $1 in
	--) break ;;
	-[cqS]?*)
		rest=-${1#??}
		flag=${1%"${1#??}"}
		shift
		set -- "$rest" "$@" "$flag"
		continue ;;
	-T|--timeout)
		[ $left -gt 1 ] || exec /bin/busybox wget -T
		seconds=$2
		shift
		left=$((left - 1)) ;;
	-T*) seconds=${1#-T} ;;
	--timeout=*) seconds=${1#--timeout=} ;;
	-[OoPUYt]|--header|--post-data|--post-file)
		if [ $left -gt 1 ]; then
			set -- "$@" "$1"
			shift
			left=$((left - 1))
		fi
		set -- "$@" "$1" ;;
	*) set -- "$@" "$1" ;;
	esac
	shift
	left=$((left - 1))
done
while [ $left -gt 0 ]; do
	set -- "$@" "$1"
	shift
	left=$((left - 1))
done
[ -n "$seconds" ] || exec /bin/busybox wget "$@"
/bin/busybox timeout "$seconds" /bin/busybox wget "$@"
code=$?
[ $code != 143 ] || { echo 'wget: download timed out' >&2; code=1; }
exit $code
`

// base holds the files of every image with a user in it.
var base = []file{
	{path: "etc/passwd", data: []byte(passwd), mode: 0o644},
	{path: "etc/group", data: []byte(group), mode: 0o644},
	{path: "tmp/", mode: 0o1777},
	{path: "run/", mode: 0o755},
	{path: "root/", mode: 0o700},
}

func nginxFiles() ([]file, error) {
	return append(shell(),
		file{path: "etc/nginx/nginx.conf", data: []byte(nginxConf), mode: 0o644},
		file{path: "etc/nginx/conf.d/default.conf", data: []byte(nginxServer), mode: 0o644},
		file{path: "var/log/nginx/", mode: 0o755},
		file{path: "var/lib/nginx/", mode: 0o755},
	), nil
}

// applets are the programs that busybox is called by. /bin/busybox --list names
// more; these are the ones people type into a shell of a pod.
var applets = []string{
	"[", "ash", "awk", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "dirname", "dmesg", "du",
	"echo", "env", "expr", "false", "find", "free", "grep", "gunzip", "gzip", "head", "hostname", "httpd", "id", "ip",
	"kill", "killall", "less", "ln", "ls", "md5sum", "mkdir", "mktemp", "mount", "mv", "nc", "netstat", "nproc",
	"nslookup", "od", "pgrep", "ping", "pkill", "printf", "ps", "pwd", "readlink", "realpath", "rm", "rmdir", "route",
	"sed", "seq", "sh", "sha256sum", "sleep", "sort", "stat", "stty", "sync", "tail", "tar", "tee", "telnet", "test",
	"timeout", "top", "touch", "tr", "traceroute", "true", "tty", "umount", "uname", "uniq", "uptime", "vi", "watch",
	"wc", "which", "whoami", "xargs", "yes",
}

func busyboxFiles() ([]file, error) { return shell(), nil }

// shell returns base, the shell and its programs, which are links to /bin/busybox.
func shell() []file {
	files := []file{{path: "usr/bin/wget", data: []byte(wget), mode: 0o755}}
	for _, name := range applets {
		files = append(files, file{path: "usr/bin/" + name, link: "/bin/busybox"})
	}
	// The shell must be where scripts look for it.
	files = append(files, file{path: "bin/sh", link: "/bin/busybox"})
	return append(files, base...)
}
