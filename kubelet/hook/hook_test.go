package hook_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/planekit/planekit/kubelet/hook"
	"github.com/planekit/planekit/kubelet/probe"
)

func call(ctx context.Context, c *hook.Client, h corev1.LifecycleHandler) error {
	return c.Call(ctx, probe.Target{Container: &corev1.Container{Name: "web"}, ID: "1", PodIP: "127.0.0.1"}, &h)
}

func get(s *httptest.Server, scheme corev1.URIScheme) corev1.LifecycleHandler {
	port := s.Listener.Addr().(*net.TCPAddr).Port
	return corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/hook", Port: intstr.FromInt(port), Scheme: scheme}}
}

func ExampleClient() {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.URL.Path, r.UserAgent())
	}))
	defer web.Close()
	err := call(context.Background(), &hook.Client{}, get(web, corev1.URISchemeHTTP))
	fmt.Println(err)
	// Output:
	// GET /hook kube-lifecycle/1.36
	// <nil>
}

// Any answer will do, and a server without TLS is asked in plain text.
func TestHTTP(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		w.WriteHeader(http.StatusInternalServerError)
	}))
	for _, scheme := range []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS} {
		if err := call(t.Context(), &hook.Client{}, get(s, scheme)); err != nil {
			t.Errorf("call of a server that answers 500 with scheme %s = %v, want nil", scheme, err)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
	s.Close()
	if err := call(t.Context(), &hook.Client{}, get(s, corev1.URISchemeHTTP)); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("without a server: %v", err)
	}
}

func TestExec(t *testing.T) {
	h := corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}
	var timeouts []time.Duration
	code, broken := int32(0), error(nil)
	c := &hook.Client{Exec: func(_ context.Context, id string, command []string, timeout time.Duration) ([]byte, int32, error) {
		timeouts = append(timeouts, timeout)
		return []byte("busy"), code, broken
	}}
	if err := call(t.Context(), c, h); err != nil {
		t.Error(err)
	}
	code = 4
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := call(ctx, c, h); err == nil || err.Error() != "command 'drain' exited with 4: " {
		t.Error(err)
	} else if exit, ok := errors.AsType[*hook.ExitError](err); !ok || exit.Code != 4 || exit.Output != "busy" {
		t.Errorf("call of drain = %#v, want an ExitError with code 4 and output busy", err)
	}
	broken = errors.New("no runtime")
	if err := call(t.Context(), c, h); !errors.Is(err, broken) {
		t.Error(err)
	}
	if fmt.Sprint(timeouts) != "[0s 30s 0s]" {
		t.Errorf("timeouts %v", timeouts)
	}
	if err := call(t.Context(), &hook.Client{}, h); err == nil {
		t.Error("no error without Exec")
	}
	if err := call(t.Context(), c, corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}); err == nil {
		t.Error("no error for a TCP socket")
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 7}}
		begin := time.Now()
		if err := call(t.Context(), &hook.Client{}, h); err != nil || time.Since(begin) != 7*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		begin = time.Now()
		if err := call(t.Context(), &hook.Client{}, corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}}); err != nil || time.Since(begin) != 0 {
			t.Errorf("a sleep of 0 seconds: %v after %v, want no error after 0s", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := call(ctx, &hook.Client{}, h); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
