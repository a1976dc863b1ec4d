package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
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

// scrape returns an answer in Prometheus' text format.
func (k *kubelet) scrape(path string) string {
	k.t.Helper()
	answer := k.ask("GET", "scraper", path)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
		k.t.Fatal(answer.Status, answer.Header, err)
	}
	return string(body)
}

// metered is a kubelet whose container c runs and which user scraper may read the metrics of.
func metered(t *testing.T) *kubelet {
	pod := webPod()
	pod.Status.ContainerStatuses[0].ContainerID = "mem://c"
	pod.Status.ContainerStatuses[0].Image = "nginx:1.27"
	pod.Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1_700_000_000, 0)}
	k := start(t, func(c *server.Config) {
		authorize := c.Authorize
		c.Authorize = func(ctx context.Context, name string, groups []string, verb, subresource string) (bool, error) {
			if name == "scraper" {
				return verb == "get" && subresource == "metrics", nil
			}
			return authorize(ctx, name, groups, verb, subresource)
		}
		c.Pods = localcache.NewMap(pod)
		c.ProbeMetrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "probed") })
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "worked") })
		c.Configuration = func() any { return map[string]string{"kind": "KubeletConfiguration"} }
	})
	at := time.UnixMilli(1_800_000_000_123)
	k.runtime.stats = []*runtimeapi.ContainerStats{used("uid-web", "c", 0, at, 1_500_000_000, 3<<20), used("uid-web", "slow", 0, at, 250_000_000, 1<<20)}
	return k
}

func TestResourceMetrics(t *testing.T) {
	k := metered(t)
	got := k.scrape("/metrics/resource")
	for _, want := range []string{
		"# HELP container_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the container in core-seconds\n" +
			"# TYPE container_cpu_usage_seconds_total counter\n" +
			`container_cpu_usage_seconds_total{container="c",namespace="default",pod="web"} 1.5 1800000000123` + "\n" +
			`container_cpu_usage_seconds_total{container="slow",namespace="default",pod="web"} 0.25 1800000000123` + "\n",
		"# TYPE container_memory_working_set_bytes gauge\n" +
			`container_memory_working_set_bytes{container="c",namespace="default",pod="web"} 3.145728e+06 1800000000123` + "\n",
		"# TYPE container_start_time_seconds gauge\n" +
			`container_start_time_seconds{container="c",namespace="default",pod="web"} 1.7e+09` + "\n# HELP",
		"# TYPE pod_cpu_usage_seconds_total counter\n" + `pod_cpu_usage_seconds_total{namespace="default",pod="web"} 1.75 1800000000123` + "\n",
		"# TYPE pod_memory_working_set_bytes gauge\n" + `pod_memory_working_set_bytes{namespace="default",pod="web"} 4.194304e+06 1800000000123` + "\n",
		"# TYPE resource_scrape_error gauge\nresource_scrape_error 0\n",
		"# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total ",
		"# TYPE node_memory_working_set_bytes gauge\nnode_memory_working_set_bytes ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing:\n%s\nin:\n%s", want, got)
		}
	}
	k.runtime.statsError = status.Error(codes.Unavailable, "away")
	if got := k.scrape("/metrics/resource"); !strings.HasSuffix(got, "\nresource_scrape_error 1\n") || strings.Count(got, "\n") != 3 {
		t.Errorf("without a runtime:\n%s", got)
	}
}

func TestCadvisorMetrics(t *testing.T) {
	k := metered(t)
	got := k.scrape("/metrics/cadvisor")
	const c = `{container="c",id="c",image="nginx:1.27",name="c",namespace="default",pod="web"`
	for _, want := range []string{
		"container_cpu_usage_seconds_total" + c + `,cpu="total"} 1.5 1800000000123` + "\n",
		"container_memory_working_set_bytes" + c + "} 3.145728e+06 1800000000123\n",
		"container_start_time_seconds" + c + "} 1.7e+09\n",
		"container_last_seen" + c + "} 1.8e+09 1800000000123\n",
		`container_cpu_usage_seconds_total{container="slow",id="slow",image="",`,
		"# TYPE machine_cpu_cores gauge\nmachine_cpu_cores ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing:\n%s\nin:\n%s", want, got)
		}
	}
	if strings.Contains(got, "container_memory_rss") {
		t.Errorf("a family without samples:\n%s", got)
	}
	k.runtime.statsError = status.Error(codes.Unavailable, "away")
	k.want("GET", "scraper", "/metrics/cadvisor", 503, "rpc error: code = Unavailable desc = away\n")
}

// TestMetricsRights: the right to metrics is no right to more, and nothing else is one to metrics.
func TestMetricsRights(t *testing.T) {
	k := metered(t)
	for _, path := range []string{"/metrics", "/metrics/resource", "/metrics/cadvisor", "/metrics/probes"} {
		k.want("GET", "", path, 401, "Unauthorized\n")
		k.want("GET", "reader", path, 403, "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[metrics])\n")
		k.want("POST", "scraper", path, 403, "Forbidden (user=scraper, verb=create, resource=nodes, subresource(s)=[metrics])\n")
	}
	k.want("GET", "scraper", "/metrics/probes", 200, "probed")
	k.want("GET", "scraper", "/metrics", 200, "worked")
	k.want("GET", "scraper", "/configz", 403, "Forbidden (user=scraper, verb=get, resource=nodes, subresource(s)=[configz proxy])\n")
	k.want("GET", "reader", "/configz", 200, `{"kubeletconfig":{"kind":"KubeletConfiguration"}}`)
	bare := start(t, nil)
	bare.want("GET", "root", "/configz", 404, "404 page not found\n")
	bare.want("GET", "root", "/metrics", 404, "404 page not found\n")
	bare.want("GET", "root", "/metrics/probes", 404, "404 page not found\n")
}

// TestLabelsAreEscaped: a name from outside cannot add a sample.
func TestLabelsAreEscaped(t *testing.T) {
	k := metered(t)
	stats := used("uid-web", "c", 0, time.Unix(1, 0), 1, 1)
	stats.Attributes.Labels["io.kubernetes.container.name"] = "a\"} 1\nnode_cpu_usage_seconds_total 9\\\xff"
	k.runtime.stats = []*runtimeapi.ContainerStats{stats}
	want := `container_memory_working_set_bytes{container="a\"} 1\nnode_cpu_usage_seconds_total 9\\�",namespace="default",pod="web"} 1 1000`
	if got := k.scrape("/metrics/resource"); !strings.Contains(got, "\n"+want+"\n") || strings.Count(got, "\nnode_cpu_usage_seconds_total ") != 1 {
		t.Errorf("the metrics are\n%s\nwant node_cpu_usage_seconds_total once, and the line\n%s", got, want)
	}
}
