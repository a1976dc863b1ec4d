package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/metrics"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
	stockmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// TestMetrics compares the names, types, labels and buckets of the scheduler's series with those of
// kube-scheduler.
func TestMetrics(t *testing.T) {
	stockmetrics.Register()
	stockmetrics.PodScheduled("p", 1)
	stockmetrics.PluginExecutionDuration.WithLabelValues("x", "Bind", "Success").Observe(1)
	stockmetrics.EventHandlingLatency.WithLabelValues("NodeAdd").Observe(1)
	stockmetrics.Goroutines.WithLabelValues("binding").Inc()
	stockmetrics.PluginEvaluationTotal.WithLabelValues("x", "Filter", "p").Inc()
	stockmetrics.PodSchedulingSLIDuration.WithLabelValues("1").Observe(1)
	stockmetrics.FrameworkExtensionPointDuration.WithLabelValues("Bind", "Success", "p").Observe(1)
	stockmetrics.PermitWaitDuration.WithLabelValues("Success").Observe(1)
	stockmetrics.SchedulerQueueIncomingPods.WithLabelValues("active", "PodAdd").Inc()
	stockmetrics.ActivePods().Inc()
	stockmetrics.UnschedulableReason("x", "p").Inc()
	stockmetrics.CacheSize.WithLabelValues("nodes").Set(1)
	want := describe(t, legacyregistry.DefaultGatherer)

	ours := metrics.New()
	m := ours.Meters()
	m.Attempted("p", "scheduled", time.Second)
	m.Decided(time.Second)
	m.Scheduled(1, time.Second)
	m.Queued("active", "PodAdd")
	m.Preempting(1)
	m.Waited("Success", time.Second)
	m.Extended("p", "Bind", "Success", time.Second)
	m.Executed("x", "Bind", "Success", time.Second)
	m.Handled("NodeAdd", time.Second)
	m.ScheduledAfterFlush()
	m.Count(func() schedule.Counts {
		return schedule.Counts{Evaluations: map[schedule.Evaluation]uint64{{Plugin: "x", Point: "Filter", Profile: "p"}: 1}, Refused: map[schedule.Refusal]int{{Plugin: "x", Profile: "p"}: 1}}
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(ours)
	got := describe(t, registry)
	if len(got) != 18 {
		t.Errorf("%d series", len(got))
	}
	for name, series := range got {
		if want[name] != series {
			t.Errorf("%s: %s, kube-scheduler has %q", name, series, want[name])
		}
	}
}

// describe returns type, labels and buckets of the scheduler's series.
func describe(t *testing.T, from prometheus.Gatherer) map[string]string {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "scheduler_") {
			continue
		}
		one := f.GetMetric()[0]
		var labels []string
		for _, l := range one.GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		series[f.GetName()] = fmt.Sprint(f.GetType(), labels, bounds(one))
	}
	return series
}

func bounds(m *dto.Metric) (list []float64) {
	for _, b := range m.GetHistogram().GetBucket() {
		list = append(list, b.GetUpperBound())
	}
	return list
}
