package kubelets

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// follower follows a log.
type follower struct {
	mu     sync.Mutex
	got    bytes.Buffer
	end    string
	done   chan struct{}
	cancel context.CancelFunc
}

// follow follows the log of the case's pod.
func (r *streamRun) follow(config *rest.Config, options corev1.PodLogOptions) (*follower, error) {
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, 2*soon)
	f := &follower{done: make(chan struct{}), cancel: cancel}
	options.Follow = true
	go func() {
		defer close(f.done)
		defer cancel()
		from, err := api.CoreV1().Pods(namespace).GetLogs(r.name, &options).Stream(ctx)
		if err == nil {
			defer from.Close()
			buffer := make([]byte, 32<<10)
			for err == nil {
				var n int
				n, err = from.Read(buffer)
				f.mu.Lock()
				f.got.Write(buffer[:n])
				f.mu.Unlock()
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			f.end = "did not end"
		case err == io.EOF:
			f.end = "ended"
		default:
			f.end = shown(err)
		}
	}()
	return f, nil
}

func (f *follower) has(text string) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return strings.Contains(f.got.String(), text)
	}
}

// sayFollowed waits for the end of a log and says what came.
func (r *streamRun) sayFollowed(f *follower) {
	<-f.done
	f.mu.Lock()
	defer f.mu.Unlock()
	r.say("log: %s, %s", brief(f.got.Bytes()), f.end)
}

// logIsRead reports whether a process on this machine reads the log of the case's pod.
func (r *streamRun) logIsRead() bool {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, file := range files {
		// A process or a file may be gone meanwhile.
		path, _ := os.Readlink(file)
		if !strings.Contains(path, "_"+r.name+"_") || !strings.HasSuffix(path, ".log") {
			continue
		}
		info, _ := os.ReadFile(strings.Replace(file, "/fd/", "/fdinfo/", 1))
		_, flags, ok := strings.Cut(string(info), "flags:")
		flags, _, _ = strings.Cut(strings.TrimSpace(flags), "\n")
		if n, err := strconv.ParseInt(flags, 8, 64); ok && err == nil && n&int64(os.O_WRONLY|os.O_RDWR) == 0 {
			return true
		}
	}
	return false
}

// logging returns the spec of a pod, with further fields, whose container runs a script.
func logging(script, more string) string {
	return more + "containers: [{name: c, image: busybox, command: [sh, -c, \"" + script + "\", NAME]}]"
}

// logCases follow logs, and read them with wrong options.
func logCases() (cases []StreamCase) {
	follow := func(name, spec string, options corev1.PodLogOptions, do func(r *streamRun, f *follower) error) {
		cases = append(cases, StreamCase{"log/" + name, func(r *streamRun) error {
			if err := r.pod(strings.ReplaceAll(spec, "NAME", r.name), running); err != nil {
				return err
			}
			f, err := r.follow(r.config, options)
			if err != nil {
				return err
			}
			defer f.cancel()
			r.within("it is followed", f.has("ready"))
			if err := do(r, f); err != nil {
				return err
			}
			r.sayFollowed(f)
			return nil
		}})
	}
	nothing := func(*streamRun, *follower) error { return nil }
	follow("ends", logging("echo ready; sleep 4; echo bye; sleep 1; echo err >&2; exit 3", "restartPolicy: Never\n"), corev1.PodLogOptions{}, nothing)
	follow("ends-without-newline", logging("echo ready; sleep 4; printf bye", "restartPolicy: Never\n"), corev1.PodLogOptions{}, nothing)
	follow("restarts", logging("echo ready; sleep 4; echo bye", "restartPolicy: Always\n"), corev1.PodLogOptions{}, nothing)
	lines := int64(1)
	follow("tail", logging("echo first; echo ready; sleep 4; echo bye", "restartPolicy: Never\n"), corev1.PodLogOptions{TailLines: &lines}, nothing)
	limit := int64(8)
	follow("limit", logging("echo ready; sleep 3; echo bye; sleep 1000", "restartPolicy: Never\n"), corev1.PodLogOptions{LimitBytes: &limit}, nothing)
	forever := logging("trap 'echo terminated; sleep 0.5; echo last; exit' TERM; echo ready; while true; do sleep 0.1; done", "")
	follow("killed", forever, corev1.PodLogOptions{}, func(r *streamRun, _ *follower) error { r.kill(); return nil })
	follow("deleted-at-once", forever, corev1.PodLogOptions{}, func(r *streamRun, _ *follower) error { return r.delete(0) })
	follow("deleted", forever, corev1.PodLogOptions{}, func(r *streamRun, _ *follower) error { return r.delete(3) })
	follow("removed", logging("trap 'exit' TERM; echo ready; while true; do sleep 0.1; done", ""), corev1.PodLogOptions{}, func(r *streamRun, _ *follower) error { return r.delete(1) })
	return append(cases,
		StreamCase{"log/cut", logCut},
		StreamCase{"log/previous", logPrevious},
		StreamCase{"log/waiting-follow", logOfWaiting},
		StreamCase{"log/deleted-then", logOfDeleted},
		StreamCase{"log/wrong", wrongLogs},
	)
}

