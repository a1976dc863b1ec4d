package controllers_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func held(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// byApp has a Job with a selector of its author's.
func byApp(job *batchv1.Job) *batchv1.Job {
	job.Spec.ManualSelector = new(true)
	job.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "sum"}}
	job.Spec.Template.Labels = map[string]string{"app": "sum"}
	return job
}

func (w *world) orphan(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return must[*corev1.Pod](t)(w.pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{"app": "sum"}}}))
}

func TestJobAdoptsAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.orphan(t, "stray")
		p := w.runJobs(t, lag{})
		must[*batchv1.Job](t)(w.jobs.Create(t.Context(), byApp(newJob(1, 1))))
		settle()
		pods := w.pods.list()
		if len(pods) != 1 || !held(pods[0]) || metav1.GetControllerOf(pods[0]) == nil {
			t.Fatalf("not adopted: %+v", pods)
		}
		if got := w.jobs.list()[0].Status; got.Active != 1 {
			t.Errorf("status %+v", got)
		}
		w.pods.alter(t, "default/stray", func(p *corev1.Pod) { p.Labels = nil })
		settle()
		if pods = w.pods.list(); len(pods) != 2 {
			t.Fatalf("%d pods after the release of one", len(pods))
		}
		for _, pod := range pods {
			if mine := pod.Name != "stray"; held(pod) != mine || (metav1.GetControllerOf(pod) != nil) != mine {
				t.Errorf("%s: finalizers %v, owners %v", pod.Name, pod.Finalizers, pod.OwnerReferences)
			}
			if pod.Labels["job-name"] != "" {
				t.Errorf("labels %v beside a manual selector", pod.Labels)
			}
		}
		p.stop(t)
	})
}

// TestJobReleasesWhatIsGoing removes the labels of a terminating pod. The Job would
// otherwise hold the pod until its termination is over.
func TestJobReleasesWhatIsGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		job := byApp(newJob(1, 1))
		job.Spec.PodReplacementPolicy = new(batchv1.Failed) // otherwise the Job releases the pod as a failure
		must[*batchv1.Job](t)(w.jobs.Create(t.Context(), job))
		p := w.runJobs(t, lag{})
		settle()
		pod := w.pods.list()[0]
		w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) {
			p.Labels = nil
			p.DeletionTimestamp = new(metav1.Now())
			p.DeletionGracePeriodSeconds = new(int64(30))
		})
		settle()
		pod, err := w.pods.Get(t.Context(), pod.Namespace, pod.Name)
		if err != nil || held(pod) || metav1.GetControllerOf(pod) != nil {
			t.Errorf("finalizers %v, owners %v, %v", pod.Finalizers, pod.OwnerReferences, err)
		}
		p.stop(t)
	})
}

// TestJobLooksBeforeItAdopts has a copy in which the deletion of a Job has not
// arrived. What the garbage collector orphans meanwhile, and is seen at once, stays
// so.
func TestJobLooksBeforeItAdopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*batchv1.Job](t)(w.jobs.Create(t.Context(), byApp(newJob(0, 1))))
		p := w.runJobsWith(t, lag{least: time.Minute}, lag{})
		orphan := metav1.DeletePropagationOrphan
		if err := w.jobs.Delete(t.Context(), "default", "sum", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
			t.Fatal(err)
		}
		w.orphan(t, "stray")
		settle()
		if pod := w.pods.list()[0]; len(pod.OwnerReferences) != 0 || len(pod.Finalizers) != 0 {
			t.Errorf("adopted: %+v", pod)
		}
		p.stop(t)
	})
}

// TestJobAdoptsForItselfOnly has a copy that shows a Job which is gone, and of whose
// name there is another. An orphan is the other's.
func TestJobAdoptsForItselfOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*batchv1.Job](t)(w.jobs.Create(t.Context(), byApp(newJob(0, 1))))
		p := w.runJobsWith(t, lag{least: time.Minute}, lag{})
		removeOutside(t, w.jobs, "default", "sum")
		second := must[*batchv1.Job](t)(w.jobs.Create(t.Context(), byApp(newJob(0, 1))))
		w.pods.check = func(_, pod *corev1.Pod) {
			if owner := metav1.GetControllerOf(pod); owner != nil && owner.UID != second.UID {
				t.Errorf("adopted for %s, which is gone", owner.UID)
			}
		}
		w.orphan(t, "stray")
		settle()
		if owner := metav1.GetControllerOf(w.pods.list()[0]); owner == nil || owner.UID != second.UID {
			t.Errorf("the owner is %v, want %s", owner, second.UID)
		}
		p.stop(t)
	})
}

