package controllers

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The waits between pods of a Job after failures, as in Kubernetes.
const (
	jobBackoff    = 10 * time.Second
	maxJobBackoff = 10 * time.Minute
)

// defaultBackoffLimit is how many pods of a Job may fail if it does not say.
const defaultBackoffLimit = 6

// jobPlan is the next step of a Job, and the status that goes with it.
type jobPlan struct {
	create int
	delete []*corev1.Pod
	status batchv1.JobStatus
	// more is set when not everything was planned; again is when time changes
	// something, zero for never.
	more  bool
	again time.Duration
}

// planJob decides from the pods of job: those that stay, and those about to
// go.
func planJob(job *batchv1.Job, staying, going []*corev1.Pod, now time.Time) jobPlan {
	plan := jobPlan{status: *job.Status.DeepCopy()}
	s := &plan.status
	active := count(job, s, staying, going)
	if setSuspended(job, s, now); value(job.Spec.Suspend, false) {
		s.StartTime = nil
		plan.delete = active
		return plan
	}
	if s.StartTime == nil {
		start := metav1.NewTime(now)
		s.StartTime = &start
	}
	verdict, reason, message, left := jobVerdict(job, s, now)
	plan.again = left
	if verdict != "" {
		plan.delete = active
		finish(s, verdict, reason, message, len(active)+countRunning(going) == 0, now)
		return plan
	}
	want := value(job.Spec.Parallelism, 1)
	if job.Spec.Completions != nil {
		want = min(want, *job.Spec.Completions-s.Succeeded)
	} else if s.Succeeded > 0 {
		want = min(want, int32(len(active))) // with one done, the others finish and no more start
	}
	// A pod that is about to go may still be at work: its successor waits.
	missing := int(want) - len(active) - countRunning(going)
	switch {
	case int(want) < len(active):
		rankForDeletion(active)
		plan.delete = active[:len(active)-int(want)]
	case missing > 0:
		if wait := retryWait(staying, now); wait > 0 {
			plan.again = sooner(plan.again, wait)
			return plan
		}
		plan.create, plan.more = min(missing, burst), missing > burst
	}
	return plan
}

// count fills in the numbers of s and returns the active pods.
func count(job *batchv1.Job, s *batchv1.JobStatus, staying, going []*corev1.Pod) (active []*corev1.Pod) {
	var succeeded, failed, readyPods int32
	for _, pod := range slices.Concat(staying, going) {
		switch pod.Status.Phase {
		case corev1.PodSucceeded:
			succeeded++
		case corev1.PodFailed:
			failed++
		}
	}
	for _, pod := range staying {
		if ended(pod) {
			continue
		}
		active = append(active, pod)
		if ready(pod) {
			readyPods++
		}
	}
	terminating := int32(countRunning(going))
	s.Active, s.Ready, s.Terminating = int32(len(active)), &readyPods, &terminating
	s.Succeeded = max(job.Status.Succeeded, succeeded)
	s.Failed = max(job.Status.Failed, failed)
	return active
}

func countRunning(pods []*corev1.Pod) (n int) {
	for _, pod := range pods {
		if !ended(pod) {
			n++
		}
	}
	return n
}

// jobVerdict tells whether the Job is decided: by the condition that it is to
// have in the end, or an empty one and how long until its deadline.
func jobVerdict(job *batchv1.Job, s *batchv1.JobStatus, now time.Time) (verdict batchv1.JobConditionType, reason, message string, left time.Duration) {
	for _, c := range s.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type { // decided before
		case batchv1.JobSuccessCriteriaMet:
			return batchv1.JobComplete, c.Reason, c.Message, 0
		case batchv1.JobFailureTarget:
			return batchv1.JobFailed, c.Reason, c.Message, 0
		}
	}
	if s.Failed > value(job.Spec.BackoffLimit, defaultBackoffLimit) {
		return batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit", 0
	}
	if job.Spec.ActiveDeadlineSeconds != nil {
		left = s.StartTime.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second).Sub(now)
		if left <= 0 {
			return batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline", 0
		}
	}
	done := job.Spec.Completions != nil && s.Succeeded >= *job.Spec.Completions ||
		job.Spec.Completions == nil && s.Succeeded > 0 && s.Active == 0
	if done || value(job.Spec.Completions, 1) == 0 {
		return batchv1.JobComplete, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods", 0
	}
	return "", "", "", left
}

// finish sets the condition that announces verdict, and verdict itself once no
// pod runs any more.
func finish(s *batchv1.JobStatus, verdict batchv1.JobConditionType, reason, message string, quiet bool, now time.Time) {
	announcement := batchv1.JobSuccessCriteriaMet
	if verdict == batchv1.JobFailed {
		announcement = batchv1.JobFailureTarget
	}
	setJobCondition(s, announcement, corev1.ConditionTrue, reason, message, now)
	if !quiet {
		return
	}
	setJobCondition(s, verdict, corev1.ConditionTrue, reason, message, now)
	if verdict == batchv1.JobComplete {
		end := metav1.NewTime(now)
		s.CompletionTime = &end
	}
}

func setSuspended(job *batchv1.Job, s *batchv1.JobStatus, now time.Time) {
	if value(job.Spec.Suspend, false) {
		setJobCondition(s, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", now)
	} else if jobCondition(job, batchv1.JobSuspended) {
		setJobCondition(s, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now)
	}
}

func setJobCondition(s *batchv1.JobStatus, kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) {
	c := batchv1.JobCondition{Type: kind, Status: status, Reason: reason, Message: message,
		LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			if s.Conditions[i].Status != status {
				s.Conditions[i] = c
			}
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}

// retryWait is how long the next pod has to wait because of those that failed
// since the last one succeeded: 10 s after the first, doubled for each more.
func retryWait(pods []*corev1.Pod, now time.Time) time.Duration {
	var success, last time.Time
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded {
			success = later(success, endTime(pod))
		}
	}
	wait := time.Duration(0)
	for _, pod := range pods {
		if end := endTime(pod); pod.Status.Phase == corev1.PodFailed && end.After(success) {
			last = later(last, end)
			wait = min(max(jobBackoff, 2*wait), maxJobBackoff)
		}
	}
	return last.Add(wait).Sub(now)
}

// endTime is when the last container of a pod ended.
func endTime(pod *corev1.Pod) (end time.Time) {
	for i := range pod.Status.ContainerStatuses {
		if t := pod.Status.ContainerStatuses[i].State.Terminated; t != nil {
			end = later(end, t.FinishedAt.Time)
		}
	}
	if end.IsZero() {
		end = pod.CreationTimestamp.Time
	}
	return end
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// sooner is the smaller of two waits, of which zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}
