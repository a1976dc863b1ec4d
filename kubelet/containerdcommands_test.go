package kubelet_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/kubelet/server"
)

// containerdCommands: of 300 commands that clients run at once in a container, each ends or is refused within
// 50 s, a probe of the pod runs beside them, and afterwards nothing of them is left.
func containerdCommands(t *testing.T, r *rig) {
	dial, stop := serveStreams(t, r)
	defer stop()
	pod := actorPod("commands")
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/actor", "exists", "/actor"}}},
		PeriodSeconds: 1, TimeoutSeconds: 10, FailureThreshold: 1,
	}
	created := r.api.create(pod)
	up := r.api.await(t, "commands", "running", running)
	goroutines := runtime.NumGoroutine()
	const clients, patience = 300, 50 * time.Second
	results := make(chan string, clients)
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begun := time.Now()
	for range clients {
		all.Go(func() { results <- execute(ctx, dial, "/exec/default/commands/web", "/actor", "exists", "/actor") })
	}
	all.Wait()
	close(results)
	counts := map[string]int{}
	for result := range results {
		counts[result]++
	}
	t.Logf("%d commands after %v: %v", clients, time.Since(begun), counts)
	if n := counts[metav1.StatusSuccess]; n < 10 || n+counts["429"] != clients {
		t.Errorf("%d commands at once: %v, want Success at least 10 times and otherwise 429", clients, counts)
	}
	now := r.api.await(t, "commands", "running", running)
	if n := now.Status.ContainerStatuses[0].RestartCount; n != 0 || containerID(now) != containerID(up) {
		t.Errorf("the probe of the pod failed beside the commands: %+v, want no restart", now.Status.ContainerStatuses[0])
	}
	eventually(t, "nothing of the commands is left", func() bool {
		return runtime.NumGoroutine() <= goroutines+20 && len(pids(t, r, "pod"+string(created.UID)+"/"+containerID(up))) <= 2
	})
	r.end(t, "commands")
}

// serveStreams starts the server of the node. The function that it returns connects to it.
func serveStreams(t *testing.T, r *rig) (dial func(context.Context, string, url.Values) (*websocket.Conn, *http.Response, error), stop func()) {
	t.Helper()
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{
		Listener: listener, TLS: &tls.Config{Certificates: certificate.TLS.Certificates}, NodeName: "node-1",
		Authenticate: func(*http.Request) (string, []string, error) { return "user", nil, nil },
		Authorize:    func(context.Context, string, []string, string, string) (bool, error) { return true, nil },
		Pods:         r.api.pods, Runtime: r.client, LogRoot: r.config.LogRoot,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	trust := certificate.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.ServerName = "example.com"
	dialer := websocket.Dialer{TLSClientConfig: trust, Subprotocols: []string{"v4.channel.k8s.io"}}
	dial = func(ctx context.Context, path string, query url.Values) (*websocket.Conn, *http.Response, error) {
		return dialer.DialContext(ctx, "wss://"+listener.Addr().String()+path+"?"+query.Encode(), nil)
	}
	return dial, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// execute runs a command, and returns its status, the code of the answer that refuses it, or the error.
func execute(ctx context.Context, dial func(context.Context, string, url.Values) (*websocket.Conn, *http.Response, error), path string, command ...string) string {
	conn, answer, err := dial(ctx, path, url.Values{"command": command, "output": {"1"}, "error": {"1"}})
	if errors.Is(err, websocket.ErrBadHandshake) {
		return fmt.Sprint(answer.StatusCode)
	}
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetReadDeadline(deadline)
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			return err.Error()
		}
		var status metav1.Status
		if len(message) > 0 && message[0] == 3 && json.Unmarshal(message[1:], &status) == nil {
			return strings.TrimSpace(status.Status + " " + status.Message)
		}
	}
}
