package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
)

// stamped is a line of a log file of some seconds ago.
func stamped(ago time.Duration, rest string) string {
	return time.Now().Add(-ago).UTC().Format(time.RFC3339Nano) + " " + rest + "\n"
}

func TestLogOptions(t *testing.T) {
	k := start(t, nil)
	k.write(logFile, stamped(time.Hour, "stdout F one")+
		"2020-01-01T00:00:00.5Z stderr F two\n"+
		"torn by a cra\n"+
		stamped(time.Second, "stdout P thr")+stamped(time.Second, "stdout P e")+stamped(time.Second, "stdout F e")+
		stamped(time.Second, "stderr F:x ")+
		stamped(time.Second, "stdout F four  spaced")+
		"2026-01-01T00:00:00Z stdout F half a li")
	all := "one\ntwo\nthree\n\nfour  spaced\n"
	for query, want := range map[string]string{
		"":                                  all,
		"?tailLines=0":                      "",
		"?tailLines=1":                      "",
		"?tailLines=2":                      "four  spaced\n",
		"?tailLines=1000":                   all,
		"?tail=2":                           "four  spaced\n",
		"?tail=all":                         all,
		"?timestamps=False&previous=0":      all,
		"?limitBytes=1":                     "o",
		"?limitBytes=4":                     "one\n",
		"?limitBytes=9":                     "one\ntwo\nt",
		"?limitBytes=1000":                  all,
		"?sinceSeconds=60":                  "three\n\nfour  spaced\n",
		"?sinceSeconds=9223372036854775807": all,
		"?sinceTime=2020-01-01T00:00:00Z":   all,
		"?stream=Stderr":                    "two\n\n",
		"?stream=Stdout&tailLines=1000":     "one\nthree\nfour  spaced\n",
		"?stream=All&limitBytes=3":          "one",
		"?timestamps=yes&stream=Stderr&sinceTime=1999-01-01T00:00:00Z&limitBytes=27": "2020-01-01T00:00:00.5Z two\n",
	} {
		k.want("GET", "reader", logs+query, 200, want)
	}
	for query, want := range map[string]string{
		"?tailLines=x":     "tailLines: \"x\" is not a number",
		"?tailLines=":      "tailLines: \"\" is not a number",
		"?tail=x":          "tailLines: \"x\" is not a number",
		"?sinceTime=noon":  "sinceTime: \"noon\" is not a time",
		"?stream=Sideways": "stream: \"Sideways\" is not All, Stdout or Stderr",
	} {
		k.want("GET", "reader", logs+query, 400, want)
	}
	for query, want := range map[string]string{
		"?tailLines=-1":   "tailLines: -1 is less than 0",
		"?limitBytes=0":   "limitBytes: 0 is less than 1",
		"?sinceSeconds=0": "sinceSeconds: 0 is less than 1",
		"?sinceTime=2020-01-01T00:00:00Z&sinceSeconds=10": "sinceTime: may not be together with sinceSeconds",
	} {
		k.want("GET", "reader", logs+query, 422, want)
	}
}

func TestLogsThatAreNotThere(t *testing.T) {
	k := start(t, nil)
	k.want("GET", "reader", "/containerLogs/default/none/c", 404, "pod \"none\" does not exist")
	k.want("GET", "reader", "/containerLogs/other/web/c", 404, "pod \"web\" does not exist")
	k.want("GET", "reader", "/containerLogs/default/web/x", 404, "container \"x\" not found in pod \"web\"")
	k.want("GET", "reader", "/containerLogs/default/web/unseen", 400, "container \"unseen\" in pod \"web\" is not available")
	k.want("GET", "reader", "/containerLogs/default/web/slow", 400, "container \"slow\" in pod \"web\" is waiting to start: trying and failing to pull image")
	k.want("GET", "reader", "/containerLogs/default/web/slow?previous=true", 400, "previous terminated container \"slow\" in pod \"web\" not found")
	k.want("GET", "reader", logs+"?previous=true", 404, "unable to retrieve container logs for mem://gone: rpc error: code = NotFound desc = no such container")
	k.want("GET", "reader", logs, 500, "container \"c\" in pod \"web\": its log cannot be opened")
}

// TestLogThatIsNoFile: what a container puts in the place of its log is refused,
// also while the log is followed, and no request waits for a writer.
func TestLogThatIsNoFile(t *testing.T) {
	const unopened = "container \"c\" in pod \"web\": its log cannot be opened"
	k := start(t, nil)
	path := filepath.Join(k.logs, logFile)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	k.want("GET", "reader", logs, 500, unopened)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	k.want("GET", "reader", logs, 500, unopened)
	k.want("GET", "reader", logs+"?follow=true&tailLines=1", 500, unopened)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	k.write(logFile, stamped(0, "stdout F one"))
	answer := k.ask("GET", "reader", logs+"?follow=true")
	defer answer.Body.Close()
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	if err != nil || line != "one\n" {
		t.Fatalf("followed: %q, %v", line, err)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) != 0 {
		t.Errorf("after the file became a FIFO: %q, %v", rest, err)
	}
}