func logCut(r *streamRun) error {
	if err := r.pod(strings.ReplaceAll(logging("echo ready; exec sleep 1000", ""), "NAME", r.name), running); err != nil {
		return err
	}
	config, cutter, err := r.cutter()
	if err != nil {
		return err
	}
	f, err := r.follow(config, corev1.PodLogOptions{})
	if err != nil {
		return err
	}
	r.within("it is followed", f.has("ready"))
	r.within("the kubelet reads the log", r.logIsRead)
	cutter.cut()
	<-f.done
	r.within("the kubelet does not read the log", func() bool { return !r.logIsRead() })
	return nil
}

func logPrevious(r *streamRun) error {
	spec := "restartPolicy: Always\ncontainers: [{name: c, image: busybox, command: [sh, -c, \"date +%s%N >> /data/n; wc -l < /data/n; test $(wc -l < /data/n) -lt 2 || sleep 1000\", NAME], volumeMounts: [{name: data, mountPath: /data}]}]\nvolumes: [{name: data, emptyDir: {}}]"
	if err := r.pod(strings.ReplaceAll(spec, "NAME", r.name), again); err != nil {
		return err
	}
	for _, query := range []string{"", "?previous=true", "?previous=true&follow=true"} {
		r.ask(http.MethodGet, podPath(r.name, "log", nil)+query, nil)
	}
	return nil
}

func logOfWaiting(r *streamRun) error {
	spec := "initContainers: [{name: first, image: busybox, command: [sleep, '3']}]\ncontainers: [{name: c, image: busybox, command: [echo, ready]}]"
	if err := r.pod(spec, func(pod *corev1.Pod) bool {
		all := pod.Status.InitContainerStatuses
		return len(all) == 1 && all[0].State.Running != nil
	}); err != nil {
		return err
	}
	r.ask(http.MethodGet, podPath(r.name, "log", nil)+"?follow=true", nil)
	r.ask(http.MethodGet, podPath(r.name, "log", nil)+"?container=first&follow=true", nil)
	return nil
}

func logOfDeleted(r *streamRun) error {
	if err := r.pod(strings.ReplaceAll(logging("echo ready; exec sleep 1000", ""), "NAME", r.name), running); err != nil {
		return err
	}
	if err := r.delete(0); err != nil {
		return err
	}
	r.within("gone", func() bool {
		_, err := r.api.CoreV1().Pods(namespace).Get(r.ctx, r.name, metav1.GetOptions{})
		return err != nil
	})
	r.ask(http.MethodGet, podPath(r.name, "log", nil), nil)
	return nil
}

// wrongLogs asks the API server, and the kubelet through it, for logs with odd options.
func wrongLogs(r *streamRun) error {
	options := []string{
		"", "tailLines=-1", "tailLines=x", "tailLines=0", "tailLines=1", "tailLines=99999999999999999999", "limitBytes=0", "limitBytes=-1", "limitBytes=x", "limitBytes=3",
		"sinceSeconds=0", "sinceSeconds=-1", "sinceSeconds=x", "sinceSeconds=1", "sinceSeconds=9223372036854775807", "sinceTime=x", "sinceTime=2020-01-01",
		"sinceTime=2020-01-01T00:00:00Z", "sinceTime=2090-01-01T00:00:00Z", "sinceTime=2020-01-01T00:00:00Z&sinceSeconds=10", "follow=x", "follow=1", "previous=x", "previous=true",
		"timestamps=x", "tail=1", "tail=all", "tail=x", "tailLines=", "limitBytes=", "follow=", "unknown=1",
	}
	for _, o := range options {
		r.ask(http.MethodGet, podPath("done", "log", nil)+"?"+o, nil)
		r.ask(http.MethodGet, "/api/v1/nodes/"+nodeName+"/proxy/containerLogs/default/done/c?"+o, nil)
	}
	for _, path := range []string{
		podPath("two", "log", nil), podPath("two", "log", nil) + "?container=none", podPath("two", "log", nil) + "?container=a", podPath("none", "log", nil),
		podPath("unready", "log", nil), podPath("unready", "log", nil) + "?previous=true", podPath("half", "log", nil) + "?container=over",
	} {
		r.ask(http.MethodGet, path, nil)
	}
	for _, path := range []string{"default/two/none", "default/none/c", "default/unready/c", "default/two", "default", "none/done/c"} {
		r.ask(http.MethodGet, "/api/v1/nodes/"+nodeName+"/proxy/containerLogs/"+path, nil)
		r.ask(http.MethodPost, "/api/v1/nodes/"+nodeName+"/proxy/containerLogs/"+path, nil)
	}
	return nil
}
