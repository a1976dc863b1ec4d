package metrics_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet/metrics"
	"github.com/planekit/planekit/kubelet/volumestats"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// upstream lists the series as pkg/kubelet/metrics and pkg/kubelet/certificate of Kubernetes v1.36 have them:
// name, type, and labels.
const upstream = `
kubelet_certificate_manager_server_ttl_seconds gauge
kubelet_container_requested_resizes_total counter operation requirement resource
kubelet_evictions counter eviction_signal
kubelet_node_name gauge node
kubelet_pleg_last_seen_seconds gauge
kubelet_pleg_relist_duration_seconds histogram
kubelet_pleg_relist_interval_seconds histogram
kubelet_pod_deferred_accepted_resizes_total counter retry_trigger
kubelet_pod_in_progress_resizes gauge
kubelet_pod_infeasible_resizes_total counter reason_detail
kubelet_pod_pending_resizes gauge reason
kubelet_pod_resize_duration_milliseconds histogram success
kubelet_pod_start_duration_seconds histogram
kubelet_pod_start_sli_duration_seconds histogram
kubelet_pod_start_total_duration_seconds histogram
kubelet_pod_worker_duration_seconds histogram operation_type
kubelet_pod_worker_start_duration_seconds histogram
kubelet_run_podsandbox_duration_seconds histogram runtime_handler
kubelet_run_podsandbox_errors_total counter runtime_handler
kubelet_running_containers gauge container_state
kubelet_running_pods gauge
kubelet_runtime_operations_duration_seconds histogram operation_type
kubelet_runtime_operations_errors_total counter operation_type
kubelet_runtime_operations_total counter operation_type
kubelet_started_containers_errors_total counter code container_type
kubelet_started_containers_total counter container_type
kubelet_started_pods_errors_total counter
kubelet_started_pods_total counter
kubelet_started_user_namespaced_pods_errors_total counter
kubelet_started_user_namespaced_pods_total counter
kubelet_volume_stats_available_bytes gauge namespace persistentvolumeclaim
kubelet_volume_stats_capacity_bytes gauge namespace persistentvolumeclaim
kubelet_volume_stats_inodes gauge namespace persistentvolumeclaim
kubelet_volume_stats_inodes_free gauge namespace persistentvolumeclaim
kubelet_volume_stats_inodes_used gauge namespace persistentvolumeclaim
kubelet_volume_stats_used_bytes gauge namespace persistentvolumeclaim
`

// TestSeries compares names, types and labels with Kubernetes'.
func TestSeries(t *testing.T) {
	m := metrics.New("node-1")
	used(m)
	m.Count(&runtime{uids: []string{"1"}})
	kinds, labels := map[string]string{}, map[string][]string{}
	lines := bufio.NewScanner(strings.NewReader(scrape(m)))
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "# TYPE kubelet_"); ok {
			name, kind, _ := strings.Cut(text, " ")
			kinds["kubelet_"+name] = kind
			continue
		}
		if !strings.HasPrefix(line, "kubelet_") {
			continue
		}
		name, rest, found := strings.Cut(strings.Fields(line)[0], "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if plain := strings.TrimSuffix(name, suffix); kinds[plain] == "histogram" {
				name = plain
			}
		}
		if !found {
			continue
		}
		for pair := range strings.SplitSeq(strings.TrimSuffix(rest, "}"), ",") {
			if label, _, _ := strings.Cut(pair, "="); label != "le" && !slices.Contains(labels[name], label) {
				labels[name] = append(labels[name], label)
			}
		}
	}
	var got []string
	for name, kind := range kinds {
		slices.Sort(labels[name])
		got = append(got, strings.Join(append([]string{name, kind}, labels[name]...), " "))
	}
	slices.Sort(got)
	want := strings.Split(strings.TrimSpace(upstream), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// used calls all that records something.
func used(m *metrics.Metrics) {
	m.Relisted(time.Second)
	m.Relisted(2 * time.Second)
	claim := &volumestats.ClaimReference{Name: "data", Namespace: "shop"}
	m.CountVolumes(func(context.Context) []volumestats.Stats {
		full := volumestats.Stats{Claim: claim, CapacityBytes: 6, AvailableBytes: 1, UsedBytes: 5, Inodes: 9, InodesFree: 2, InodesUsed: 7}
		return []volumestats.Stats{full, full, {Name: "cache"}}
	})
	m.Evicted("memory.available")
	m.WorkerStarted(time.Second)
	m.Synced("create", 2*time.Second)
	m.PodRunning(3 * time.Second)
	m.PodStarted(7*time.Second, 4*time.Second, false)
	m.PodStarted(7*time.Second, 4*time.Second, true)
	m.ContainerStarting("init_container")
	m.ContainerFailed("container", "ErrImagePull")
	m.ResizeRequested("cpu", "limits", "increase")
	m.ResizeInfeasible("guaranteed_pod_cpu_manager_static_policy")
	m.ResizeAccepted("pod_terminated")
	m.Resized(1200*time.Millisecond, true)
	m.Resized(time.Millisecond, false)
	m.CountResizes(func() (map[string]int, int) { return map[string]int{"Deferred": 2, "Infeasible": 1}, 3 })
	users := &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: &runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD}},
	}}}}
	m.Observe("RunPodSandbox", users, time.Second, nil)
	m.Observe("RunPodSandbox", users, time.Second, errors.New("broken"))
	m.Observe("RunPodSandbox", &runtimeapi.RunPodSandboxRequest{}, time.Second, errors.New("broken"))
	m.ServingCertificate(func() time.Time { return time.Now().Add(90 * time.Second) })
}

