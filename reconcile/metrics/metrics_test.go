package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gather returns all series by name and labels; histograms as count and sum.
func gather(t *testing.T, m *metrics.Metrics) map[string]string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			name := family.GetName()
			for _, label := range series.GetLabel() {
				name += " " + label.GetValue()
			}
			if h := series.GetHistogram(); h != nil {
				got[name] = fmt.Sprintf("%d in %gs", h.GetSampleCount(), h.GetSampleSum())
			} else {
				got[name] = fmt.Sprint(series.GetCounter().GetValue() + series.GetGauge().GetValue())
			}
		}
	}
	return got
}

// TestSeries checks a queue and a controller at one instant, by the names of client-go and
// controller-runtime.
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		queue := reconcile.NewQueueWith(reconcile.QueueConfig[string]{Hooks: m.Queue("painter"), Backoff: reconcile.Backoff{Min: time.Hour}})
		stop := m.Watch("painter", queue)
		c, err := reconcile.New(reconcile.Config[string]{
			Name: "painter", Queue: queue, Workers: 4, Hooks: m.Controller("painter", 4),
			Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
				time.Sleep(time.Second)
				switch key {
				case "fails":
					return reconcile.Result{}, errors.New("no")
				case "panics":
					panic("oh")
				case "again":
					return reconcile.Result{After: time.Hour}, nil
				}
				<-ctx.Done()
				return reconcile.Result{}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"fails", "panics", "again", "stuck 1"} {
			c.Enqueue(key)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(2 * time.Second)
		for _, key := range []string{"stuck 2", "stuck 3", "stuck 4", "waits"} {
			c.Enqueue(key)
		}
		time.Sleep(2 * time.Second)
		got := gather(t, m)
		want := map[string]string{
			"workqueue_depth painter":                                  "1",
			"workqueue_adds_total painter":                             "8",
			"workqueue_retries_total painter":                          "3",
			"workqueue_queue_duration_seconds painter":                 "7 in 0s",
			"workqueue_work_duration_seconds painter":                  "3 in 3s",
			"workqueue_unfinished_work_seconds painter":                "10", // one of 4 s, three of 2 s
			"workqueue_longest_running_processor_seconds painter":      "4",
			"controller_runtime_reconcile_total painter error":         "2",
			"controller_runtime_reconcile_total painter requeue_after": "1",
			"controller_runtime_reconcile_errors_total painter":        "2",
			"controller_runtime_reconcile_panics_total painter":        "1",
			"controller_runtime_reconcile_time_seconds painter":        "3 in 3s",
			"controller_runtime_active_workers painter":                "4",
			"controller_runtime_max_concurrent_reconciles painter":     "4",
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stop()
		for name := range gather(t, m) {
			if strings.HasPrefix(name, "workqueue_depth") {
				t.Errorf("%s is shown still", name)
			}
		}
	})
}
