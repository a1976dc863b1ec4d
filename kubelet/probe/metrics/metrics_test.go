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

	"github.com/planekit/planekit/kubelet/probe"
	"github.com/planekit/planekit/kubelet/probe/metrics"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func scrape(m *metrics.Metrics) string {
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics/probes", nil))
	return answer.Body.String()
}

func Example() {
	m := metrics.New()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}
	m.Observe(pod, &corev1.Container{Name: "c"}, probe.Readiness, "successful", time.Second)
	for line := range strings.Lines(scrape(m)) {
		if strings.HasPrefix(line, "prober_probe_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// prober_probe_total{container="c",namespace="default",pod="web",pod_uid="1",probe_type="Readiness",result="successful"} 1
}

// TestSet follows the probes of a pod from the first attempt to their end.
func TestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		begin := time.Now()
		results := []probe.Result{probe.Success, probe.Warning, probe.Failure}
		set := probe.NewSet(probe.Config{
			Prober: probe.ProberFunc(func(context.Context, probe.Target, *corev1.ProbeHandler) (probe.Result, string, error) {
				if attempt := int(time.Since(begin) / (10 * time.Second)); attempt < len(results) {
					return results[attempt], "", nil
				}
				return probe.Failure, "", errors.New("no answer")
			}),
			Observe: m.Observe, Stopped: m.Forget,
		})
		other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other", UID: "uid-2"}}
		m.Observe(other, &corev1.Container{Name: "c"}, probe.Liveness, "successful", time.Second)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-1"}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", ReadinessProbe: &corev1.Probe{}}}
		set.Update(pod, "", []probe.Running{{Name: "c", ID: "1", StartedAt: time.Now()}})
		<-time.After(35 * time.Second) // attempts at 0, 10, 20 and 30 seconds
		synctest.Wait()
		got := scrape(m)
		const total = `prober_probe_total{container="c",namespace="default",pod="web",pod_uid="uid-1",probe_type="Readiness",result=`
		for _, want := range []string{
			total + `"successful"} 2`, total + `"failed"} 1`, total + `"unknown"} 1`,
			`prober_probe_duration_seconds_count{container="c",namespace="default",pod="web",probe_type="Readiness"} 3`,
		} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("missing %s in\n%s", want, got)
			}
		}
		set.Stop()
		if got := scrape(m); strings.Contains(got, `pod="web"`) || strings.Count(got, `pod="other"`) < 2 {
			t.Errorf("after the end:\n%s", got)
		}
	})
}

// TestStopWithoutPod: a Set that was never updated has no series.
func TestStopWithoutPod(t *testing.T) {
	m := metrics.New()
	m.Observe(&corev1.Pod{}, &corev1.Container{}, probe.Startup, "failed", 0)
	probe.NewSet(probe.Config{Stopped: m.Forget}).Stop()
	if got := scrape(m); !strings.Contains(got, `result="failed"} 1`) {
		t.Errorf("the metrics are\n%s\nwant 1 with result=\"failed\"", got)
	}
}
