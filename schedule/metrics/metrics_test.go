package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/metrics"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(name string, pods int64) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI)},
	}}
}

func pod(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{SchedulerName: "default-scheduler", Priority: &priority},
	}
}

// scrape returns the series of a scheduler.
func scrape(m *metrics.Metrics) string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}

func Example() {
	m := metrics.New()
	ctx, cancel := context.WithCancel(context.Background())
	scheduler, err := schedule.New(schedule.Config{
		Nodes:  localcache.NewMap(node("n", 1)),
		Pods:   localcache.NewMap(pod("p", 0)),
		Bind:   func(context.Context, *corev1.Pod, string) error { cancel(); return nil },
		Meters: m.Meters(),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := scheduler.Run(ctx); err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(scrape(m)) {
		if strings.HasPrefix(line, "scheduler_schedule_attempts_total") {
			fmt.Print(line)
		}
	}
	// Output: scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1
}

// patient lets the pod with its name wait, and refuses it after that.
type patient string

func (patient) Name() string { return "Patient" }

func (name patient) Permit(p *schedule.PodInfo, _ string, _ *schedule.Waiting) (schedule.Verdict, time.Duration) {
	if p.Pod.Name != string(name) {
		return schedule.Fits, 0
	}
	return schedule.Fits, 5 * time.Second
}

// TestSeries lets a scheduler do everything that is counted.
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		nodes, pods := localcache.NewMap(node("n", 3)), localcache.NewMap[*corev1.Pod]()
		failures := 2
		scheduler, err := schedule.New(schedule.Config{
			Predicates: predicates.Default(), Nodes: nodes, Pods: pods, Meters: m.Meters(), Parallel: 1,
			Extensions: []schedule.Extension{patient("waits")},
			Bind: func(_ context.Context, p *corev1.Pod, node string) error {
				if p.Name == "fails" && failures > 0 {
					failures--
					return errors.New("no luck")
				}
				bound := p.DeepCopy()
				bound.Spec.NodeName = node
				pods.Put(bound)
				return nil
			},
			Evict: func(_ context.Context, e schedule.Eviction) error {
				time.AfterFunc(time.Second, func() { pods.Delete(localcache.KeyOf(e.Victim)) })
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // one answer
		go func() { done <- scheduler.Run(ctx) }()
		synctest.Wait()
		step := func(after time.Duration, p *corev1.Pod) {
			pods.Put(p)
			time.Sleep(after)
			synctest.Wait()
		}
		gated := pod("gated", 0)
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
		step(0, gated)
		step(5*time.Second, pod("fails", 0))
		step(0, pod("second", 0))
		step(3*time.Second, pod("waits", 0))
		step(0, pod("unfit", 0)) // waits has the room
		for _, want := range []string{
			`scheduler_pending_pods{queue="unschedulable"} 1`, `scheduler_pending_pods{queue="gated"} 1`, `scheduler_pending_pods{queue="active"} 0`,
			`scheduler_cache_size{type="nodes"} 1`, `scheduler_cache_size{type="pods"} 3`, `scheduler_cache_size{type="assumed_pods"} 1`,
			`scheduler_unschedulable_pods{plugin="SchedulingGates",profile="default-scheduler"} 1`,
			`scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1`,
		} {
			if got := scrape(m); !strings.Contains(got, want+"\n") {
				t.Errorf("missing %s in\n%s", want, got)
			}
		}
		time.Sleep(10 * time.Second) // waits leaves, and unfit is bound
		step(5*time.Second, pod("urgent", 5))
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		got := scrape(m)
		for _, want := range []string{
			`scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 4`, // fails, second, unfit, urgent
			`scheduler_schedule_attempts_total{profile="default-scheduler",result="error"} 2`,
			`scheduler_pod_scheduling_sli_duration_seconds_count{attempts="3"} 1`, `scheduler_pod_scheduling_sli_duration_seconds_sum{attempts="3"} 3`,
			`scheduler_pod_scheduling_attempts_count 4`,
			`scheduler_permit_wait_duration_seconds_sum{result="Unschedulable"} 5`,
			`scheduler_preemption_victims_count 1`,
			`scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 5`,
			`scheduler_queue_incoming_pods_total{event="AssignedPodDelete",queue="active"} 2`,
			`scheduler_framework_extension_point_duration_seconds_count{extension_point="Bind",profile="default-scheduler",status="Error"} 2`,
			`scheduler_framework_extension_point_duration_seconds_count{extension_point="Permit",profile="default-scheduler",status="Wait"} 1`,
			`scheduler_framework_extension_point_duration_seconds_count{extension_point="PostFilter",profile="default-scheduler",status="Success"} 1`,
		} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("missing %s", want)
			}
		}
		if strings.Contains(got, "scheduler_pending_pods{") {
			t.Error("a scheduler that does not run has pods")
		}
		if t.Failed() {
			t.Log(got)
		}
	})
}

// TestDecisionParts checks that both parts of a decision are measured, and that one node needs no scores.
func TestDecisionParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		nodes, pods := localcache.NewMap(node("a", 1)), localcache.NewMap(pod("first", 0))
		scheduler, err := schedule.New(schedule.Config{
			Predicates: predicates.Default(), Nodes: nodes, Pods: pods, Meters: m.Meters(),
			Bind: func(_ context.Context, p *corev1.Pod, node string) error {
				bound := p.DeepCopy()
				bound.Spec.NodeName = node
				pods.Put(bound)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // one answer
		go func() { done <- scheduler.Run(ctx) }()
		synctest.Wait()
		expect := func(filters, scores int) {
			text := scrape(m)
			for point, want := range map[string]int{"Filter": filters, "Score": scores} {
				line := fmt.Sprintf(`scheduler_framework_extension_point_duration_seconds_count{extension_point=%q,profile="default-scheduler",status="Success"} %d`+"\n", point, want)
				if got := strings.Contains(text, line); got != (want > 0) {
					t.Errorf("%s: %t, want %d times, in\n%s", point, got, want, text)
				}
			}
		}
		expect(1, 0)
		nodes.Put(node("b", 1))
		nodes.Put(node("c", 1))
		synctest.Wait()
		pods.Put(pod("second", 0))
		synctest.Wait()
		expect(2, 1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
