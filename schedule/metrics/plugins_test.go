package metrics_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/metrics"
	corev1 "k8s.io/api/core/v1"
)

// value returns the value of a series; 0 if it is missing.
func value(t *testing.T, text, series string) int {
	t.Helper()
	match := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\d+)$`).FindStringSubmatch(text)
	if match == nil {
		return 0
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPlugins checks what is measured of single plugins: each question, the times of a tenth of the calls, and the
// bindings that have not ended.
func TestPlugins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 1000
		m := metrics.New()
		nodes, pods := localcache.NewMap(node("a", 2*count), node("b", 2*count)), localcache.NewMap[*corev1.Pod]()
		release := make(chan struct{})
		scheduler, err := schedule.New(schedule.Config{
			Predicates: []schedule.Predicate{schedule.PredicateFunc("Any", func(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict { return schedule.Fits })},
			Priorities: []schedule.Weighted{{Priority: schedule.PriorityFunc("Same", func(*schedule.PodInfo, *schedule.NodeInfo) int64 { return 1 })}},
			Nodes:      nodes, Pods: pods, Meters: m.Meters(), Parallel: 2 * count,
			Bind: func(context.Context, *corev1.Pod, string) error { <-release; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // one answer
		go func() { done <- scheduler.Run(ctx) }()
		synctest.Wait()
		for i := range count {
			pods.Put(pod(fmt.Sprint("p", i), 0))
		}
		synctest.Wait()
		text := scrape(m)
		for series, want := range map[string]int{
			`scheduler_goroutines{operation="binding"}`:                                                            count,
			`scheduler_plugin_evaluation_total{extension_point="Filter",plugin="Any",profile="default-scheduler"}`: 2 * count,
			`scheduler_plugin_evaluation_total{extension_point="Score",plugin="Same",profile="default-scheduler"}`: 2 * count,
			`scheduler_event_handling_duration_seconds_count{event="NodeAdd"}`:                                     2,
			`scheduler_event_handling_duration_seconds_count{event="UnschedulablePodAdd"}`:                         count,
		} {
			if got := value(t, text, series); got != want {
				t.Errorf("%s %d, want %d", series, got, want)
			}
		}
		close(release)
		synctest.Wait()
		text = scrape(m)
		if got := value(t, text, `scheduler_goroutines{operation="binding"}`); got != 0 {
			t.Errorf("%d bindings", got)
		}
		// The deviation is below 10.
		const bound = `scheduler_plugin_execution_duration_seconds_count{extension_point="Bind",plugin="DefaultBinder",status="Success"}`
		if got := value(t, text, bound); got < 10 || got > 190 {
			t.Errorf("%d of %d bindings were measured", got, count)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestAfterFlush checks that a pod counts that fits after five minutes without an event.
func TestAfterFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metrics.New()
		fits := false // written while the scheduler waits
		scheduler, err := schedule.New(schedule.Config{
			Predicates: []schedule.Predicate{schedule.PredicateFunc("Late", func(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict {
				if fits {
					return schedule.Fits
				}
				return schedule.Refuse("node(s) were late")
			})},
			Nodes: localcache.NewMap(node("a", 1)), Pods: localcache.NewMap(pod("p", 0)), Meters: m.Meters(),
			Bind: func(context.Context, *corev1.Pod, string) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // one answer
		go func() { done <- scheduler.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		fits = true
		if strings.Contains(scrape(m), "scheduler_pod_scheduled_after_flush_total 1") {
			t.Error("a pod that waits counts")
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if text := scrape(m); !strings.Contains(text, "scheduler_pod_scheduled_after_flush_total 1\n") {
			t.Error(text)
		}
	})
}
