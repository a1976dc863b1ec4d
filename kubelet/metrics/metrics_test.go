package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet/metrics"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func scrape(m *metrics.Metrics) string {
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

func Example() {
	m := metrics.New("node-1")
	m.Observe("RunPodSandbox", &runtimeapi.RunPodSandboxRequest{RuntimeHandler: "runc"}, time.Second, nil)
	for line := range strings.Lines(scrape(m)) {
		if strings.HasPrefix(line, "kubelet_runtime_operations_total") || strings.HasPrefix(line, "kubelet_run_podsandbox_duration_seconds_sum") {
			fmt.Print(line)
		}
	}
	// Output:
	// kubelet_run_podsandbox_duration_seconds_sum{runtime_handler="runc"} 1
	// kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1
}

func TestObserve(t *testing.T) {
	m := metrics.New("node-1")
	broken := errors.New("broken")
	for call, want := range map[string]string{
		"Version": "version", "RunPodSandbox": "run_podsandbox", "ListPodSandboxStats": "list_podsandbox_stats", "ImageFsInfo": "image_fs_info",
		"UpdateContainerResources": "update_container", "ReopenContainerLog": "reopen_container_log", "ListContainerStats": "list_container_stats",
	} {
		var request any
		if call == "RunPodSandbox" {
			request = &runtimeapi.RunPodSandboxRequest{}
		}
		m.Observe(call, request, 2*time.Second, nil)
		m.Observe(call, request, 3*time.Second, broken)
		got := scrape(m)
		for series, value := range map[string]string{"_total": "2", "_errors_total": "1", "_duration_seconds_sum": "5"} {
			if line := fmt.Sprintf("kubelet_runtime_operations%s{operation_type=%q} %s\n", series, want, value); !strings.Contains(got, line) {
				t.Errorf("%s: missing %s", call, line)
			}
		}
	}
	for _, line := range []string{`kubelet_run_podsandbox_errors_total{runtime_handler=""} 1`, `kubelet_node_name{node="node-1"} 1`, "go_goroutines "} {
		if !strings.Contains(scrape(m), line) {
			t.Errorf("missing %s", line)
		}
	}
}

// runtime lists what it has, or hangs.
type runtime struct {
	hangs bool
	uids  []string
}

func (r *runtime) ListPodSandbox(ctx context.Context, in *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if r.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	out := &runtimeapi.ListPodSandboxResponse{}
	for _, uid := range r.uids {
		out.Items = append(out.Items, &runtimeapi.PodSandbox{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}, State: in.Filter.State.State})
	}
	return out, nil
}

func (r *runtime) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{
		{State: runtimeapi.ContainerState_CONTAINER_RUNNING}, {State: runtimeapi.ContainerState_CONTAINER_EXITED}, {State: runtimeapi.ContainerState_CONTAINER_EXITED},
	}}, nil
}

// TestCount counts pods once, however many sandboxes they have, and goes on without a runtime that
// hangs.
func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New("node-1")
		if got := scrape(m); strings.Contains(got, "kubelet_running") {
			t.Errorf("without a runtime:\n%s", got)
		}
		r := &runtime{uids: []string{"1", "2", "1"}}
		m.Count(r)
		got := scrape(m)
		for _, line := range []string{"kubelet_running_pods 2\n", `kubelet_running_containers{container_state="running"} 1`, `kubelet_running_containers{container_state="exited"} 2`} {
			if !strings.Contains(got, line) {
				t.Errorf("missing %s", line)
			}
		}
		r.hangs = true
		if got := scrape(m); strings.Contains(got, "kubelet_running") || !strings.Contains(got, "kubelet_node_name") {
			t.Errorf("with a runtime that hangs:\n%s", got)
		}
	})
}
