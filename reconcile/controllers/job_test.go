package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/job"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *world) runJobs(t *testing.T, l lag) *process {
	t.Helper()
	return w.runJobsWith(t, l, l)
}

func (w *world) runJobsWith(t *testing.T, jobLag, podLag lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		pods := follow(ctx, w.pods, podLag)
		return []controllers.Runner{must[*job.Controller](t)(job.New(job.Config{
			Jobs: follow(ctx, w.jobs, jobLag), Pods: pods, PodsByController: localcache.Scan(pods, owner.ByController[*corev1.Pod]),
			Writer: w.jobs, PodWriter: w.pods, Events: w.api, Log: w.log,
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

func indexed(job *batchv1.Job) *batchv1.Job {
	mode := batchv1.IndexedCompletion
	job.Spec.CompletionMode = &mode
	return job
}

// end lets every pod that is not deleted end after a while, as phase says,
// and those that are deleted go.
func (w *world) end(ctx context.Context, random *rand.Rand, phase func(*corev1.Pod) corev1.PodPhase) {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(1+random.IntN(3000)) * time.Millisecond):
			}
			w.mu.Lock()
			for _, key := range sortedKeys(w.pods.objects) {
				pod := w.pods.objects[key]
				switch {
				case random.IntN(3) > 0:
				case pod.DeletionTimestamp != nil:
					w.pods.alterLocked(key, pod, func(p *corev1.Pod) {
						p.DeletionGracePeriodSeconds = new(int64)
						if p.Status.Phase != corev1.PodSucceeded {
							p.Status.Phase = corev1.PodFailed
						}
					})
				case isActive(pod):
					w.pods.alterLocked(key, pod, func(p *corev1.Pod) { p.Status.Phase = phase(p) })
				}
			}
			w.mu.Unlock()
		}
	}()
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func always(phase corev1.PodPhase) func(*corev1.Pod) corev1.PodPhase {
	return func(*corev1.Pod) corev1.PodPhase { return phase }
}

func jobReasons(j *batchv1.Job) (list []string) {
	for _, c := range j.Status.Conditions {
		list = append(list, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return list
}

var completed = []string{"SuccessCriteriaMet=True CompletionsReached", "Complete=True CompletionsReached"}

// jobHistory holds the results of a Job in a run of the model test.
type jobHistory struct {
	*world
	made, succeeded int
}

// watchJob counts what really happens to pods, and sees to it that no more are
// at work than may, and that no count ever goes down.
func (w *world) watchJob(t *testing.T, most int) *jobHistory {
	h := &jobHistory{world: w}
	w.pods.check = func(old, new *corev1.Pod) {
		if old == nil {
			h.made++
			if n := w.activeLocked(); n > most {
				t.Errorf("%d pods, want at most %d; writes %v", n, most, w.writes)
			}
		}
		if new != nil && new.Status.Phase == corev1.PodSucceeded && old.Status.Phase != corev1.PodSucceeded {
			h.succeeded++
		}
	}
	w.jobs.check = func(old, new *batchv1.Job) {
		if old != nil && new != nil && (new.Status.Failed < old.Status.Failed || new.Status.Succeeded < old.Status.Succeeded) {
			t.Errorf("counts went down from %+v to %+v", old.Status, new.Status)
		}
	}
	return h
}

// verify has the end of the Job agree with what happened to its pods: each was
// counted, and counted once.
func (h *jobHistory) verify(t *testing.T, completions int32) {
	t.Helper()
	job := h.jobs.list()[0]
	s := job.Status
	if !slices.Equal(jobReasons(job), completed) || s.StartTime == nil || s.CompletionTime == nil {
		t.Fatalf("%d to complete, status %+v", completions, s)
	}
	if s.Succeeded != completions || s.Active != 0 || *s.Terminating != 0 || *s.Ready != 0 {
		t.Errorf("%d to complete, status %+v", completions, s)
	}
	if u := s.UncountedTerminatedPods; u == nil || len(u.Succeeded)+len(u.Failed) != 0 {
		t.Errorf("uncounted %+v", u)
	}
	if int(s.Succeeded+s.Failed) != h.made {
		t.Errorf("%d pods were made, %d succeeded, and %d + %d counted", h.made, h.succeeded, s.Succeeded, s.Failed)
	}
	for _, pod := range h.pods.list() {
		if len(pod.Finalizers) != 0 {
			t.Errorf("%s is still held", pod.Name)
		}
	}
	if *job.Spec.CompletionMode == batchv1.IndexedCompletion {
		want := fmt.Sprintf("0-%d", completions-1)
		if completions <= 2 {
			want = []string{"0", "0,1"}[completions-1]
		}
		if s.CompletedIndexes != want {
			t.Errorf("completed are %q, want %q", s.CompletedIndexes, want)
		}
	}
}

// TestJobModel runs Jobs of both kinds through copies that lag and miss
// changes, writes that fail before or after they took effect, restarts, pods
// that fail, and pods that are deleted.
func TestJobModel(t *testing.T) {
	for i := range 24 {
		seed, faults, deletions := rand.Uint64(), 10*(i%2), i%3 == 0
		t.Run(fmt.Sprintf("faults=%d/deletions=%t/seed=%d", faults, deletions, seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { modelJob(t, seed, faults, deletions) })
		})
	}
}

func modelJob(t *testing.T, seed uint64, faults int, deletions bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	job := newJob(1+r.Int32N(5), 1+r.Int32N(12))
	job.Spec.BackoffLimit = new(int32(1000))
	job.Spec.CompletionMode = new(batchv1.NonIndexedCompletion)
	if r.IntN(2) == 0 {
		indexed(job)
		if r.IntN(2) == 0 {
			job.Spec.BackoffLimitPerIndex = new(int32(1000))
		}
	}
	if r.IntN(2) == 0 {
		job.Spec.PodReplacementPolicy = new(batchv1.Failed)
	}
	h := w.watchJob(t, int(*job.Spec.Parallelism))
	must[*batchv1.Job](t)(w.jobs.Create(ctx, job))
	noFaults := w.faults(r, faults)
	dice := rand.New(rand.NewPCG(seed, 2))
	w.end(ctx, rand.New(rand.NewPCG(seed, 1)), func(*corev1.Pod) corev1.PodPhase {
		if dice.IntN(5) == 0 {
			return corev1.PodFailed
		}
		return corev1.PodSucceeded
	})
	slow := lag{random: r, most: time.Second, relist: 5}
	p := w.runJobs(t, slow)
	for range 8 {
		time.Sleep(time.Duration(1+r.IntN(15)) * time.Second)
		if pods := w.pods.list(); deletions && len(pods) > 0 {
			victim := pods[r.IntN(len(pods))]
			if victim.Status.Phase == "" {
				_ = w.pods.Delete(ctx, victim.Namespace, victim.Name, metav1.DeleteOptions{}) // a fault may keep it
			}
		}
		if r.IntN(2) == 0 {
			p.stop(t)
			p = w.runJobs(t, slow)
		}
	}
	noFaults()
	for range 5 {
		settle()
	}
	h.verify(t, *job.Spec.Completions)
	// The event of a status whose answer was lost is lost with it.
	if faults == 0 && !slices.Contains(w.events, "Normal Completed: Job completed") {
		t.Errorf("events %v", w.events)
	}
	p.stop(t)
}

// TestJobCrashAfterEachWrite has the process die right after every write, or
// every other and so on, without having learned whether the write took place.
func TestJobCrashAfterEachWrite(t *testing.T) {
	for every := range 6 {
		for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("every=%d/%s/seed=%d", every+1, mode, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashJob(t, seed, every+1, mode) })
			})
		}
	}
}

