package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
)

// TestControllerMetrics reads the metrics of the controllers and of the scheduler from the API server
// after a Deployment has rolled out.
func TestControllerMetrics(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "1", "--controllers", "*,-job")
	api := cluster.client(t)
	mustCreate(t, typed.Deployments(api), newWeb(2))
	awaited(t, "rollout", func(ctx context.Context) string {
		d, err := typed.Deployments(api).Get(ctx, "default", "web")
		if err != nil || d.Status.AvailableReplicas != 2 || d.Status.ObservedGeneration != d.Generation {
			return "not yet " + text(err)
		}
		return ""
	})
	scrape := func(ctx context.Context) string {
		answer, err := api.Do(ctx, client.Request{Path: "/metrics"})
		if err != nil {
			t.Fatal(err)
		}
		return string(answer.Body)
	}
	some, any := ` [1-9]`, ` [0-9]`
	var want []string
	for _, name := range []string{"deployment", "replicaset"} {
		want = append(want,
			fmt.Sprintf(`workqueue_adds_total{name="%s"}`, name)+some,
			fmt.Sprintf(`workqueue_depth{name="%s"}`, name)+any,
			fmt.Sprintf(`workqueue_retries_total{name="%s"}`, name)+any,
			fmt.Sprintf(`workqueue_queue_duration_seconds_count{name="%s"}`, name)+some,
			fmt.Sprintf(`workqueue_work_duration_seconds_count{name="%s"}`, name)+some,
			fmt.Sprintf(`controller_runtime_reconcile_total{controller="%s",result="success"}`, name)+some,
			fmt.Sprintf(`controller_runtime_reconcile_time_seconds_count{controller="%s"}`, name)+some,
			fmt.Sprintf(`controller_runtime_max_concurrent_reconciles{controller="%s"}`, name)+some)
	}
	for _, name := range []string{"garbagecollector", "namespace", "token", "nodelifecycle"} {
		want = append(want, fmt.Sprintf(`workqueue_depth{name="%s"}`, name)+any)
	}
	want = append(want,
		`scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}`+some,
		`scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"}`+some,
		`scheduler_cache_size{type="nodes"} 1`, `scheduler_pending_pods{queue="active"}`+any)
	awaited(t, "metrics", func(ctx context.Context) string {
		got := scrape(ctx)
		for _, series := range want {
			if !regexp.MustCompile("(?m)^" + strings.NewReplacer("{", `\{`, "}", `\}`).Replace(series)).MatchString(got) {
				return "no " + series
			}
		}
		return ""
	})
	got := scrape(t.Context())
	if strings.Contains(got, `name="job"`) {
		t.Error("a controller that does not run is shown")
	}
	if !strings.Contains(got, "apiserver_request_total{") {
		t.Error("the API server is not shown beside them")
	}
}
