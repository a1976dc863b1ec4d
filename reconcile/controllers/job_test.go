package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/reconcile/controllers"
)

func (w *world) runJobs(t *testing.T, l lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		pods := follow(ctx, w.pods, l)
		return []controllers.Runner{must[*controllers.Job](t)(controllers.NewJob(controllers.JobConfig{
			Jobs: follow(ctx, w.jobs, l), Pods: pods, PodsByController: byController[*corev1.Pod]{pods},
			Status: w.jobs, Writer: w.pods, Events: w.api,
		}))}
	})
}

func newJob(parallelism, completions int32) *batchv1.Job {
	limit := int32(2)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sum"},
		Spec: batchv1.JobSpec{Parallelism: &parallelism, Completions: &completions, BackoffLimit: &limit,
			Template: corev1.PodTemplateSpec{Spec: podSpec("adder")}},
	}
}

// end lets every pod that is not deleted end after a while, as phase says,
// and those that are deleted go.
func (w *world) end(ctx context.Context, random *rand.Rand, phase func() corev1.PodPhase) {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(1+random.IntN(3000)) * time.Millisecond):
			}
			w.mu.Lock()
			for key, pod := range w.pods.objects {
				switch {
				case random.IntN(3) > 0:
				case pod.DeletionTimestamp != nil:
					w.pods.alterLocked(key, pod, func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64) })
				case isActive(pod):
					w.pods.alterLocked(key, pod, func(p *corev1.Pod) { p.Status.Phase = phase() })
				}
			}
			w.mu.Unlock()
		}
	}()
}

func jobReasons(j *batchv1.Job) (list []string) {
	for _, c := range j.Status.Conditions {
		list = append(list, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return list
}

// TestJobCompletes runs jobs through lagging copies and failing writes: never
// more pods at once than the parallelism, and in the end exactly as many
// successes as were asked for.
func TestJobCompletes(t *testing.T) {
	for i := range 10 {
		seed, faults := rand.Uint64(), 10*(i%2)
		t.Run(fmt.Sprintf("faults=%d/seed=%d", faults, seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := rand.New(rand.NewPCG(seed, 0))
				w := newWorld()
				parallelism, completions := 1+r.Int32N(5), 1+r.Int32N(12)
				w.guard(t, int(parallelism))
				must[*batchv1.Job](t)(w.jobs.Create(ctx, newJob(parallelism, completions)))
				noFaults := w.faults(r, faults)
				w.end(ctx, rand.New(rand.NewPCG(seed, 1)), func() corev1.PodPhase { return corev1.PodSucceeded })
				slow := lag{random: r, most: time.Second, relist: 5}
				p := w.runJobs(t, slow)
				for range 3 {
					time.Sleep(10 * time.Second)
					p.stop(t)
					p = w.runJobs(t, slow)
				}
				noFaults()
				settle()
				job := w.jobs.list()[0]
				s := job.Status
				want := []string{"SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"}
				if s.Succeeded != completions || s.Failed != 0 || s.Active != 0 || s.StartTime == nil || s.CompletionTime == nil ||
					!slices.Equal(jobReasons(job), want) {
					t.Errorf("%d to complete, status %+v", completions, s)
				}
				pods := w.pods.list()
				if len(pods) != int(completions) {
					t.Errorf("%d pods ran for %d completions", len(pods), completions)
				}
				for _, label := range []string{"job-name", "batch.kubernetes.io/job-name"} {
					if pods[0].Labels[label] != "sum" {
						t.Errorf("labels %v", pods[0].Labels)
					}
				}
				// The event of a status whose answer was lost is lost with it.
				if faults == 0 && !slices.Contains(w.events, "Normal Completed: Job completed") {
					t.Errorf("events %v", w.events)
				}
				p.stop(t)
			})
		})
	}
}

func TestJobFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		start := time.Now()
		var created []time.Duration
		w.pods.check = func(old, _ *corev1.Pod) {
			if old == nil {
				created = append(created, time.Since(start).Truncate(time.Second))
			}
		}
		w.end(ctx, rand.New(rand.NewPCG(1, 1)), func() corev1.PodPhase { return corev1.PodFailed })
		p := w.runJobs(t, lag{})
		must[*batchv1.Job](t)(w.jobs.Create(ctx, newJob(1, 1)))
		settle()
		job := w.jobs.list()[0]
		want := []string{"FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"}
		if job.Status.Failed != 3 || job.Status.CompletionTime != nil || !slices.Equal(jobReasons(job), want) {
			t.Errorf("status %+v", job.Status)
		}
		if len(created) != 3 || created[1] < 10*time.Second || created[2]-created[1] < 20*time.Second {
			t.Errorf("pods created at %v, want 10 s and 20 s between them", created)
		}
		if !slices.Contains(w.events, "Warning BackoffLimitExceeded: Job has reached the specified backoff limit") {
			t.Errorf("events %v", w.events)
		}
		p.stop(t)
	})
}

func TestJobDeadlineAndSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld()
		w.kubelet(ctx, rand.New(rand.NewPCG(1, 1)))
		p := w.runJobs(t, lag{})
		job := newJob(2, 2)
		deadline, yes, no := int64(60), true, false
		job.Spec.ActiveDeadlineSeconds = &deadline
		must[*batchv1.Job](t)(w.jobs.Create(ctx, job))
		time.Sleep(30 * time.Second)
		w.jobs.alter(t, "default/sum", func(j *batchv1.Job) { j.Spec.Suspend = &yes })
		settle()
		if got := len(w.pods.list()); got != 0 || w.jobs.list()[0].Status.StartTime != nil {
			t.Errorf("suspended with %d pods and status %+v", got, w.jobs.list()[0].Status)
		}
		w.jobs.alter(t, "default/sum", func(j *batchv1.Job) { j.Spec.Suspend = &no })
		time.Sleep(59 * time.Second)
		if got := active(w.pods.list()); got != 2 {
			t.Errorf("resumed with %d pods", got)
		}
		settle()
		got := w.jobs.list()[0]
		want := []string{"Suspended=False JobResumed", "FailureTarget=True DeadlineExceeded", "Failed=True DeadlineExceeded"}
		if !slices.Equal(jobReasons(got), want) || len(w.pods.list()) != 0 {
			t.Errorf("conditions %v, %d pods", jobReasons(got), len(w.pods.list()))
		}
		p.stop(t)
	})
}