// TestWork checks the values.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New("node-1")
		m.Relisted(0)
		time.Sleep(10 * time.Second)
		used(m)
		got := scrape(m)
		for _, line := range []string{
			"kubelet_certificate_manager_server_ttl_seconds 90",
			`kubelet_container_requested_resizes_total{operation="increase",requirement="limits",resource="cpu"} 1`,
			`kubelet_evictions{eviction_signal="memory.available"} 1`,
			fmt.Sprintf("kubelet_pleg_last_seen_seconds %g", float64(time.Now().Unix())),
			"kubelet_pleg_relist_duration_seconds_sum 3",
			"kubelet_pleg_relist_interval_seconds_sum 10",
			"kubelet_pleg_relist_interval_seconds_count 2",
			`kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pod_terminated"} 1`,
			"kubelet_pod_in_progress_resizes 3",
			`kubelet_pod_infeasible_resizes_total{reason_detail="guaranteed_pod_cpu_manager_static_policy"} 1`,
			`kubelet_pod_pending_resizes{reason="deferred"} 2`,
			`kubelet_pod_pending_resizes{reason="infeasible"} 1`,
			`kubelet_pod_resize_duration_milliseconds_sum{success="true"} 1200`,
			`kubelet_pod_resize_duration_milliseconds_bucket{success="true",le="2000"} 1`,
			`kubelet_pod_resize_duration_milliseconds_bucket{success="true",le="1000"} 0`,
			`kubelet_pod_resize_duration_milliseconds_count{success="false"} 1`,
			`kubelet_volume_stats_capacity_bytes{namespace="shop",persistentvolumeclaim="data"} 6`,
			`kubelet_volume_stats_available_bytes{namespace="shop",persistentvolumeclaim="data"} 1`,
			`kubelet_volume_stats_used_bytes{namespace="shop",persistentvolumeclaim="data"} 5`,
			`kubelet_volume_stats_inodes{namespace="shop",persistentvolumeclaim="data"} 9`,
			`kubelet_volume_stats_inodes_free{namespace="shop",persistentvolumeclaim="data"} 2`,
			`kubelet_volume_stats_inodes_used{namespace="shop",persistentvolumeclaim="data"} 7`,
			"kubelet_pod_start_duration_seconds_sum 3", `kubelet_pod_start_duration_seconds_bucket{le="3600"} 1`,
			"kubelet_pod_start_sli_duration_seconds_sum 4", "kubelet_pod_start_total_duration_seconds_sum 14",
			`kubelet_pod_worker_duration_seconds_sum{operation_type="create"} 2`, "kubelet_pod_worker_start_duration_seconds_sum 1",
			`kubelet_started_containers_total{container_type="init_container"} 1`,
			`kubelet_started_containers_errors_total{code="ErrImagePull",container_type="container"} 1`,
			"kubelet_started_pods_total 3", "kubelet_started_pods_errors_total 2",
			"kubelet_started_user_namespaced_pods_total 2", "kubelet_started_user_namespaced_pods_errors_total 1",
		} {
			if !strings.Contains(got, "\n"+line+"\n") {
				t.Errorf("missing %s", line)
			}
		}
		n := metrics.New("node-1")
		n.ServingCertificate(func() time.Time { return time.Time{} })
		if got := scrape(n); !strings.Contains(got, "kubelet_certificate_manager_server_ttl_seconds +Inf\n") || strings.Contains(got, "kubelet_pod_in_progress_resizes ") {
			t.Errorf("without a certificate and a kubelet:\n%s", got)
		}
	})
}
