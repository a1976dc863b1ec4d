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
	"strings"
	"time"

	"github.com/planekit/planekit/internal/upgraded"
	"github.com/planekit/planekit/kubelet/server/internal/translate"
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
	pod, id, want, ok := s.target(w, r, execWords)
	if !ok {
		return
	}
	command := r.URL.Query()["command"]
	if len(command) == 0 {
		refuse(w, "you must specify a command", http.StatusBadRequest)
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
	pod, id, want, ok := s.target(w, r, attachWords)
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

// words holds the words of the Kubernetes kubelet for a pod with another UID and for a container that does not run.
type words struct {
	uid, container func(pod, container string) string
	uidCode        int
}

var (
	execWords = words{
		uid:       func(string, string) string { return noPod },
		container: func(_, name string) string { return fmt.Sprintf("container not found (%q)", name) },
		uidCode:   http.StatusNotFound,
	}
	attachWords = words{
		uid:       func(pod, _ string) string { return fmt.Sprintf("pod %s not found", pod) },
		container: func(pod, name string) string { return fmt.Sprintf("container %s not found in pod %s", name, pod) },
		uidCode:   http.StatusInternalServerError,
	}
)

const noPod = "pod does not exist"

// fullName is the name of a pod in those words.
func fullName(r *http.Request) string { return r.PathValue("pod") + "_" + r.PathValue("namespace") }

// target returns the pod and the running container in the path and the streams in the query of an upgrade, or answers
// why it cannot.
func (s *Server) target(w http.ResponseWriter, r *http.Request, say words) (pod *corev1.Pod, id string, want streams, ok bool) {
	want, err := parseStreams(r.URL.Query())
	if err != nil {
		refuse(w, err.Error(), http.StatusBadRequest)
		return nil, "", want, false
	}
	pod, ok = s.current(r)
	if !ok {
		refuse(w, noPod, http.StatusNotFound)
		return nil, "", want, false
	}
	name := r.PathValue("container")
	if !s.hasUID(pod, r) {
		refuse(w, say.uid(fullName(r), name), say.uidCode)
		return nil, "", want, false
	}
	found := containerStatus(pod, name)
	if found == nil || found.State.Running == nil || found.ContainerID == "" || containerSpec(pod, name) == nil {
		refuse(w, say.container(fullName(r), name), http.StatusInternalServerError)
		return nil, "", want, false
	}
	if !upgrades(w, r) {
		return nil, "", want, false
	}
	return pod, bare(found.ContainerID), want, true
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	ports, err := parsePorts(r)
	if err != nil {
		refuse(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod, ok := s.config.Pods.Get(podKey(r))
	if !ok {
		refuse(w, noPod, http.StatusNotFound)
		return
	}
	if !s.hasUID(pod, r) {
		refuse(w, "pod not found", http.StatusNotFound)
		return
	}
	leave, ok := s.enter(w)
	if !ok {
		return
	}
	defer leave()
	sandbox, err := s.sandbox(r.Context(), pod)
	if err != nil {
		refuse(w, err.Error(), runtimeCode(err))
		return
	}
	if sandbox == "" {
		refuse(w, fmt.Sprintf("pod not found (%q)", fullName(r)), http.StatusInternalServerError)
		return
	}
	if !upgrades(w, r) {
		return
	}
	answer, err := s.config.Runtime.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: sandbox, Port: ports})
	s.stream(w, r, s.streams, answer.GetUrl(), err, nil, ports...)
}

// parsePorts parses the ports of a WebSocket whose messages are data of one port. Ports may be joined
// by commas, as kube-apiserver does. In SPDY, which may be in a WebSocket, each stream names its port.
func parsePorts(r *http.Request) (ports []int32, err error) {
	if !translate.IsWebSocket(r) || len(translate.Tunnelled(translate.Offered(r))) > 0 {
		return nil, nil
	}
	texts := r.URL.Query()["port"]
	if len(texts) == 0 {
		return nil, errors.New(`query parameter "port" is required`)
	}
	for _, text := range texts {
		if text == "" {
			return nil, errors.New(`query parameter "port" cannot be empty`)
		}
		for one := range strings.SplitSeq(text, ",") {
			port, err := strconv.ParseUint(one, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("unable to parse %q as a port: %w", text, err)
			}
			if port == 0 {
				return nil, fmt.Errorf("port %q must be > 0", text)
			}
			ports = append(ports, int32(port))
		}
	}
	return ports, nil
}

// upgrades reports whether a request asks for an upgrade, or answers that it must. The runtime would
// answer some others as if they had succeeded.
func upgrades(w http.ResponseWriter, r *http.Request) bool {
	for _, value := range r.Header.Values("Connection") {
		if strings.Contains(strings.ToLower(value), "upgrade") {
			return true
		}
	}
	// The Kubernetes kubelet has the newline, and this code.
	refuse(w, "Upgrade request required\n", http.StatusInternalServerError)
	return false
}

// labelPodUID is the kubelet's label for the UID of a sandbox's pod.
const labelPodUID = "io.kubernetes.pod.uid"

// sandbox returns the ID of the pod's ready sandbox, or nothing if it has none.
func (s *Server) sandbox(ctx context.Context, pod *corev1.Pod) (string, error) {
	list, err := s.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{labelPodUID: string(pod.UID)},
	}})
	if err != nil {
		return "", err
	}
	if len(list.GetItems()) == 0 {
		return "", nil
	}
	return list.GetItems()[0].GetId(), nil
}

// stream connects the client to the runtime's address, or answers with err. A command has streams, a
// port-forward has ports.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, through http.RoundTripper, address string, err error, command *streams, ports ...int32) {
	if err != nil {
		refuse(w, status.Convert(err).Message(), runtimeCode(err))
		return
	}
	to, err := url.Parse(address)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		refuse(w, "the runtime gave no URL to stream to", http.StatusInternalServerError)
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
			if answer.StatusCode < http.StatusBadRequest && answer.StatusCode != http.StatusSwitchingProtocols {
				return noUpgrade(answer.StatusCode)
			}
			upgraded.Guard(answer, s.config.Streams, cancel)
			return nil
		},
		ErrorLog:     stdlog.New(logWriter{s.config.Log}, "", 0),
		ErrorHandler: s.streamFailed,
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// noUpgrade is the code of a runtime's answer that is neither an upgrade nor a refusal.
type noUpgrade int

// Error returns the words of the Kubernetes kubelet, which end with a newline.
func (n noUpgrade) Error() string {
	return fmt.Sprintf("invalid upgrade response: status code %d\n", int(n))
}

func (s *Server) streamFailed(w http.ResponseWriter, r *http.Request, err error) {
	s.config.Log.V(1).Info("stream failed", "path", r.URL.Path, "error", err.Error())
	var no noUpgrade
	if errors.As(err, &no) {
		refuse(w, no.Error(), http.StatusInternalServerError)
		return
	}
	refuse(w, "the runtime's stream could not be reached", http.StatusBadGateway)
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
