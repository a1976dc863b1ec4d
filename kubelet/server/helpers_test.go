package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/localcache"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containers is a runtime whose containers have the log path given.
type containers struct {
	logPath func() string
	exited  atomic.Bool
	stream  string // URL of exec, attach and port-forward; empty: unimplemented
	asked   atomic.Value

	stats      []*runtimeapi.ContainerStats
	statsError error
}

func (c *containers) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	return &runtimeapi.ListContainerStatsResponse{Stats: c.stats}, c.statsError
}

func (c *containers) ContainerStatus(_ context.Context, in *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if in.ContainerId == "gone" {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	s := &runtimeapi.ContainerStatus{Id: in.ContainerId, LogPath: c.logPath(), State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	if c.exited.Load() {
		s.State = runtimeapi.ContainerState_CONTAINER_EXITED
	}
	return &runtimeapi.ContainerStatusResponse{Status: s}, nil
}

func (c *containers) ListPodSandbox(_ context.Context, in *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	list := &runtimeapi.ListPodSandboxResponse{}
	if in.Filter.LabelSelector["io.kubernetes.pod.uid"] == "uid-web" {
		list.Items = []*runtimeapi.PodSandbox{{Id: "sandbox"}}
	}
	return list, nil
}

func (c *containers) url(in any) (string, error) {
	c.asked.Store(fmt.Sprint(in))
	if c.stream == "" {
		return "", status.Error(codes.Unimplemented, "nothing to connect to")
	}
	return c.stream, nil
}

func (c *containers) Exec(_ context.Context, in *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	url, err := c.url(in)
	return &runtimeapi.ExecResponse{Url: url}, err
}

func (c *containers) Attach(_ context.Context, in *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	url, err := c.url(in)
	return &runtimeapi.AttachResponse{Url: url}, err
}

func (c *containers) PortForward(_ context.Context, in *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	url, err := c.url(in)
	return &runtimeapi.PortForwardResponse{Url: url}, err
}

// webPod is a pod whose container is running and was once before.
func webPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}, {Name: "slow"}, {Name: "unseen"}, {Name: "terminal", TTY: true}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{
				Name: "c", ContainerID: "mem://now", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "mem://gone"}},
			},
			{Name: "slow", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}},
			{Name: "terminal", ContainerID: "mem://terminal", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		}},
	}
}

// kubelet is a server under test. Requests with the header User: root may
// anything.
type kubelet struct {
	t       *testing.T
	runtime *containers
	logs    string // the log root
	url     string
	client  *http.Client
	stop    func()
}

func start(t *testing.T, change func(*server.Config)) *kubelet {
	t.Helper()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	k := &kubelet{t: t, logs: logs, url: "https://" + listener.Addr().String(), runtime: &containers{
		logPath: func() string { return filepath.Join(logs, "default_web_uid-web", "c", "0.log") },
	}}
	config := server.Config{
		Listener: listener,
		TLS:      &tls.Config{Certificates: certificate.TLS.Certificates},
		Authenticate: func(r *http.Request) (string, []string, error) {
			if r.Header.Get("User") == "forged" {
				return "", nil, errors.New("bad credentials")
			}
			return r.Header.Get("User"), nil, nil
		},
		Authorize: func(_ context.Context, name string, _ []string, verb, subresource string) (bool, error) {
			return name == "root" || name == "reader" && verb == "get" && subresource == "proxy" ||
				name == "meter" && verb == "get" && subresource == "stats", nil
		},
		Pods: localcache.NewMap(webPod()), Runtime: k.runtime, LogRoot: logs,
	}
	if change != nil {
		change(&config)
	}
	s, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	transport := certificate.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.ServerName = "example.com"
	k.client = &http.Client{Transport: transport}
	certificate.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	k.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	}
	t.Cleanup(k.stop)
	return k
}

// ask sends a request as a user; "" means without credentials.
func (k *kubelet) ask(method, user, path string) *http.Response {
	k.t.Helper()
	r, err := http.NewRequestWithContext(k.t.Context(), method, k.url+path, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	if user != "" {
		r.Header.Set("User", user)
	}
	answer, err := k.client.Do(r)
	if err != nil {
		k.t.Fatal(err)
	}
	return answer
}

// want asks and checks the code and the body.
func (k *kubelet) want(method, user, path string, code int, body string) {
	k.t.Helper()
	answer := k.ask(method, user, path)
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	if answer.StatusCode != code || string(got) != body {
		k.t.Errorf("%s %s by %q: %d %q, want %d %q", method, path, user, answer.StatusCode, got, code, body)
	}
}

// write puts text into the container's log, or another file of the log root.
func (k *kubelet) write(file, text string) {
	k.t.Helper()
	path := filepath.Join(k.logs, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		k.t.Fatal(err)
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = out.WriteString(text)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

const (
	logFile = "default_web_uid-web/c/0.log"
	logs    = "/containerLogs/default/web/c"
)

// dial upgrades a connection to path.
func (k *kubelet) dial(path string) (net.Conn, *bufio.Reader) {
	k.t.Helper()
	c, err := tls.Dial("tcp", k.url[len("https://"):], k.client.Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: kubelet\r\nUser: root\r\nAuthorization: Bearer secret\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n", path)
	reader := bufio.NewReader(c)
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(answer.Body)
		k.t.Fatalf("%s: %s: %s", path, answer.Status, body)
	}
	return c, reader
}

// endedPod is a pod without a sandbox.
func endedPod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ended", UID: "uid-ended"}}
}