// TestLogsStayInTheLogRoot: neither names nor links nor the runtime lead out.
func TestLogsStayInTheLogRoot(t *testing.T) {
	k := start(t, nil)
	secret := filepath.Join(t.TempDir(), "secret.log")
	if err := os.WriteFile(secret, []byte(stamped(0, "stdout F secret")), 0o600); err != nil {
		t.Fatal(err)
	}
	k.write("default_web_uid-web/c/1.log", stamped(0, "stdout F fine"))
	link := filepath.Join(k.logs, "link.log")
	inside := filepath.Join(k.logs, "inside.log")
	dir := filepath.Join(k.logs, "dir")
	for path, to := range map[string]string{link: secret, dir: filepath.Dir(secret), inside: "default_web_uid-web/c/1.log"} {
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	const outside, unopened = "the log is not in the kubelet's log directory", "container \"c\" in pod \"web\": its log cannot be opened"
	for path, want := range map[string]string{
		secret:                                  outside,
		"/etc/passwd":                           outside,
		"":                                      outside,
		k.logs + "/../" + filepath.Base(secret): outside,
		k.logs + "x/0.log":                      outside,
		link:                                    unopened,
		filepath.Join(dir, "secret.log"):        unopened,
		k.logs:                                  unopened, // a directory
	} {
		k.runtime.logPath = func() string { return path }
		k.want("GET", "root", logs, 500, want)
	}
	k.runtime.logPath = func() string { return inside }
	k.want("GET", "root", logs, 200, "fine\n")
	for _, path := range []string{
		"/containerLogs/default/web/..%2f..%2fetc%2fpasswd", "/containerLogs/default/..%2fweb/c", "/containerLogs/%2e%2e/web/c",
	} {
		answer := k.ask("GET", "root", path)
		answer.Body.Close()
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %s, want 404", path, answer.Status)
		}
	}
}

// TestFollow reads a log while it is written, rotated, deleted and cut, until
// the container is done.
func TestFollow(t *testing.T) {
	k := start(t, nil)
	k.write(logFile, stamped(0, "stdout F 0")+stamped(0, "stdout F 1"))
	answer := k.ask("GET", "reader", logs+"?follow=true&tailLines=1")
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	path := filepath.Join(k.logs, logFile)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, %v; want %q", lines.Text(), lines.Err(), want)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	next("1")
	// A line that comes in two writes is one.
	line := stamped(0, "stdout F two")
	k.write(logFile, line[:20])
	k.write(logFile, line[20:]+stamped(0, "stdout P 3"))
	next("two")
	k.write(logFile, stamped(0, "stdout F !"))
	next("3!")
	// Rotated: the end of the old file comes before the new one.
	k.write(logFile, stamped(0, "stdout F 4"))
	must(os.Rename(path, path+".old"))
	k.write(logFile+".old", stamped(0, "stdout F 5"))
	k.write(logFile, stamped(0, "stdout F 6"))
	next("4")
	next("5")
	next("6")
	must(os.Remove(path))
	k.write(logFile, stamped(0, "stdout F 7"))
	next("7")
	// Cut: what is there now is less than what was read.
	long := strings.Repeat("x", 10<<10)
	k.write(logFile, stamped(0, "stdout F "+long))
	next(long)
	must(os.Truncate(path, 0))
	k.write(logFile, stamped(0, "stdout F 8"))
	next("8")
	k.write(logFile, stamped(0, "stdout F last words"))
	k.runtime.exited.Store(true)
	next("last words")
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end: %q, %v", lines.Text(), lines.Err())
	}
}

// TestStopEndsFollowers: a follower does not hold the server up.
func TestStopEndsFollowers(t *testing.T) {
	k := start(t, nil)
	k.write(logFile, stamped(0, "stdout F 1"))
	answer := k.ask("GET", "reader", logs+"?follow=true")
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	k.stop()
	// The response to a client that still waits is cut off in the middle.
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("more: %q, %v", lines.Text(), lines.Err())
	}
}

// TestTailOfALargeLog crosses the blocks that a file is read in.
func TestTailOfALargeLog(t *testing.T) {
	k := start(t, nil)
	var text strings.Builder
	for i := range 5000 {
		text.WriteString(stamped(0, fmt.Sprintf("stdout F %d %s", i, strings.Repeat("x", i%200))))
	}
	k.write(logFile, text.String())
	for _, n := range []int{1, 100, 3000} {
		answer := k.ask("GET", "reader", fmt.Sprintf("%s?tailLines=%d", logs, n))
		lines, count, first := bufio.NewScanner(answer.Body), 0, ""
		for lines.Scan() {
			if count++; count == 1 {
				first, _, _ = strings.Cut(lines.Text(), " ")
			}
		}
		answer.Body.Close()
		if count != n || first != fmt.Sprint(5000-n) {
			t.Errorf("tail %d: %d lines from %s", n, count, first)
		}
	}
}

// late is a cache of pods that says for some time that the containers of a pod have not started.
type late struct {
	localcache.Reader[*corev1.Pod]
	times atomic.Int32
}

func (l *late) Get(key string) (*corev1.Pod, bool) {
	pod, ok := l.Reader.Get(key)
	if !ok || l.times.Add(-1) < 0 {
		return pod, ok
	}
	pod = pod.DeepCopy()
	pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}}
	return pod, true
}

// TestLogOfStarted: a client that has seen a container start gets its log, also if the cache has not seen it yet. One that
// does not start is refused.
func TestLogOfStarted(t *testing.T) {
	cache := &late{Reader: localcache.NewMap(webPod())}
	k := start(t, func(c *server.Config) { c.Pods = cache })
	defer k.stop()
	k.write("default_web_uid-web/c/0.log", "2026-01-02T03:04:05Z stdout F started\n")
	cache.times.Store(3)
	k.want("GET", "reader", logs, 200, "started\n")
	cache.times.Store(1 << 20)
	k.want("GET", "reader", logs, 400, "container \"c\" in pod \"web\" is waiting to start: ContainerCreating")
}
