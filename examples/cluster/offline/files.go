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
	server {
		listen 80 default_server;
		root /usr/share/nginx/html;
		index index.html;
	}
}
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
	return append([]file{
		{path: "etc/nginx/nginx.conf", data: []byte(nginxConf), mode: 0o644},
		{path: "var/log/nginx/", mode: 0o755},
		{path: "var/lib/nginx/", mode: 0o755},
	}, base...), nil
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
	"wc", "wget", "which", "whoami", "xargs", "yes",
}

func busyboxFiles() ([]file, error) {
	var files []file
	for _, name := range applets {
		files = append(files, file{path: "usr/bin/" + name, link: "/bin/busybox"})
	}
	// The shell must be where scripts look for it.
	files = append(files, file{path: "bin/sh", link: "/bin/busybox"})
	return append(files, base...), nil
}
