package server

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/planekit/planekit/internal/upgraded"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// streams are the streams that a client requests.
type streams struct{ stdin, stdout, stderr, tty bool }

// parseStreams parses the requested streams. A terminal has no separate standard error.
func parseStreams(query url.Values) (streams, error) {
	on := func(name string) bool {
		is, err := strconv.ParseBool(query.Get(name))
		return err == nil && is
	}
	s := streams{stdin: on("input"), stdout: on("output"), stderr: on("error"), tty: on("tty")}
	if s.tty {
		s.stderr = false
	}
	if !s.stdin && !s.stdout && !s.stderr {
		return s, errors.New("you must specify at least 1 of stdin, stdout, stderr")
	}
	return s, nil
}

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	pod, id, want, ok := s.target(w, r)
	if !ok {
		return
	}
	command := r.URL.Query()["command"]
	if len(command) == 0 {
		http.Error(w, "you must specify a command", http.StatusBadRequest)
		return
	}
	leave, ok := s.enter(w)
	if !ok {
		return
	}
	defer leave()
	ended, ok := s.starts.wait(r.Context(), pod.UID)
	if !ok {
		tooMany(w, fmt.Sprintf("the pod has more commands to start than it could in %v", startWait))
		return
	}
	answer, err := s.config.Runtime.Exec(r.Context(), &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: command, Stdin: want.stdin, Stdout: want.stdout, Stderr: want.stderr, Tty: want.tty,
	})
	if err != nil {
		ended()
	}
	s.stream(w, r, starting{s.streams, ended}, answer.GetUrl(), err, &want)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	pod, id, want, ok := s.target(w, r)
	if !ok {
		return
	}
	// A process has a terminal since its start, or none, whatever the request says.
	want.tty = containerSpec(pod, r.PathValue("container")).TTY
	if want.tty {
		want.stderr = false
	}
	leave, ok := s.enter(w)
	if !ok {
		return
	}
	defer leave()
	answer, err := s.config.Runtime.Attach(r.Context(), &runtimeapi.AttachRequest{
		ContainerId: id, Stdin: want.stdin, Stdout: want.stdout, Stderr: want.stderr, Tty: want.tty,
	})
	s.stream(w, r, s.streams, answer.GetUrl(), err, &want)
}

// target returns the pod and the running container in the path and the streams in the query, or answers
// why it cannot.
func (s *Server) target(w http.ResponseWriter, r *http.Request) (pod *corev1.Pod, id string, want streams, ok bool) {
	want, err := parseStreams(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, "", want, false
	}
	pod, ok = s.pod(w, r)
	if !ok {
		return nil, "", want, false
	}
	name := r.PathValue("container")
	found := containerStatus(pod, name)
	if found == nil || found.State.Running == nil || found.ContainerID == "" || containerSpec(pod, name) == nil {
		http.Error(w, fmt.Sprintf("container not found (%q)", name), http.StatusNotFound)
		return nil, "", want, false
	}
	return pod, bare(found.ContainerID), want, true
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	pod, ok := s.pod(w, r)
	if !ok {
		return
	}
	var ports []int32
	for _, text := range r.URL.Query()["port"] {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			http.Error(w, fmt.Sprintf("port %q must be between 1 and 65535", text), http.StatusBadRequest)
			return
		}
		ports = append(ports, int32(port))
	}
	leave, ok := s.enter(w)
	if !ok {
		return
	}
	defer leave()
	sandbox, err := s.sandbox(r.Context(), pod)
	if err != nil {
		http.Error(w, err.Error(), runtimeCode(err))
		return
	}
	answer, err := s.config.Runtime.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox, Port: ports})
	s.stream(w, r, s.streams, answer.GetUrl(), err, nil, ports...)
}

// labelPodUID is the kubelet's label for the UID of a sandbox's pod.
const labelPodUID = "io.kubernetes.pod.uid"

// sandbox returns the ID of the pod's ready sandbox.
func (s *Server) sandbox(ctx context.Context, pod *corev1.Pod) (string, error) {
	list, err := s.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{labelPodUID: string(pod.UID)},
	}})
	if err != nil {
		return "", err
	}
	if len(list.GetItems()) == 0 {
		return "", status.Errorf(codes.NotFound, "pod %q is not running", pod.Name)
	}
	return list.GetItems()[0].GetId(), nil
}

// stream connects the client to the runtime's address, or answers with err. A command has streams, a
// port-forward has ports.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, through http.RoundTripper, address string, err error, command *streams, ports ...int32) {
	if err != nil {
		http.Error(w, status.Convert(err).Message(), runtimeCode(err))
		return
	}
	to, err := url.Parse(address)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		http.Error(w, "the runtime gave no URL to stream to", http.StatusInternalServerError)
		return
	}
	if s.translate(w, r, through, to, command, ports) {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL, p.Out.Host = to, ""
			// The runtime does not need the client's credentials.
			p.Out.Header.Del("Authorization")
		},
		Transport: through,
		ModifyResponse: func(answer *http.Response) error {
			upgraded.Guard(answer, s.config.Streams, cancel)
			return nil
		},
		ErrorLog:     stdlog.New(logWriter{s.config.Log}, "", 0),
		ErrorHandler: s.streamFailed,
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

func (s *Server) streamFailed(w http.ResponseWriter, r *http.Request, err error) {
	s.config.Log.V(1).Info("stream failed", "path", r.URL.Path, "error", err.Error())
	http.Error(w, "the runtime's stream could not be reached", http.StatusBadGateway)
}

// runtimeCode returns the HTTP code for an error of the runtime.
func runtimeCode(err error) int {
	switch status.Code(err) {
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// streamTransport uses HTTP/1.1, the only version with upgrades, and no proxy, because the runtime
// is on this machine. Nil dials over TCP.
func streamTransport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	return &http.Transport{
		DialContext:           dial,
		ResponseHeaderTimeout: time.Minute,
		DisableCompression:    true,
		DisableKeepAlives:     true,
	}
}