func crashJob(t *testing.T, seed uint64, every int, mode batchv1.CompletionMode) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	job := newJob(2, 4)
	job.Spec.BackoffLimit, job.Spec.CompletionMode = new(int32(1000)), &mode
	h := w.watchJob(t, 2)
	must[*batchv1.Job](t)(w.jobs.Create(ctx, job))
	dice := rand.New(rand.NewPCG(seed, 2))
	w.end(ctx, rand.New(rand.NewPCG(seed, 1)), func(*corev1.Pod) corev1.PodPhase {
		if dice.IntN(4) == 0 {
			return corev1.PodFailed
		}
		return corev1.PodSucceeded
	})
	writes, crashed := 0, make(chan struct{}, 100)
	w.fault = func(string, string) (bool, error) {
		if writes++; writes%every != 0 {
			return true, nil
		}
		select {
		case crashed <- struct{}{}:
		default:
		}
		return true, errLost
	}
	slow := lag{random: r, most: time.Second, relist: 5}
	p := w.runJobs(t, slow)
	lives := 1
	for over := time.After(24 * time.Hour); ; lives++ {
		select {
		case <-crashed:
		case <-over:
			synctest.Wait()
			h.verify(t, 4)
			if lives < 3 {
				t.Errorf("only %d lives", lives)
			}
			p.stop(t)
			return
		}
		p.stop(t)
		for len(crashed) > 0 {
			<-crashed
		}
		p = w.runJobs(t, slow)
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
		w.end(ctx, rand.New(rand.NewPCG(1, 1)), always(corev1.PodFailed))
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
		job.Spec.ActiveDeadlineSeconds = new(int64(60))
		must[*batchv1.Job](t)(w.jobs.Create(ctx, job))
		time.Sleep(30 * time.Second)
		w.jobs.alter(t, "default/sum", func(j *batchv1.Job) { j.Spec.Suspend = new(true) })
		settle()
		if s := w.jobs.list()[0].Status; len(w.pods.list()) != 0 || s.StartTime != nil || s.Failed != 0 {
			t.Errorf("suspended with %d pods and status %+v", len(w.pods.list()), s)
		}
		w.jobs.alter(t, "default/sum", func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
		time.Sleep(59 * time.Second)
		if got := active(w.pods.list()); got != 2 {
			t.Errorf("resumed with %d pods", got)
		}
		settle()
		got := w.jobs.list()[0]
		want := []string{"Suspended=False JobResumed", "FailureTarget=True DeadlineExceeded", "Failed=True DeadlineExceeded"}
		if !slices.Equal(jobReasons(got), want) || len(w.pods.list()) != 0 || got.Status.Failed != 2 {
			t.Errorf("conditions %v, %d failed, %d pods", jobReasons(got), got.Status.Failed, len(w.pods.list()))
		}
		for _, event := range []string{"Normal Suspended: Job suspended", "Normal Resumed: Job resumed",
			"Warning DeadlineExceeded: Job was active longer than specified deadline"} {
			if !slices.Contains(w.events, event) {
				t.Errorf("no event %q in %v", event, w.events)
			}
		}
		p.stop(t)
	})
}
