package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/job"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *world) runTTL(t *testing.T, l lag) *process {
	t.Helper()
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*job.TTLAfterFinished](t)(job.NewTTLAfterFinished(job.TTLAfterFinishedConfig{
			Jobs: follow(ctx, w.jobs, l), Writer: w.jobs,
		}))}
	})
}

func finish(kind batchv1.JobConditionType) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	}
}

// TestTTLAfterFinished has Jobs that end or do not, with copies that lag, writes
// that fail, and restarts. Each that is over goes when its time is up, and not
// before.
func TestTTLAfterFinished(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				w := newWorld()
				ended := map[string]time.Time{}
				w.jobs.check = func(old, new *batchv1.Job) {
					if old != nil && (new == nil || new.DeletionTimestamp != nil) {
						if end, ok := ended[old.Name]; !ok || time.Since(end.Truncate(time.Second)) < 100*time.Second {
							t.Errorf("%s deleted %s after its end", old.Name, time.Since(end))
						}
					}
				}
				for _, name := range []string{"completes", "fails", "lives", "stays"} {
					job := newJob(1, 1)
					if job.Name = name; name != "stays" {
						job.Spec.TTLSecondsAfterFinished = new(int32(100))
					}
					must[*batchv1.Job](t)(w.jobs.Create(t.Context(), job))
				}
				noFaults := w.faults(r, 30)
				slow := lag{random: r, most: 10 * time.Second, relist: 10}
				p := w.runTTL(t, slow)
				for name, kind := range map[string]batchv1.JobConditionType{"completes": batchv1.JobComplete, "fails": batchv1.JobFailed, "stays": batchv1.JobComplete} {
					time.Sleep(time.Duration(r.IntN(100)) * time.Second)
					w.mu.Lock()
					ended[name] = time.Now()
					w.mu.Unlock()
					w.jobs.alter(t, "default/"+name, finish(kind))
					if r.IntN(2) == 0 {
						p.stop(t)
						p = w.runTTL(t, slow)
					}
				}
				noFaults()
				settle()
				for _, job := range w.jobs.list() {
					if gone := job.Name == "completes" || job.Name == "fails"; gone != (job.DeletionTimestamp != nil) {
						t.Errorf("%s: deleted %v", job.Name, job.DeletionTimestamp)
					} else if gone && job.Finalizers[0] != metav1.FinalizerDeleteDependents {
						t.Errorf("%s: pods are left, by %v", job.Name, job.Finalizers)
					}
				}
				p.stop(t)
			})
		})
	}
}

// TestTTLProlonged changes the time to live while the copy does not notice.
func TestTTLProlonged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		job := newJob(1, 1)
		job.Spec.TTLSecondsAfterFinished = new(int32(10))
		must[*batchv1.Job](t)(w.jobs.Create(t.Context(), job))
		w.jobs.alter(t, "default/sum", finish(batchv1.JobFailed))
		p := w.runTTL(t, lag{least: time.Minute})
		w.jobs.alter(t, "default/sum", func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = new(int32(100)) })
		time.Sleep(99 * time.Second)
		if len(w.jobs.list()) != 1 || w.jobs.list()[0].DeletionTimestamp != nil {
			t.Error("deleted too early")
		}
		time.Sleep(2 * time.Second)
		if w.jobs.list()[0].DeletionTimestamp == nil {
			t.Error("not deleted")
		}
		p.stop(t)
	})
}

// TestTTLProlongedMeanwhile changes the time to live when it has been looked at,
// just before the deletion.
func TestTTLProlongedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		job := newJob(1, 1)
		job.Spec.TTLSecondsAfterFinished = new(int32(10))
		must[*batchv1.Job](t)(w.jobs.Create(t.Context(), job))
		w.jobs.alter(t, "default/sum", finish(batchv1.JobFailed))
		prolonged := false
		w.fault = func(verb, _ string) (bool, error) {
			if verb == "delete" && !prolonged {
				prolonged = true
				w.jobs.alterLocked("default/sum", w.jobs.objects["default/sum"], func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = new(int32(100)) })
			}
			return true, nil
		}
		p := w.runTTL(t, lag{})
		time.Sleep(99 * time.Second)
		synctest.Wait()
		if !prolonged || w.jobs.list()[0].DeletionTimestamp != nil {
			t.Errorf("prolonged %t, deleted too early", prolonged)
		}
		settle()
		if w.jobs.list()[0].DeletionTimestamp == nil {
			t.Error("not deleted")
		}
		p.stop(t)
	})
}
