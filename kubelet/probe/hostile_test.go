package probe

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// verbose is a health server whose errors are long.
type verbose struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (verbose) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return nil, status.Error(codes.Internal, strings.Repeat("x", 4<<20))
}

// TestHostileServers: an attempt takes bounded memory, and not more time than its timeout, whatever a server
// sends without end.
func TestHostileServers(t *testing.T) {
	block := []byte(strings.Repeat("x", 64<<10))
	mux := http.NewServeMux()
	mux.HandleFunc("/body", func(w http.ResponseWriter, r *http.Request) {
		for range 10 << 30 / len(block) { // 10 GiB
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/compressed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(block)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/longer", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/longer?"+r.URL.RawQuery+r.URL.RawQuery+"x", http.StatusFound)
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		for range 100 {
			w.Header().Add("X", string(block))
		}
	})
	mux.HandleFunc("/trickle", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	health := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(health, verbose{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = health.Serve(listener)
	}()
	defer func() {
		health.Stop()
		<-served
	}()
	port := func(a net.Addr) int32 { return int32(a.(*net.TCPAddr).Port) }
	actions := map[string]struct {
		action *corev1.ProbeHandler
		want   Result
	}{"grpc": {&corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: port(listener.Addr())}}, Failure}}
	for path, want := range map[string]Result{
		"/body": Success, "/compressed": Success, "/loop": Failure, "/longer": Failure, "/headers": Failure, "/trickle": Failure,
	} {
		actions[path] = struct {
			action *corev1.ProbeHandler
			want   Result
		}{&corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(port(server.Listener.Addr()))}}, want}
	}
	client := &Client{}
	target := Target{Pod: &corev1.Pod{}, Container: &corev1.Container{Name: "web"}, ID: "id", PodIP: "127.0.0.1"}
	for name, test := range actions {
		timeout := 20 * time.Second
		if name == "/trickle" {
			timeout = 200 * time.Millisecond
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		result, output, err := client.Probe(ctx, target, test.action)
		cancel()
		runtime.ReadMemStats(&after)
		if err != nil || result != test.want {
			t.Errorf("%s: Probe = %v, %.99q, %v, want %v and no error", name, result, output, err, test.want)
		}
		if len(output) > maxOutput+1<<10 {
			t.Errorf("%s: an output of %d bytes", name, len(output))
		}
		// It includes what the server allocates.
		if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
			t.Errorf("%s: it took %d MiB", name, used>>20)
		}
	}
}
