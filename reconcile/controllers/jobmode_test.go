package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// play runs job until nothing happens any more. Pods end as end says: with an
// exit code.
func play(t *testing.T, job *batchv1.Job, exit func(*corev1.Pod) int32) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	must[*batchv1.Job](t)(w.jobs.Create(ctx, job))
	w.end(ctx, rand.New(rand.NewPCG(seed, 1)), func(pod *corev1.Pod) corev1.PodPhase {
		code := exit(pod)
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}}}}
		if code == 0 {
			return corev1.PodSucceeded
		}
		return corev1.PodFailed
	})
	p := w.runJobs(t, lag{random: r, most: time.Second, relist: 5})
	for range 5 {
		settle()
	}
	p.stop(t)
	return w
}

func index(pod *corev1.Pod) string { return pod.Annotations[batchv1.JobCompletionIndexAnnotation] }

func TestJobIndexedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := indexed(newJob(3, 12))
		job.Name = strings.Repeat("long-", 11)
		job.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "first"}}
		w := play(t, job, func(*corev1.Pod) int32 { return 0 })
		if s := w.jobs.list()[0].Status; s.CompletedIndexes != "0-11" || s.Succeeded != 12 || s.FailedIndexes != nil {
			t.Errorf("status %+v", s)
		}
		pods := w.pods.list()
		if len(pods) != 12 {
			t.Errorf("%d pods", len(pods))
		}
		for _, pod := range pods {
			i := index(pod)
			prefix := job.Name[:58-len(i)-2] + "-" + i + "-"
			if !strings.HasPrefix(pod.Name, prefix) || len(pod.Name) != 63 || pod.GenerateName != prefix {
				t.Errorf("index %s is named %s, from %s", i, pod.Name, pod.GenerateName)
			}
			if pod.Labels[batchv1.JobCompletionIndexAnnotation] != i || pod.Spec.Hostname != job.Name+"-"+i {
				t.Errorf("index %s has labels %v and host name %s", i, pod.Labels, pod.Spec.Hostname)
			}
			for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				if len(c.Env) != 1 || c.Env[0].Name != "JOB_COMPLETION_INDEX" ||
					c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" {
					t.Errorf("environment %+v", c.Env)
				}
			}
			for _, label := range []string{"job-name", "batch.kubernetes.io/job-name"} {
				if pod.Labels[label] != job.Name {
					t.Errorf("labels %v", pod.Labels)
				}
			}
		}
	})
}

// TestJobBackoffPerIndex has one index that always fails, one that fails once,
// and one whose failures are ignored twice.
func TestJobBackoffPerIndex(t *testing.T) {
	for name, test := range map[string]struct {
		most   *int32
		reason string
	}{
		"until all are settled": {nil, "FailedIndexes"},
		"until too many failed": {new(int32(0)), "MaxFailedIndexesExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := indexed(newJob(2, 5))
				job.Spec.BackoffLimit, job.Spec.BackoffLimitPerIndex, job.Spec.MaxFailedIndexes = new(int32(100)), new(int32(1)), test.most
				job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
					{Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: exits(batchv1.PodFailurePolicyOnExitCodesOpIn, 7)},
					{Action: batchv1.PodFailurePolicyActionFailIndex, OnExitCodes: exits(batchv1.PodFailurePolicyOnExitCodesOpIn, 8)},
				}}
				tries := map[string]int{}
				var seen []string
				w := play(t, job, func(pod *corev1.Pod) int32 {
					i := index(pod)
					tries[i]++
					seen = append(seen, fmt.Sprintf("%s: %s %s", i, pod.Annotations[batchv1.JobIndexFailureCountAnnotation],
						pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation]))
					switch {
					case i == "1", i == "3" && tries[i] == 1:
						return 1
					case i == "0" && tries[i] <= 2:
						return 7
					case i == "4":
						return 8
					}
					return 0
				})
				got := w.jobs.list()[0]
				if want := []string{"FailureTarget=True " + test.reason, "Failed=True " + test.reason}; !slices.Equal(jobReasons(got), want) {
					t.Errorf("conditions %v", jobReasons(got))
				}
				if test.most != nil {
					return
				}
				s := got.Status
				if s.CompletedIndexes != "0,2,3" || *s.FailedIndexes != "1,4" || s.Succeeded != 3 || s.Failed != 4 {
					t.Errorf("status %+v, failed %q", s, *s.FailedIndexes)
				}
				for _, want := range []string{"0: 0 ", "0: 0 1", "0: 0 2", "1: 0 ", "1: 1 ", "2: 0 ", "3: 0 ", "3: 1 ", "4: 0 "} {
					if n := len(seen); !slices.Contains(seen, want) || n != 9 {
						t.Errorf("%d pods, and none as %q: %q", n, want, seen)
					}
				}
			})
		})
	}
}

