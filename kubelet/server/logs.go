package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// logOptions say what of a log is wanted.
type logOptions struct {
	follow, previous, timestamps bool
	tail                         int64     // lines from the end; negative: all
	limit                        int64     // bytes; negative: no limit
	since                        time.Time // zero: from the beginning
	stream                       string    // stdout or stderr; empty: both
}

// parseLogOptions reads the query of a request for logs, as kube-apiserver does. It may change query.
func parseLogOptions(query url.Values, now time.Time) (logOptions, error) {
	o := logOptions{tail: -1, limit: -1}
	var errs []error
	flag := func(name string, to *bool) {
		text := query.Get(name)
		*to = query.Has(name) && text != "0" && !strings.EqualFold(text, "false")
	}
	number := func(name string, least int64, to *int64) {
		if !query.Has(name) {
			return
		}
		text := query.Get(name)
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %q is not a number", name, text))
		case n < least:
			errs = append(errs, fmt.Errorf("%s: %d %w %d", name, n, errTooSmall, least))
		default:
			*to = n
		}
	}
	if tail := query.Get("tail"); tail != "" { // the older name
		query.Set("tailLines", tail)
		if tail == "all" {
			query.Del("tailLines")
		}
	}
	flag("follow", &o.follow)
	flag("previous", &o.previous)
	flag("timestamps", &o.timestamps)
	number("tailLines", 0, &o.tail)
	number("limitBytes", 1, &o.limit)
	var seconds int64
	number("sinceSeconds", 1, &seconds)
	if seconds > 0 {
		// More seconds than a Duration holds is before any log.
		o.since = now.Add(-time.Duration(min(seconds, maxSeconds)) * time.Second)
	}
	if text := query.Get("sinceTime"); text != "" {
		if seconds != 0 {
			errs = append(errs, fmt.Errorf("sinceTime: %w sinceSeconds", errBoth))
		}
		var err error
		if o.since, err = time.Parse(time.RFC3339, text); err != nil {
			errs = append(errs, fmt.Errorf("sinceTime: %q is not a time", text))
		}
	}
	switch stream := query.Get("stream"); stream {
	case "", "All":
	case "Stdout", "Stderr":
		o.stream = strings.ToLower(stream)
	default:
		errs = append(errs, fmt.Errorf("stream: %q is not All, Stdout or Stderr", stream))
	}
	return o, errors.Join(errs...)
}

// errTooSmall and errBoth mark options that are well formed and have no meaning.
var (
	errTooSmall = errors.New("is less than")
	errBoth     = errors.New("may not be together with")
)

// maxSeconds is a hundred years.
const maxSeconds = 100 * 365 * 24 * 60 * 60

// logs serves a container's log.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	options, err := parseLogOptions(r.URL.Query(), time.Now())
	if err != nil {
		code := http.StatusBadRequest
		if errors.Is(err, errTooSmall) || errors.Is(err, errBoth) {
			code = http.StatusUnprocessableEntity
		}
		refuse(w, err.Error(), code)
		return
	}
	pod, ok := s.pod(w, r)
	if !ok {
		return
	}
	name := r.PathValue("container")
	if containerSpec(pod, name) == nil {
		refuse(w, fmt.Sprintf("container %q not found in pod %q", name, pod.Name), http.StatusNotFound)
		return
	}
	id, err := logContainer(pod, name, options.previous)
	if err != nil {
		refuse(w, err.Error(), http.StatusBadRequest)
		return
	}
	status, err := s.config.Runtime.ContainerStatus(r.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: bare(id)})
	if err != nil {
		refuse(w, fmt.Sprintf("unable to retrieve container logs for %s: %v", id, err), runtimeCode(err))
		return
	}
	root, path, err := s.openLogRoot(status.GetStatus().GetLogPath())
	if err != nil {
		refuse(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer root.Close()
	l := &logReader{root: root, path: path, options: options, out: newLogOutput(w, options), running: func() bool {
		status, err := s.config.Runtime.ContainerStatus(r.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: bare(id)})
		return err == nil && status.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
	}}
	if err := l.open(); err != nil {
		refuse(w, fmt.Sprintf("container %q in pod %q: its log cannot be opened", name, pod.Name), http.StatusInternalServerError)
		s.config.Log.Error(err, "open log", "pod", pod.Namespace+"/"+pod.Name, "container", name)
		return
	}
	defer l.close()
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	if err := l.copy(r.Context()); err != nil && r.Context().Err() == nil {
		s.config.Log.V(1).Info("log broke off", "pod", pod.Namespace+"/"+pod.Name, "container", name, "error", err.Error())
	}
}

// openLogRoot opens the root of all logs and returns path relative to it. What
// is opened in the root stays in it, links included.
func (s *Server) openLogRoot(path string) (*os.Root, string, error) {
	inside, err := filepath.Rel(s.config.LogRoot, path)
	if err != nil || !filepath.IsLocal(inside) {
		return nil, "", fmt.Errorf("the log is not in the kubelet's log directory")
	}
	root, err := os.OpenRoot(s.config.LogRoot)
	return root, inside, err
}

// logContainer is the id of the container whose log is wanted. The errors have
// Kubernetes' words.
func logContainer(pod *corev1.Pod, name string, previous bool) (string, error) {
	status := containerStatus(pod, name)
	if status == nil {
		return "", fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	}
	state, last := status.State, ""
	if t := status.LastTerminationState.Terminated; t != nil {
		last = t.ContainerID
	}
	switch {
	case previous && last == "":
		return "", fmt.Errorf("previous terminated container %q in pod %q not found", name, pod.Name)
	case previous:
		return last, nil
	case state.Running != nil:
		return status.ContainerID, nil
	case state.Terminated != nil && state.Terminated.ContainerID != "":
		return state.Terminated.ContainerID, nil
	case last != "":
		return last, nil
	case state.Terminated != nil:
		return "", fmt.Errorf("container %q in pod %q is terminated", name, pod.Name)
	case state.Waiting == nil:
		return "", fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, pod.Name)
	}
	reason := state.Waiting.Reason
	switch reason {
	case "ErrImagePull":
		reason = "image can't be pulled"
	case "ImagePullBackOff":
		reason = "trying and failing to pull image"
	}
	return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod.Name, reason)
}

// bare is a container id without the runtime's name.
func bare(id string) string {
	if _, after, ok := strings.Cut(id, "://"); ok {
		return after
	}
	return id
}