// TestJobDeleted deletes a Job whose pods run. With every propagation policy, no pod keeps
// the tracking finalizer.
func TestJobDeleted(t *testing.T) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				must[*batchv1.Job](t)(w.jobs.Create(t.Context(), newJob(2, 2)))
				p := w.runJobs(t, lag{})
				synctest.Wait()
				if err := w.jobs.Delete(t.Context(), "default", "sum", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
					t.Fatal(err)
				}
				settle()
				pods := w.pods.list()
				if len(pods) != 2 {
					t.Fatalf("%d pods", len(pods))
				}
				for _, pod := range pods {
					if held(pod) || pod.DeletionTimestamp != nil {
						t.Errorf("finalizers %v, deleted %v", pod.Finalizers, pod.DeletionTimestamp)
					}
				}
				p.stop(t)
			})
		})
	}
}

// TestJobStrays has pods with the finalizer that no Job is going to remove.
func TestJobStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		job := newJob(0, 1)
		job.Spec.ManagedBy = new("example.com/other")
		job = must[*batchv1.Job](t)(w.jobs.Create(t.Context(), job))
		ref := func(kind string, uid types.UID) []metav1.OwnerReference {
			return []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: "sum", UID: uid, Controller: new(true)}}
		}
		for name, owners := range map[string][]metav1.OwnerReference{
			"alone": nil, "of-its-predecessor": ref("Job", "before"), "of-another-kind": ref("Batch", "other"), "managed": ref("Job", job.UID),
		} {
			must[*corev1.Pod](t)(w.pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, OwnerReferences: owners, Finalizers: []string{"example.com/mine", batchv1.JobTrackingFinalizer}}}))
		}
		p := w.runJobs(t, lag{})
		settle()
		for _, pod := range w.pods.list() {
			if want := pod.Name == "of-another-kind" || pod.Name == "managed"; held(pod) != want || pod.Finalizers[0] != "example.com/mine" {
				t.Errorf("%s has %v", pod.Name, pod.Finalizers)
			}
		}
		w.jobs.alter(t, "default/sum", func(j *batchv1.Job) {
			j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		})
		settle()
		if got := w.jobs.list()[0]; len(got.Status.Conditions) != 1 || got.Status.StartTime != nil {
			t.Errorf("status of a job that another manages: %+v", got.Status)
		}
		p.stop(t)
	})
}

// TestJobLostCreates has two creations without an answer, of which one took
// place, and a Job that then wants one pod less. It is not made twice.
func TestJobLostCreates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*batchv1.Job](t)(w.jobs.Create(t.Context(), newJob(3, 3)))
		creates := 0
		w.fault = func(verb, name string) (bool, error) {
			if verb != "create" {
				return true, nil
			}
			switch creates++; creates {
			case 2:
				return false, errLost
			case 3:
				return true, errLost
			}
			return true, nil
		}
		w.pods.check = func(old, _ *corev1.Pod) {
			if old == nil && w.activeLocked() == 2 && creates == 3 {
				job := w.jobs.objects["default/sum"]
				w.jobs.alterLocked("default/sum", job, func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(2)) })
			}
			if n := w.activeLocked(); n > 2 {
				t.Errorf("%d pods", n)
			}
		}
		p := w.runJobsWith(t, lag{}, lag{least: time.Second})
		settle()
		if n := active(w.pods.list()); n != 2 {
			t.Errorf("%d pods", n)
		}
		p.stop(t)
	})
}

// TestJobScalesDown takes away pods that are not wanted any more. They count for
// nothing.
func TestJobScalesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		must[*batchv1.Job](t)(w.jobs.Create(t.Context(), newJob(4, 4)))
		p := w.runJobs(t, lag{})
		synctest.Wait()
		w.jobs.alter(t, "default/sum", func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(1)) })
		settle()
		s := w.jobs.list()[0].Status
		if active(w.pods.list()) != 1 || s.Active != 1 || *s.Terminating != 3 || s.Failed != 0 {
			t.Errorf("%d active pods, status %+v", active(w.pods.list()), s)
		}
		for _, pod := range w.pods.list() {
			if held(pod) != isActive(pod) {
				t.Errorf("%s: deleted %v, finalizers %v", pod.Name, pod.DeletionTimestamp, pod.Finalizers)
			}
		}
		if !slices.ContainsFunc(w.events, func(e string) bool { return strings.HasPrefix(e, "Normal SuccessfulDelete: Deleted pod: sum-") }) {
			t.Errorf("events %v", w.events)
		}
		p.stop(t)
	})
}