func exits(operator batchv1.PodFailurePolicyOnExitCodesOperator, codes ...int32) *batchv1.PodFailurePolicyOnExitCodesRequirement {
	return &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: operator, Values: codes}
}

func TestJobFailurePolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := newJob(1, 1)
		job.Spec.BackoffLimit = new(int32(1))
		job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
			{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: exits(batchv1.PodFailurePolicyOnExitCodesOpNotIn, 1, 2)},
		}}
		n := 0
		w := play(t, job, func(pod *corev1.Pod) int32 {
			if n++; n <= 3 {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
				return 137
			}
			return []int32{1, 42}[n-4]
		})
		got := w.jobs.list()[0]
		if got.Status.Failed != 2 || n != 5 || got.Status.Conditions[1].Reason != "PodFailurePolicy" {
			t.Errorf("after %d pods: %+v", n, got.Status)
		}
		last := got.Status.Conditions[0].Message
		if !strings.HasPrefix(last, "Container main for pod default/sum-") || !strings.HasSuffix(last, " failed with exit code 42 matching FailJob rule at index 1") {
			t.Errorf("message %q", last)
		}
	})
}

func TestJobSuccessPolicy(t *testing.T) {
	for name, test := range map[string]struct {
		rule batchv1.SuccessPolicyRule
		met  bool
	}{
		"all of some":        {batchv1.SuccessPolicyRule{SucceededIndexes: new("1,3")}, true},
		"a number of some":   {batchv1.SuccessPolicyRule{SucceededIndexes: new("0-3"), SucceededCount: new(int32(2))}, true},
		"a number":           {batchv1.SuccessPolicyRule{SucceededCount: new(int32(2))}, true},
		"all, and one fails": {batchv1.SuccessPolicyRule{SucceededIndexes: new("0,1")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job := indexed(newJob(4, 4))
				job.Spec.BackoffLimit = new(int32(6)) // 7 failures take longer than 2 successes
				job.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: new("0")}, test.rule}}
				var failures int32
				w := play(t, job, func(pod *corev1.Pod) int32 { // the even ones fail
					even := int32(1 - (index(pod)[0]-'0')%2)
					failures += even
					return even
				})
				got := w.jobs.list()[0]
				want := []string{"SuccessCriteriaMet=True SuccessPolicy", "Complete=True SuccessPolicy"}
				if !test.met {
					want = []string{"FailureTarget=True BackoffLimitExceeded", "Failed=True BackoffLimitExceeded"}
				}
				if !slices.Equal(jobReasons(got), want) || got.Status.CompletedIndexes != "1,3" {
					t.Errorf("conditions %v, completed %q", jobReasons(got), got.Status.CompletedIndexes)
				}
				if test.met && got.Status.Failed > failures {
					t.Errorf("%d failed, of which only %d on their own", got.Status.Failed, failures)
				}
				if test.met && got.Status.Conditions[0].Message != "Matched rules at index 1" {
					t.Errorf("message %q", got.Status.Conditions[0].Message)
				}
			})
		})
	}
}

// TestJobReplacementPolicy deletes a pod: its successor comes at once, or when
// it has ended.
func TestJobReplacementPolicy(t *testing.T) {
	for policy, atOnce := range map[batchv1.PodReplacementPolicy]bool{batchv1.TerminatingOrFailed: true, batchv1.Failed: false} {
		for _, mode := range []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion} {
			t.Run(fmt.Sprintf("%s/%s", policy, mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					job := newJob(1, 1)
					job.Spec.PodReplacementPolicy, job.Spec.CompletionMode = &policy, &mode
					must[*batchv1.Job](t)(w.jobs.Create(t.Context(), job))
					p := w.runJobs(t, lag{})
					synctest.Wait()
					first := w.pods.list()[0]
					if err := w.pods.Delete(t.Context(), first.Namespace, first.Name, metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Minute)
					if got, s := len(w.pods.list()) == 2, w.jobs.list()[0].Status; got != atOnce || (s.Failed == 1) != atOnce || *s.Terminating != 1 {
						t.Errorf("a second pod: %t, status %+v", got, s)
					}
					w.pods.alter(t, keyOf(first), func(p *corev1.Pod) { p.Status.Phase, p.DeletionGracePeriodSeconds = corev1.PodFailed, new(int64) })
					time.Sleep(time.Minute)
					if s := w.jobs.list()[0].Status; len(w.pods.list()) != 1 || w.pods.list()[0].UID == first.UID || s.Failed != 1 || *s.Terminating != 0 {
						t.Errorf("in the end %d pods, status %+v", len(w.pods.list()), s)
					}
					p.stop(t)
				})
			})
		}
	}
}
