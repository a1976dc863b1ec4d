package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// newRoutes returns the routes. ServeMux splits paths before it unescapes them, so an encoded slash
// never separates segments.
func (s *Server) newRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /stats/summary", s.summary)
	mux.HandleFunc("GET /metrics/resource", s.resourceMetrics)
	mux.HandleFunc("GET /metrics/cadvisor", s.cadvisorMetrics)
	if s.config.Metrics != nil {
		mux.Handle("GET /metrics", s.config.Metrics)
	}
	if s.config.ProbeMetrics != nil {
		mux.Handle("GET /metrics/probes", s.config.ProbeMetrics)
	}
	if s.config.Configuration != nil {
		mux.HandleFunc("GET /configz", s.configz)
	}
	if s.config.NoDebugging {
		for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/"} {
			mux.HandleFunc(path, debuggingDisabled)
		}
		return mux
	}
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, path := range []string{"{namespace}/{pod}/{container}", "{namespace}/{pod}/{uid}/{container}"} {
			mux.HandleFunc(method+" /exec/"+path, s.exec)
			mux.HandleFunc(method+" /attach/"+path, s.attach)
		}
		for _, path := range []string{"{namespace}/{pod}", "{namespace}/{pod}/{uid}"} {
			mux.HandleFunc(method+" /portForward/"+path, s.portForward)
		}
	}
	return mux
}

func debuggingDisabled(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "Debug endpoints are disabled.", http.StatusMethodNotAllowed)
}

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{}}
	for pod := range s.config.Pods.All() {
		list.Items = append(list.Items, *pod)
	}
	writeJSON(w, &list)
}

// configz serves the configuration as the Kubernetes kubelet does.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"kubeletconfig": s.config.Configuration()})
}

func writeJSON(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(data)
}

// pod returns the pod in the path, or answers that it does not exist.
func (s *Server) pod(w http.ResponseWriter, r *http.Request) (*corev1.Pod, bool) {
	pod, ok := s.current(r)
	if !ok {
		refuse(w, fmt.Sprintf("pod %q does not exist", r.PathValue("pod")), http.StatusNotFound)
	}
	return pod, ok
}

// behind bounds the wait for the start of a container.
const behind = time.Second

// current returns the pod in the path. If the container in the path has not started, it waits a little: a client may have
// seen the start at the API server, where this kubelet has written it, before the cache has.
func (s *Server) current(r *http.Request) (*corev1.Pod, bool) {
	pod, ok := s.config.Pods.Get(podKey(r))
	if !ok || !mayStart(pod, r.PathValue("container")) {
		return pod, ok
	}
	late := time.NewTimer(behind)
	defer late.Stop()
	tick := time.NewTicker(behind / 50)
	defer tick.Stop()
	for ok && mayStart(pod, r.PathValue("container")) {
		select {
		case <-tick.C:
		case <-late.C:
			return pod, ok
		case <-r.Context().Done():
			return pod, ok
		}
		pod, ok = s.config.Pods.Get(podKey(r))
	}
	return pod, ok
}

// mayStart reports whether a container of a pod may start at any moment.
func mayStart(pod *corev1.Pod, name string) bool {
	if containerSpec(pod, name) == nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	status := containerStatus(pod, name)
	if status == nil {
		return true
	}
	waiting := status.State.Waiting
	return waiting != nil && (waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing") && status.LastTerminationState.Terminated == nil
}

// podKey returns the key of the pod in the path.
func podKey(r *http.Request) string { return r.PathValue("namespace") + "/" + r.PathValue("pod") }

// hasUID reports whether a pod has the UID in the path, or the path has none.
func (s *Server) hasUID(pod *corev1.Pod, r *http.Request) bool {
	uid := types.UID(r.PathValue("uid"))
	return uid == "" || uid == pod.UID || s.mirrors(pod, uid)
}

// refuse answers with a text, without a newline at its end: API servers show it to their clients as
// it is.
func refuse(w http.ResponseWriter, text string, code int) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	io.WriteString(w, text)
}

// mirrors reports whether uid is that of the mirror pod of a static pod.
func (s *Server) mirrors(pod *corev1.Pod, uid types.UID) bool {
	if s.config.MirrorUID == nil {
		return false
	}
	mirror, ok := s.config.MirrorUID(pod)
	return ok && mirror == uid
}

// containerStatus returns the reported status of a container, or nil.
func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// containerSpec returns the container of a name in the pod's spec, or nil.
func containerSpec(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		}
	}
	return nil
}
