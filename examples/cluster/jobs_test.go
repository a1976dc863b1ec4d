package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// jobOf is a Job whose pods run command; none runs until it is stopped.
func jobOf(name string, change func(*batchv1.JobSpec), command ...string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "main", Image: "busybox", Command: command}}}
	change(&job.Spec)
	return job
}

// until waits until done returns true or ctx is done.
func until(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func podsOf(t *testing.T, ctx context.Context, api *client.Client, job string) []*corev1.Pod {
	t.Helper()
	pods, _, err := typed.Pods(api).List(ctx, "default", metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + job})
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

func jobEnded(t *testing.T, ctx context.Context, api *client.Client, name string) *batchv1.Job {
	t.Helper()
	var job *batchv1.Job
	until(t, ctx, "job "+name+" is over", func() (over bool) {
		var err error
		if job, err = typed.Jobs(api).Get(ctx, "default", name); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed
		})
	})
	return job
}

// TestJobs runs Jobs on the whole path: API server, controllers, scheduler and
// kubelets.
func TestJobs(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "2", "--offline-images", "off")
	api := cluster.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, job := range []*batchv1.Job{
		jobOf("counted", func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = new(int32(2)), new(int32(3)) }, "true"),
		jobOf("indexed", func(s *batchv1.JobSpec) {
			s.Parallelism, s.Completions, s.CompletionMode = new(int32(2)), new(int32(4)), new(batchv1.IndexedCompletion)
		}, "true"),
		jobOf("fails", func(s *batchv1.JobSpec) { s.BackoffLimit = new(int32(0)) }, "false"),
		jobOf("brief", func(s *batchv1.JobSpec) { s.TTLSecondsAfterFinished = new(int32(0)) }, "true"),
		jobOf("long", func(s *batchv1.JobSpec) {}),
		jobOf("two", func(s *batchv1.JobSpec) { s.Parallelism, s.Completions = new(int32(2)), new(int32(2)) }),
	} {
		if _, err := typed.Jobs(api).Create(ctx, job); err != nil {
			t.Fatal(err)
		}
	}
	if got := jobEnded(t, ctx, api, "counted").Status; got.Succeeded != 3 || got.Failed != 0 || got.CompletionTime == nil {
		t.Errorf("counted: %+v", got)
	}
	if got := jobEnded(t, ctx, api, "indexed").Status; got.Succeeded != 4 || got.CompletedIndexes != "0-3" {
		t.Errorf("indexed: %+v", got)
	}
	if got := jobEnded(t, ctx, api, "fails").Status; got.Failed != 1 || got.Conditions[1].Reason != "BackoffLimitExceeded" {
		t.Errorf("fails: %+v", got)
	}
	for name, want := range map[string]int{"counted": 3, "indexed": 4, "fails": 1} {
		pods := podsOf(t, ctx, api, name)
		if len(pods) != want {
			t.Errorf("%s has %d pods", name, len(pods))
		}
		for _, pod := range pods {
			if len(pod.Finalizers) != 0 {
				t.Errorf("%s is held by %v", pod.Name, pod.Finalizers)
			}
		}
	}
	until(t, ctx, "the brief job is gone with its pods", func() bool {
		_, err := typed.Jobs(api).Get(ctx, "default", "brief")
		return apierrors.IsNotFound(err) && len(podsOf(t, ctx, api, "brief")) == 0
	})
	deletePodAndJob(t, ctx, api, "long")
	deleteJob(t, ctx, api, "two")
	cluster.stop()
}

// deletePodAndJob deletes the pod of a running Job, which counts as a failure,
// and then the Job.
func deletePodAndJob(t *testing.T, ctx context.Context, api *client.Client, name string) {
	t.Helper()
	running := func() *corev1.Pod {
		for _, pod := range podsOf(t, ctx, api, name) {
			if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
				return pod
			}
		}
		return nil
	}
	until(t, ctx, "its pod runs", func() bool { return running() != nil })
	first := running()
	if err := typed.Pods(api).Delete(ctx, "default", first.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, "the pod is gone", func() bool { return len(podsOf(t, ctx, api, name)) == 0 })
	until(t, ctx, "it is counted", func() bool {
		job, err := typed.Jobs(api).Get(ctx, "default", name)
		return err == nil && job.Status.Failed == 1 && job.Status.Active == 0 && *job.Status.Terminating == 0
	})
	job, err := typed.Jobs(api).Get(ctx, "default", name)
	if err != nil || len(job.Status.Conditions) != 0 {
		t.Errorf("%v, status %+v", err, job.Status)
	}
	deleteJob(t, ctx, api, name)
}

// deleteJob deletes a Job whose pods run, and they go.
func deleteJob(t *testing.T, ctx context.Context, api *client.Client, name string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	if err := typed.Jobs(api).Delete(ctx, "default", name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	until(t, ctx, "its pods are gone", func() bool { return len(podsOf(t, ctx, api, name)) == 0 })
}
